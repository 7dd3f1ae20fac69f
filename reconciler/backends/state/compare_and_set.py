"""Compare-and-set of one record in a compacted topic, by Kafka's transactional fencing.

``fence`` ends every earlier writer; what ``read`` returns then stays true until ``write``, or ``write`` raises Fenced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.librdkafka import CONNECT_SECONDS, AdminConnection, DebugLog, topic_reader
from reconciler.backends.connections.retries import patiently, reads_on
from reconciler.backends.state import topic as lock_topic
from reconciler.backends.state.hanging_transactions import end_unmarked
from reconciler.backends.wait_lines import WaitLines
from reconciler.errors import BlockedError, ClusterError
from reconciler.model.environment.topology import Cluster, Principal

Record = TypeVar("Record")
WRITE_SECONDS = 15.0
READ_SECONDS = 30.0
LEADER_SECONDS = 60.0
"""Brokers that answer choose a leader, or a coordinator, for a topic that was just made; a busy cluster takes its time.
"""
STUCK_SECONDS = 2.0
"""A transaction of the lock takes milliseconds: one that is waited for longer may hang, so that is looked for."""
# 90: PRODUCER_FENCED. A coordinator that fences in the middle of an EndTxn answers UNKNOWN instead (-1).
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, 90, KafkaError.UNKNOWN)


class RecordFencedError(Exception):
    """Another run called ``fence`` since we did. Fence and read again: our record may be there all the same."""


class LockLog:
    """Raises ClusterError. One thread at a time."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        key: str,
        transactional_id: str,
        principal: Principal = Principal.APPLY,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """``progress`` gets what is waited for; with None waits are short."""
        self.cluster = cluster
        self.progress = progress
        self.principal = principal
        self.topic = topic
        self.key = key.encode()
        self.transactional_id = transactional_id
        self._connection: AdminConnection | None = None
        self._producer: Producer | None = None

    def open(self) -> None:
        """Connects, and makes the topic where it is missing. Raises BlockedError for a cluster with a wrong id."""
        connection = self._connected()
        described = connection.cluster()
        if self.cluster.cluster_id not in (None, described.cluster_id):
            raise BlockedError(
                f"cluster {self.cluster.name} is declared with cluster_id {self.cluster.cluster_id}, but"
                f" {described.cluster_id} answered",
                "The environment's lock is kept there, and nothing is written to another cluster.",
                f"Correct bootstrap_servers or cluster_id of {self.cluster.name}.",
            )
        if connection.topic(self.topic) is None:
            self._create(connection, len(described.nodes))

    def exists(self) -> bool:
        """``identity`` connects."""
        return bool(self.identity()) and self._connected().topic(self.topic) is not None

    def identity(self) -> str:
        """The id of the cluster that answers."""
        return str(self._connected().cluster().cluster_id)

    def fence(self) -> None:
        connection = self._connected()
        settings = {
            **client_settings(self.cluster, self.principal),
            "transactional.id": self.transactional_id,
            "transaction.timeout.ms": 10_000,
            "compression.type": "gzip",
            "message.max.bytes": 100_000_000,  # before compression; the topic's own limit is for what is left
            "error_cb": connection.heard,
        }
        self._producer = None
        asked = errors.Asked(
            f"use the transactional id {self.transactional_id}", "Write", f"--transactional-id {self.transactional_id}"
        )
        try:
            producer = Producer(settings, logger=DebugLog())
            self._initialise(producer)
        except KafkaException as error:
            raise self._less_in_sync(self._error(error, asked)) from None
        self._producer = producer

    def _initialise(self, producer: Producer) -> None:
        """The first transaction of a cluster makes the topic of its coordinators. Raises KafkaException."""
        lines, began = WaitLines(self.progress or _unheard, 0.0), time.monotonic()
        while True:
            try:
                producer.init_transactions(WRITE_SECONDS)
            except KafkaException as error:
                waited = time.monotonic() - began
                if self.progress is None or not error.args[0].retriable() or waited > LEADER_SECONDS:
                    raise
                self.identity()  # it answers: a coordinator is being chosen
                lines.show(f"cluster {self.cluster.name}: waiting for a coordinator of {self.transactional_id}")
            else:
                return

    def read(self) -> bytes | None:
        """The newest committed value, None when there is none. Waits for transactions that are still open; those that
        hang it ends."""
        return self.read_all().get(self.key.decode())

    def read_all(self) -> Mapping[str, bytes]:
        """As ``read``, of all keys."""
        end = self._end()
        settings = client_settings(self.cluster, self.principal)
        consumer = topic_reader(settings, "reconciler-lock", self._connected().heard)
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            newest = self._newest(consumer, end)
            return {key.decode(errors="replace"): value for key, value in newest.items() if value is not None}
        finally:
            consumer.close()

    def write(self, value: bytes | None, key: str = "") -> None:
        """``key``: another one than ours. Raises FencedError when another writer came since ``fence``."""
        producer = self._producer
        if producer is None:
            raise RecordFencedError
        failed: list[KafkaError] = []
        try:
            producer.begin_transaction()
            producer.produce(
                self.topic,
                value,
                key.encode() or self.key,
                partition=0,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            producer.commit_transaction(WRITE_SECONDS)
        except KafkaException as error:
            self._producer = None
            cause = next(
                (item for item in failed if item.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED), error.args[0]
            )
            if cause.code() in _FENCED:
                raise RecordFencedError from None
            raise self._less_in_sync(self._error(KafkaException(cause), errors.write_topic(self.topic))) from None

    def _less_in_sync(self, error: ClusterError) -> ClusterError:
        """The error of a write that timed out; it names the cause where too few of the topic's brokers are in sync."""
        if error.kind not in ("unreachable", "other"):  # other: the transaction of such a write is still open
            return error
        try:
            asked = self._connected().admin.describe_topics(
                TopicCollection([self.topic]), request_timeout=CONNECT_SECONDS
            )
            self._connected().settle(asked.values())
            part = asked[self.topic].result().partitions[0]
        except (KafkaException, ClusterError):
            return error
        in_sync, wanted = len(part.isr), len(part.replicas)
        if in_sync == wanted:
            return error
        where = f"topic {self.topic} of cluster {self.cluster.name}"
        server = self._connected().speaker.bootstrap_servers[0]
        away = ", ".join(sorted({str(replica.id) for replica in part.replicas} - {str(item.id) for item in part.isr}))
        return ClusterError(
            error.cluster,
            "unreachable",
            f"{where} takes no record: {in_sync} of its {wanted} replicas are in sync, without broker {away}",
            "It is not written with fewer than its min.insync.replicas.",
            f"Start broker {away}. Or lower it: kafka-configs.sh --bootstrap-server {server} --alter"
            f" --entity-type topics --entity-name {self.topic} --add-config min.insync.replicas={max(1, in_sync)}",
        )

    def close(self) -> None:
        self._producer = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> AdminConnection:
        if self._connection is None or self._connection.closed:
            self._connection = AdminConnection(self.cluster, self.principal)
        return self._connection

    def _create(self, connection: AdminConnection, brokers: int) -> None:
        failed = lock_topic.make(connection, self.topic, brokers)
        if failed is None:
            return
        by_hand = lock_topic.by_hand(connection.speaker.bootstrap_servers[0], self.topic, brokers)
        todo = f"{failed.todo} Or create it once as a principal that may: {by_hand}"
        if "POLICY_VIOLATION" in failed.what:
            todo = f"{failed.todo} The name {self.topic} is fixed, and what brokers refuse they refuse everybody."
        raise ClusterError(
            failed.cluster,
            failed.kind,
            f"the topic of the environment's lock cannot be made: {failed.what}",
            failed.why or "Without the lock two applies could work against each other.",
            todo,
        )

    def _end(self) -> int:
        """The end of the log for everybody, beyond which nothing was written yet."""
        connection, part, lines = self._connected(), TopicPartition(self.topic, 0), WaitLines(self.progress or _unheard)

        def ask() -> int:
            asked = connection.admin.list_offsets(
                {part: OffsetSpec.latest()},
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=CONNECT_SECONDS,
            )
            connection.settle(asked.values())
            return int(asked[part].result().offset)

        try:
            waiting = f"cluster {self.cluster.name}: waiting for a leader of topic {self.topic}"
            patience = LEADER_SECONDS if self.progress is not None else CONNECT_SECONDS
            return patiently(ask, CONNECT_SECONDS, patience, lambda _: lines.show(waiting))
        except KafkaException as error:
            raise self._error(error, errors.read_topic(self.topic)) from None

    def _newest(self, consumer: Consumer, end: int) -> Mapping[bytes, bytes | None]:
        values: dict[bytes, bytes | None] = {}
        until = time.monotonic() + READ_SECONDS
        at, moved = 0, time.monotonic()
        while at < end:
            if time.monotonic() > until:
                reason = f"{self.topic} could not be read to its end in {READ_SECONDS:.0f} s"
                raise errors.unreachable(self._connected().speaker, (reason,))
            message = consumer.poll(0.2)
            if message is None:
                if time.monotonic() > moved + STUCK_SECONDS:
                    end_unmarked(self.cluster, self.principal)
                    moved = time.monotonic()
                continue
            moved = time.monotonic()
            error = message.error()
            if error is None:
                at = message.offset() + 1
                values[message.key() or b""] = message.value()
            elif error.code() == KafkaError._PARTITION_EOF:
                at = max(at, message.offset())
            elif not reads_on(error):
                raise self._error(KafkaException(error), errors.read_topic(self.topic))
        return values

    def _error(self, error: KafkaException, asked: errors.Asked) -> ClusterError:
        return self._connected().error(error.args[0], asked)


def _unheard(_line: str) -> None:
    """Drops the line."""


def understood(
    value: bytes | None, loads: Callable[[bytes], Record], cluster: str, record: str, why: str, todo: str
) -> Record | None:
    """None where there is no value. Raises ClusterError for one that another version of this program wrote."""
    try:
        return loads(value) if value is not None else None
    except ValueError as error:
        raise ClusterError(cluster, "invalid", f"{record} cannot be understood: {error}", why, todo) from None
