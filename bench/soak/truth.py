"""What is true of the copy, from both logs alone: read all the time by a consumer that shares no code with the mirror.

Records count by their key, value, headers and timestamp, in the order of each partition, as a reader of committed
records sees them.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from reconciler_sandbox.handles import ClusterHandle

from bench.soak.load import PARTITIONS, TOPIC
from bench.soak.threads import Beside

REMOTE = f"east.{TOPIC}"
REMEMBERED = 200_000
"""Records of a partition of which a double is still known."""


@dataclass(frozen=True, slots=True)
class Counts:
    """``missing``: passed over so far; lost when the copy is complete. ``foreign``: at the target and never read at the
    source."""

    records: int = 0
    missing: int = 0
    doubled: int = 0
    reordered: int = 0
    foreign: int = 0

    def since(self, before: Counts) -> Counts:
        return Counts(*(getattr(self, name) - getattr(before, name) for name in Counts.__slots__))


@dataclass(slots=True)
class PartitionTruth:
    """``waiting``: read at the source and not yet at the target, in order. ``held``: read at the target before the
    source's reader got there."""

    waiting: deque[bytes] = field(default_factory=deque)
    held: deque[bytes] = field(default_factory=deque)
    missing: set[bytes] = field(default_factory=set)
    known: set[bytes] = field(default_factory=set)
    order: deque[bytes] = field(default_factory=deque)
    read: int = 0
    copied: int = 0
    doubled: int = 0
    reordered: int = 0
    moved_at: float = field(default_factory=time.monotonic)

    def source(self, record: bytes) -> None:
        if not self.waiting:
            self.moved_at = time.monotonic()  # nothing waited until now
        self.read += 1
        self.waiting.append(record)
        while self.held and self._take(self.held[0]):
            self.held.popleft()

    def target(self, record: bytes) -> None:
        self.moved_at = time.monotonic()
        if self.held or not self._take(record):
            self.held.append(record)

    def _take(self, record: bytes) -> bool:
        """False: the source's reader has not seen it yet."""
        if self.waiting and self.waiting[0] == record:
            self.waiting.popleft()
        elif record in self.known:
            self.doubled += 1
            return True
        elif record in self.missing:
            self.missing.discard(record)
            self.reordered += 1
        elif record in self.waiting:
            while (passed := self.waiting.popleft()) != record:
                self.missing.add(passed)
        else:
            return False
        self.copied += 1
        self.known.add(record)
        self.order.append(record)
        if len(self.order) > REMEMBERED:
            self.known.discard(self.order.popleft())
        return True


class Truth(Beside):
    """Follows both logs until it is closed."""

    def __init__(self, source: ClusterHandle, target: ClusterHandle) -> None:
        sides = ((source, TOPIC, PartitionTruth.source), (target, REMOTE, PartitionTruth.target))
        super().__init__(*(partial(self._follow, *side) for side in sides), patience_s=30)
        self._guard = threading.Lock()
        self._partitions = [PartitionTruth() for _ in range(PARTITIONS)]

    def counts(self) -> Counts:
        with self._guard:
            return Counts(
                sum(part.read for part in self._partitions),
                sum(len(part.missing) for part in self._partitions),
                sum(part.doubled for part in self._partitions),
                sum(part.reordered for part in self._partitions),
                sum(len(part.held) for part in self._partitions),
            )

    def lag(self) -> int:
        with self._guard:
            return sum(len(part.waiting) for part in self._partitions)

    def stands(self, records: int, seconds: float) -> int:
        """The records that wait in partitions with at least so many, of which none was copied for so long."""
        now = time.monotonic()
        with self._guard:
            each = [len(part.waiting) for part in self._partitions if now - part.moved_at > seconds]
        return sum(lag for lag in each if lag >= records)

    def read(self) -> list[int]:
        """Records of each partition of the source so far."""
        with self._guard:
            return [part.read for part in self._partitions]

    def copied(self, reads: list[int]) -> bool:
        """Whether what was read by then is at the target, or was passed over."""
        with self._guard:
            return all(
                part.read - len(part.waiting) >= read for part, read in zip(self._partitions, reads, strict=True)
            )

    def _follow(self, cluster: ClusterHandle, topic: str, take: Any) -> None:
        consumer = Consumer(
            {
                **cluster.super_client(),
                "group.id": "soak-truth",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 200,
                "reconnect.backoff.max.ms": 1000,
                "check.crcs": True,
                "log_level": 0,
            }
        )
        positions = dict.fromkeys(range(PARTITIONS), 0)
        assigned = False
        while not self.stop.is_set():
            if not assigned:
                consumer.assign([TopicPartition(topic, *position) for position in positions.items()])
                assigned = True
            answers = consumer.consume(1000, 0.5)
            messages = [message for message in answers if message.error() is None]
            positions |= {int(message.partition() or 0): int(message.offset() or 0) + 1 for message in messages}
            # A broker that was killed knows its end again a moment after it answers.
            errors = [error.code() for message in answers if (error := message.error()) is not None]
            assigned = KafkaError._AUTO_OFFSET_RESET not in errors
            digests = [(message.partition(), _digest(message)) for message in messages]
            with self._guard:
                for partition, digest in digests:
                    take(self._partitions[partition], digest)
        consumer.close()


def _digest(message: Message) -> bytes:
    key, value = message.key(), message.value()
    parts = [
        str(message.timestamp()).encode(),
        repr(key).encode(),
        repr(value).encode(),
        repr(message.headers()).encode(),
    ]
    return hashlib.blake2b(b"\0".join(parts), digest_size=12).digest()
