"""Steady load on a topic, and the proof that each record arrived once."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Producer
from reconciler_mirror.lane.partition import Partition

from bench.records.aborting import Aborting, aborted_records
from reconciler.sandbox.handles import ClusterHandle
from tests.support.lanes.lane_runs import Flow

PARTITIONS = 4


class Load:
    """Writes numbered records to every partition of a topic until stopped; beside them transactions that abort."""

    def __init__(self, cluster: ClusterHandle, topic: str, per_second: int = 4000) -> None:
        self._producer = Producer(
            {
                **cluster.super_client(),
                "linger.ms": 5,
                "compression.type": "lz4",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        self._cluster = cluster
        self._topic = topic
        self._per_second = per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._aborting = Aborting(cluster, topic, PARTITIONS)
        self.written = 0

    def __enter__(self) -> Load:
        self._aborting.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends when aborted records have reached the log, so that leaving them out is seen."""
        until, more = time.monotonic() + 60, self._aborting.aborted + 4  # what a broker was down for never came there
        while self._aborting.aborted < more and time.monotonic() < until:
            time.sleep(0.05)
        self._aborting.__exit__()
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        found = aborted_records(self._cluster, self._topic, PARTITIONS)
        assert found >= 4 * PARTITIONS, "aborted records reach the log, so that leaving them out is seen"

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for _ in range(self._per_second // 20 // PARTITIONS):
                for partition in range(PARTITIONS):
                    self._write(partition)
                self.written += 1
            self._producer.poll(0)

    def _write(self, partition: int) -> None:
        while True:
            try:
                return self._producer.produce(self._topic, b"%d" % self.written, b"k", partition)
            except BufferError:  # its broker is away for long
                self._producer.poll(0.1)


def assert_once(flow: Flow, written: int) -> None:
    """Nothing lost, nothing doubled, order kept."""
    expected = [b"%d" % i for i in range(written)]
    for partition, records in flow.target_content().items():
        values = [value for _, value, _, _ in records]
        assert len(values) == written, f"partition {partition}: {len(values)} of {written} records"
        assert values == expected


FIRST = 2**31 - 333


def shortly_before(*given: object, **more: object) -> Partition:
    partition = Partition(*given, **more)  # type: ignore[arg-type]
    partition.sequence = FIRST
    return partition
