"""Appends records to a topic unchanged: key, value, headers and timestamp, each to a named partition.

The producer is idempotent, so brokers write a retried batch once; with a transactional id each ``finish`` is one
transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import AGAIN_SECONDS, Requests
from reconciler.kafka.client.errors import TOO_LARGE, BrokerError, ConnectionLostError
from reconciler.kafka.client.small_topics import append_batch
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.records.batches import next_sequence
from reconciler.kafka.records.codecs import LZ4
from reconciler.kafka.records.fields import HeaderBytes
from reconciler.kafka.records.records import GATHER_BYTES, Record, encode, tail_of
from reconciler.model.environment.topology import Cluster, Principal

SECONDS = 30.0


class TopicWriter:
    """Writes to one topic, within a ``with``. ``partitions``: their number, None if the topic does not exist.
    ``restamped``: number of records that got the broker's time in place of their timestamp (LogAppendTime)."""

    def __init__(self, cluster: Cluster, principal: Principal, topic: str, transactional_id: str | None = None) -> None:
        self.topic = topic
        self._transactional_id = transactional_id
        self.partitions: int | None = None
        self.restamped = 0
        self._asked = errors.write_topic(topic)
        self._held: dict[int, list[Record]] = {}
        self._bytes = 0
        # Partition -> next sequence of the idempotent producer, by which brokers recognise a batch that is sent twice.
        self._sequences: dict[int, int] = {}
        self._writer: Identity | None = None
        self._requests = Requests(cluster, principal)

    def __enter__(self) -> TopicWriter:
        """Raises ClusterError."""
        self._requests.__enter__()
        try:
            described = self._requests.topic(self.topic)
        except BaseException:
            self._requests.__exit__()
            raise
        self.partitions = None if described is None else len(described.leaders)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._requests.__exit__()

    def append(
        self,
        partition: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[HeaderBytes],
    ) -> None:
        """Buffers a record. ``timestamp``: ms since 1970. Raises ClusterError if the broker refused this record or an
        earlier one."""
        tail = tail_of(key, value, headers)
        self._held.setdefault(partition, []).append(Record(0, max(0, timestamp), 0, tail))
        self._bytes += len(tail)
        if self._bytes >= GATHER_BYTES:
            self.finish()

    def finish(self) -> None:
        """Returns once all records are written. Raises ClusterError, possibly after a part was written."""
        held, self._held, self._bytes = self._held, {}, 0
        self._requests.run(self._asked, lambda: self._write(held))

    async def _write(self, held: Mapping[int, Sequence[Record]]) -> None:
        """Writes buffered records, in one transaction if the writer has a transactional id. The first write initialises
        the producer. An EndTxn that returns a new epoch (KIP-890) resets the sequences."""
        writer = self._writer
        if writer is None:
            writer = self._writer = Identity(self._requests.wire, self._transactional_id, "")
            await writer.start()
        if writer.transactional and not writer.version_2 and held:
            await writer.add_partitions([(self.topic, partition) for partition in held])
        for partition, records in held.items():
            await self._write_to(partition, records, writer)
        if writer.transactional and held and await writer.end(committed=True):
            self._sequences.clear()

    async def _write_to(self, partition: int, records: Sequence[Record], writer: Identity) -> None:
        """Sends one batch, and repeats it with the same sequence while its result is unknown. A batch that is too large
        for the topic is halved."""
        until, sequence = time.monotonic() + SECONDS, self._sequences.get(partition, 0)
        while True:
            try:
                key = self.topic, partition
                answer = await append_batch(self._requests.wire, key, encode(records, LZ4), writer, sequence)
            except (BrokerError, ConnectionLostError) as error:
                if isinstance(error, BrokerError) and error.code in TOO_LARGE and len(records) > 1:
                    middle = len(records) // 2
                    await self._write_to(partition, records[:middle], writer)
                    await self._write_to(partition, records[middle:], writer)
                    return
                if (isinstance(error, BrokerError) and not error.retriable) or time.monotonic() > until:
                    raise
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                self._sequences[partition] = next_sequence(sequence, len(records))
                self.restamped += len(records) if answer.stamp >= 0 else 0
                return
