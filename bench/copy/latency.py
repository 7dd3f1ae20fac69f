"""A trickle through a mirror: how long from produce at the source to a read_committed reader at the target.

Plain, or in transactions that end many times a second, some of them aborted.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.copy.commits import ABORTED, STAMP, Commits
from bench.copy.figures import BenchError, Clusters, Failed, Latency, Run, System
from bench.copy.measure import START_LIMIT_S, fresh_run, started
from bench.processes.cpu import Usage, cpu_seconds
from bench.records.topics import admin_client, create_topic, delete_topics, partition_count

CASE = "latency"
PARTITIONS = 8
SETTLE_S = 5.0
LATE_MS = 1_000.0
LAST = 0.1
"""Of what is measured: the share of it that tells whether a system keeps up."""


@dataclass(frozen=True, slots=True)
class Trickle:
    """``seconds`` are measured, after the first record arrived and ``warm_s`` more have passed. ``rate``: records a
    second; or else ``commits``: transactions a second that end in each partition, each with a record there, of which
    the share ``aborted`` does not count."""

    rate: int = 500
    commits: int = 0
    aborted: float = 0.0
    warm_s: float = 10.0
    seconds: float = 40.0
    value_bytes: int = 200


TRICKLES: Mapping[str, tuple[int, float]] = {
    CASE: (0, 0.0),
    **{f"{CASE}-commits-{rate}": (rate, 0.0) for rate in (10, 25, 50)},
    f"{CASE}-commits": (100, 0.0),
    f"{CASE}-aborted": (100, 0.3),
}
"""By the names of cases: ``commits`` and ``aborted`` of the trickle."""


class Writing(Protocol):
    """What writes to the source: ``sent`` records that count, numbered from 0 without gaps."""

    sent: int
    over: threading.Event

    def start(self) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool: ...


def percentile(ordered: list[float], share: float) -> float:
    """Nearest rank; ``ordered`` ascending and not empty."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


class Source(threading.Thread):
    """Produces at a steady rate, one record at a time, until told to stop. ``sent`` counts from 0 without gaps."""

    def __init__(self, bootstrap: str, topic: str, trickle: Trickle) -> None:
        super().__init__(name="trickle", daemon=True)
        self.topic = topic
        self.trickle = trickle
        self.sent = 0
        self.over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True, "log_level": 3}
        )

    def run(self) -> None:
        padding = bytes(self.trickle.value_bytes - STAMP.size)
        began = time.monotonic()
        while not self.over.is_set():
            pause = began + self.sent / self.trickle.rate - time.monotonic()
            if pause > 0:
                self._producer.poll(pause)
                continue
            value = STAMP.pack(self.sent, time.monotonic_ns()) + padding
            self._producer.produce(self.topic, value, partition=self.sent % PARTITIONS)
            self.sent += 1
        self._producer.flush(30)


class Reader:
    """The consumer at the target. ``delays`` maps a record's number to milliseconds; a second copy is ``doubled``."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.delays: dict[int, float] = {}
        self.doubled = 0
        self._admin = admin_client(bootstrap)
        self._assigned = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "bench-latency",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )

    def read(self, seconds: float) -> None:
        """Reads for about ``seconds``; waits for the topic where it does not exist yet."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not self._assigned and not self._assign():
                time.sleep(min(0.1, left))
                continue
            for message in self._consumer.consume(100, min(0.002, left)):
                now = time.monotonic_ns()
                if message.error() is not None:
                    raise BenchError(f"{self.topic} could not be read: {message.error()}")
                number, produced = STAMP.unpack_from(message.value() or b"")
                if number == ABORTED:
                    raise BenchError(f"a record of an aborted transaction was read from {self.topic}")
                self.doubled += number in self.delays
                self.delays.setdefault(number, (now - produced) / 1e6)

    def _assign(self) -> bool:
        self._assigned = partition_count(self._admin, self.topic) == PARTITIONS
        if self._assigned:
            self._consumer.assign([TopicPartition(self.topic, index, 0) for index in range(PARTITIONS)])
        return self._assigned

    def close(self) -> None:
        self._consumer.close()


def latency(system: System, clusters: Clusters, case: str, trickle: Trickle, repeat: int) -> Latency | Failed:
    """Runs the trickle of ``case`` through ``system`` once. What goes wrong is told in ``Failed``."""
    commits, aborted = TRICKLES[case]
    trickle = replace(trickle, commits=commits, aborted=aborted)
    admin = admin_client(clusters.source)
    topic = f"trickle-{time.time_ns() // 1_000_000}"
    create_topic(admin, topic, PARTITIONS, {"retention.ms": "-1"})
    try:
        with fresh_run(clusters, topic) as run:
            return _latency(system, clusters, run, case, trickle, repeat)
    except BenchError as error:
        return Failed(case, system.name, repeat, str(error))
    finally:
        delete_topics(admin, [topic])


def _latency(system: System, clusters: Clusters, run: Run, case: str, trickle: Trickle, repeat: int) -> Latency:
    source: Writing = Source(run.source, run.topic, trickle)
    if trickle.commits:
        source = Commits(run.source, run.topic, PARTITIONS, trickle.commits, trickle.aborted, trickle.value_bytes)
    reader = Reader(run.target, run.remote_topic)
    try:
        with started(system, run) as tree:
            source.start()
            _wait_first(system, run, reader)
            reader.read(trickle.warm_s)
            first, before, others = source.sent, tree.sample(), _others(clusters)
            reader.read(trickle.seconds)
            last, after = source.sent, tree.sample()
            cores = {name: (spent - others[name]) / trickle.seconds for name, spent in _others(clusters).items()}
            source.over.set()
            reader.read(SETTLE_S)
    finally:
        source.over.set()
        if source.is_alive():
            source.join(30)
        reader.close()
    figures = _figures(system, case, repeat, reader, range(first, last), after.since(before), trickle.seconds)
    return replace(figures, other_cores=cores)


def _others(clusters: Clusters) -> dict[str, float]:
    """CPU seconds until now."""
    mine = os.times()
    return {name: cpu_seconds(pid) for name, pid in clusters.broker_pids.items()} | {"bench": mine.user + mine.system}


def _wait_first(system: System, run: Run, reader: Reader) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while not reader.delays:
        reader.read(1.0)
        if (log := system.alive(run)) is not None:
            raise BenchError(f"{system.name} ended before the first record:\n{log}")
        if time.monotonic() > deadline:
            raise BenchError(f"{system.name}: no record in {START_LIMIT_S:.0f} s")


def _figures(
    system: System, case: str, repeat: int, reader: Reader, numbers: range, spent: Usage, seconds: float
) -> Latency:
    delays = sorted(reader.delays[number] for number in numbers if number in reader.delays)
    if not delays:
        raise BenchError(f"{system.name}: none of {len(numbers)} records arrived")
    last = numbers[-max(1, int(len(numbers) * LAST)) :]
    return Latency(
        case=case,
        system=system.name,
        exactly_once=system.exactly_once,
        repeat=repeat,
        records=len(numbers),
        lost=len(numbers) - len(delays),
        p50_ms=percentile(delays, 0.50),
        p99_ms=percentile(delays, 0.99),
        max_ms=delays[-1],
        cpu_cores=spent.cpu_s / seconds,
        seconds=seconds,
        late=sum(reader.delays.get(number, math.inf) > LATE_MS for number in last),
    )
