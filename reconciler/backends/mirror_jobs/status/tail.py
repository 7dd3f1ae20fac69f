"""Reads the newest record of each key of a small compacted topic; kept open, it reads only what is new."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.librdkafka import CONNECT_SECONDS, topic_reader, unheard
from reconciler.backends.connections.requests import Requests
from reconciler.backends.connections.retries import patiently, reads_on
from reconciler.model.environment.topology import Cluster, Principal

TAIL_RECORDS = 500
"""Offsets before the end of each partition that are read first."""
READ_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Newest:
    """``value`` None: the key was deleted. ``headers``: by name."""

    partition: int
    offset: int
    timestamp_ms: int
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)

    def follows(self, other: Newest) -> bool:
        """Within a partition by offset: a clock may have been set back. Partitions that were added need a clock."""
        if self.partition == other.partition:
            return self.offset >= other.offset
        return self.timestamp_ms >= other.timestamp_ms


Kind = TypeVar("Kind", bound="Tail")


def open_tail(cluster: Cluster, principal: Principal, topic: str, kind: type[Kind]) -> Kind | None:
    """None when the topic does not exist. Raises ClusterError.

    Our own connection asks first: librdkafka can abort the process when its own admin request times out.
    """
    with Requests(cluster, principal) as requests:
        described = requests.topic(topic)
    if described is None:
        return None
    consumer = topic_reader(client_settings(cluster, principal), "reconciler-status", unheard)
    try:
        return kind(requests, consumer, topic, sorted(described.leaders))
    except BaseException:
        consumer.close()  # at once and here: a client must not be left to the garbage collector
        raise


class Tail:
    """A consumer at the end of the status topic, and the newest record of each key it has seen."""

    records = TAIL_RECORDS

    def __init__(self, requests: Requests, consumer: Consumer, topic: str, partitions: Sequence[int]) -> None:
        """``requests``: closed, for the words of errors."""
        self.cluster_id = requests.cluster_id
        self._requests = requests
        self.topic = topic
        self._asked = errors.read_topic(topic)
        self.consumer = consumer
        self.newest: dict[str, Newest] = {}
        self._next: dict[int, int] = {}
        self._unread: dict[int, tuple[int, int]] = {}
        for partition in partitions:
            low, high = self._bounds(partition)
            start = max(low, high - self.records)
            self._next[partition] = start
            if low < start:
                self._unread[partition] = (low, start)

    def advance(self) -> bool:
        """Reads to the end. False when the topic ends before the place already read: it is another one."""
        ends = {partition: self._bounds(partition)[1] for partition in self._next}
        if any(end < self._next[partition] for partition, end in ends.items()):
            return False
        self._read({p: (self._next[p], end) for p, end in ends.items() if self._next[p] < end})
        self._next = ends
        return True

    def complete(self) -> None:
        """Reads what lies before the first tail, once."""
        self._read(self._unread)
        self._unread = {}

    def _bounds(self, partition: int) -> tuple[int, int]:
        """First offset and end. A partition that was just made or moved has no leader for a moment."""
        place = TopicPartition(self.topic, partition)
        try:
            bounds = patiently(lambda: self.consumer.get_watermark_offsets(place, CONNECT_SECONDS), CONNECT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # it was there: the client has lost its brokers
                lost = f"partition {partition} of {self.topic} has not been found again"
                raise errors.unreachable(self._requests.speaker, (lost,)) from None
            raise self._requests.error(error.args[0], self._asked) from None
        return int(bounds[0]), int(bounds[1])

    def _read(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Every record from start to end (not included) of each partition."""
        if not ranges:
            return
        until = time.monotonic() + READ_SECONDS
        self.consumer.assign([TopicPartition(self.topic, p, start) for p, (start, _) in ranges.items()])
        waiting = dict(ranges)
        while waiting:
            if time.monotonic() > until:
                raise errors.unreachable(
                    self._requests.speaker, (f"{self.topic} could not be read in {READ_SECONDS:.0f} s",)
                )
            for message in self.consumer.consume(500, timeout=0.2):
                if self._at(message) >= waiting.get(message.partition(), (0, 0))[1]:
                    waiting.pop(message.partition(), None)
        self.consumer.unassign()

    def take(self, message: Message) -> None:
        key = (message.key() or b"").decode(errors="replace")
        headers = {name: value for name, value in message.headers() or () if value is not None}
        newest = Newest(message.partition(), message.offset(), message.timestamp()[1], message.value(), headers)
        if key not in self.newest or newest.follows(self.newest[key]):
            self.newest[key] = newest

    def _at(self, message: Message) -> int:
        """Takes a record; the next offset of its partition, or -1 for what is no record."""
        error = message.error()
        if error is None:
            self.take(message)
            return int(message.offset()) + 1
        if error.code() == KafkaError._PARTITION_EOF:
            return int(message.offset())
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART or not reads_on(error):
            raise self._requests.error(error, self._asked)
        return -1
