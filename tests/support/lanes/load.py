"""Steady load on a topic, and the proof that each record arrived once."""

from __future__ import annotations

import random
import threading
import time

from confluent_kafka import Producer
from reconciler_mirror.lane.partition import Partition
from reconciler_sandbox.handles import ClusterHandle

from bench.records.aborting import Aborting, aborted_records
from tests.support.lanes.lane_runs import Flow, producer

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
    partition.outbox.sequence = FIRST
    return partition


def mixed(flow: Flow, rounds: int, seed: int = 1) -> None:
    """Plain batches, and transactions of two producers, committed and aborted, mixed with each other."""
    rng = random.Random(seed)
    plain = producer(flow.source, compression_type="lz4", linger_ms=0)
    named: list[Producer] = []
    for i in range(2):
        named.append(producer(flow.source, transactional_id=f"{flow.topic}-{i}-{seed}", linger_ms=0))
        named[-1].init_transactions()
    number = 0

    def produce(made: Producer, most: int) -> None:
        nonlocal number
        for _ in range(rng.randint(0, most)):
            number += 1
            made.produce(flow.topic, b"%d-%d" % (seed, number), b"k%d" % (number % 50), number % 2)
        made.flush()

    for _ in range(rounds):
        produce(plain, 30)
        for made in named:
            made.begin_transaction()
        for made in named * 2:
            produce(made, 5)
        for made in named:
            (made.commit_transaction if rng.random() < 0.6 else made.abort_transaction)()


def write(handle: ClusterHandle, topic: str, values: list[str], *, aborted: bool = False) -> None:
    """One transaction into partition 0, with keys, a header and timestamps from 1,000 on."""
    settings = {**handle.super_client(), "compression.type": "lz4", "transactional.id": f"{topic}-{aborted}"}
    producer = Producer(settings)
    producer.init_transactions(20)
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value, key=f"k{number}", partition=0, headers=[("h", b"1")], timestamp=1_000 + number)
    producer.flush(20)
    (producer.abort_transaction if aborted else producer.commit_transaction)(20)
