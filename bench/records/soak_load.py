"""What a soak writes and finds: numbered records in, and what a read_committed reader sees of them at the other end."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.records.aborting import ABORTED, Aborting
from reconciler.sandbox.handles import ClusterHandle

PARTITIONS = 8
TOPIC = "soak"
REMOTE = f"east.{TOPIC}"
PROGRESS_SECONDS = 180.0


class SoakError(Exception):
    """What must hold did not hold."""


@dataclass(frozen=True, slots=True)
class Round:
    """``until_progress_s``: from the kill to the next record committed on the target."""

    victim: str
    until_progress_s: float


@dataclass(slots=True)
class Verdict:
    """Of all partitions: what was written, what a read_committed reader finds. ``aborted``: records of aborted
    transactions in the source's log; ``aborted_copied``: at the target."""

    written: int = 0
    lost: int = 0
    doubled: int = 0
    out_of_order: int = 0
    aborted: int = 0
    aborted_copied: int = 0
    rounds: list[Round] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.aborted > 0 and not (self.lost or self.doubled or self.out_of_order or self.aborted_copied)


class Load:
    """Numbers each record of each partition from 0; beside them, transactions that abort."""

    def __init__(self, source: ClusterHandle, per_second: int) -> None:
        ours = {**source.super_client(), "log_level": 0}
        self.producer = Producer(
            {
                **ours,
                "linger.ms": 5,
                "compression.type": "lz4",
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
            }
        )
        self.aborting = Aborting(source, TOPIC, PARTITIONS)
        self.per_second = per_second
        self.written = 0
        self.failed = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self.aborting.__enter__()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.aborting.__exit__()
        self.stopping.set()
        self.thread.join()
        left = self.producer.flush(300)
        if left or self.failed:
            raise SoakError(f"the load itself failed: {left} records not sent, {self.failed} refused")

    def _run(self) -> None:
        while not self.stopping.wait(0.05):
            for _ in range(max(1, self.per_second // 20 // PARTITIONS)):
                for partition in range(PARTITIONS):
                    self._send(partition)
                self.written += 1
            self.producer.poll(0)

    def _send(self, partition: int) -> None:
        while True:
            try:
                self.producer.produce(TOPIC, b"%d" % self.written, b"k", partition, on_delivery=self._delivered)
                return
            except BufferError:
                self.producer.poll(0.1)

    def _delivered(self, error: object, _: object) -> None:
        self.failed += error is not None


def ends(cluster: ClusterHandle, topic: str) -> dict[int, int]:
    """The last stable offset of each partition. A broker that just came back leads after a moment."""
    until = time.monotonic() + PROGRESS_SECONDS
    while True:
        consumer = Consumer({**cluster.super_client(), "group.id": "soak-ends", "log_level": 0})
        try:
            places = {partition: TopicPartition(topic, partition) for partition in range(PARTITIONS)}
            return {one: int(consumer.get_watermark_offsets(at, timeout=10)[1]) for one, at in places.items()}
        except KafkaException:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        finally:
            consumer.close()


def await_progress(cluster: ClusterHandle) -> float:
    """Seconds until every partition of the target has grown. Raises SoakError after PROGRESS_SECONDS."""
    began, before = time.monotonic(), ends(cluster, REMOTE)
    while time.monotonic() - began < PROGRESS_SECONDS:
        now = ends(cluster, REMOTE)
        if all(now[partition] > before[partition] for partition in before):
            return time.monotonic() - began
        time.sleep(0.1)
    raise SoakError(f"nothing was copied for {PROGRESS_SECONDS:.0f} s; the target stands at {ends(cluster, REMOTE)}")


def values(cluster: ClusterHandle, partition: int) -> Iterator[bytes]:
    consumer = Consumer(
        {
            **cluster.super_client(),
            "group.id": "soak-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([TopicPartition(REMOTE, partition, 0)])
        while True:
            for message in consumer.consume(10_000, 10.0):
                if message.error() is not None:
                    return
                yield bytes(message.value())
    finally:
        consumer.close()


def judge(cluster: ClusterHandle, written: int, verdict: Verdict) -> None:
    for partition in range(PARTITIONS):
        everything = list(values(cluster, partition))
        found = [int(value) for value in everything if value != ABORTED]
        verdict.aborted_copied += len(everything) - len(found)
        times = Counter(found)
        verdict.lost += written - len(times)
        verdict.doubled += len(found) - len(times)
        verdict.out_of_order += sum(a > b for a, b in pairwise(found))
    verdict.written = written * PARTITIONS


def await_all(cluster: ClusterHandle, written: int) -> None:
    """The last record of each partition is on the target, for a read_committed reader."""
    until = time.monotonic() + PROGRESS_SECONDS
    while time.monotonic() < until:
        if all(b"%d" % (written - 1) in set(values(cluster, partition)) for partition in range(PARTITIONS)):
            return
        time.sleep(2)
