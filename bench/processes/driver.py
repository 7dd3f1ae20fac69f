"""``python -m bench.processes.driver``: what a mirror's driver costs with 100,000 busy partitions in 200 lanes.

The driver's own parts at work, without Spark and brokers: leases, the control channel over loopback, the board, status
records and metrics. Tasks are played by another process (``bench.processes.lane_reports``), whose cost is not counted.
``--tls``: the channel as beyond loopback. ``--conditions``: each partition tells one, as in an outage.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from reconciler_mirror.board.board import Board
from reconciler_mirror.lane.progress import report_pause
from reconciler_mirror.leases.channel_listener import ServerIdentity, open_listener
from reconciler_mirror.leases.leases import ROWS_PER_S, Leases
from reconciler_mirror.model.lane import Claim, Discovered, PartitionSpec
from reconciler_mirror.report.metrics import MetricsSnapshot, families
from reconciler_mirror.report.status import Application, now_ms, record

from bench.processes.lane_reports import ManyLanes, OneLane
from reconciler.replication.handover import ChannelSettings, MirrorSettings
from reconciler.replication.handover_reader import parse
from reconciler.replication.status import document
from tests.support.access.certificates import self_signed
from tests.support.lanes.handover import handover

FLOWS = 4
STATUS_S, SHARE_S, POLL_S, SCRAPE_S = 2.0, 0.5, 2.0, 15.0
"""As the driver does it, with the default status interval and Prometheus' usual one."""
SETTLE_S = 10.0


@dataclass
class NoSpark:
    """Submitted leases, which run until ``over``."""

    master: str = "local[1]"
    leases: list[Any] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def setJobGroup(self, *_: str) -> None: ...  # noqa: N802  # Spark's names
    def setLocalProperty(self, *_: str) -> None: ...  # noqa: N802
    def cancelJobGroup(self, _: str) -> None: ...  # noqa: N802

    def cancelAllJobs(self) -> None:  # noqa: N802
        self.over.set()

    def statusTracker(self) -> Any:  # noqa: N802
        info = SimpleNamespace(stageIds=[0], numActiveTasks=1)
        return SimpleNamespace(getJobIdsForGroup=lambda _: [0], getJobInfo=lambda _: info, getStageInfo=lambda _: info)

    def parallelize(self, content: list[Any], _: int) -> Any:
        def collect() -> list[Any]:
            self.leases.append(pickle.loads(content[0].work)[1])  # our own
            self.over.wait()
            return []

        return SimpleNamespace(mapPartitions=lambda _: SimpleNamespace(collect=collect))


def settings_of(lanes: int, leases: int) -> MirrorSettings:
    document = handover()
    [flow] = document["flows"][:1]
    flows = [{**flow, "name": f"flow-{number}", "lanes": lanes // FLOWS} for number in range(FLOWS)]
    return parse(json.dumps({**document, "parallelism": leases, "flows": flows}))


def discovered(flow: str, partitions: int) -> Discovered:
    topics, each = partitions // 100, 100
    specs = tuple(
        PartitionSpec(f"{flow}-topic-{topic:04}", number, f"east.{flow}-topic-{topic:04}", "id")
        for topic in range(topics)
        for number in range(each)
    )
    return Discovered(specs, topics=topics, complete=True)


@dataclass
class Measured:
    status_bytes: int = 0
    status_s: float = 0.0
    scrape_bytes: int = 0
    scrape_s: float = 0.0


def watch(board: Board, leases: Leases, settings: MirrorSettings, over: threading.Event, seen: Measured) -> None:
    """What the driver's own thread does while leases copy."""
    who = Application("application-1", 0, "host", 1)
    due = dict.fromkeys(("status", "share", "look", "scrape"), 0.0)

    def every(name: str, seconds: float) -> bool:
        if time.monotonic() < due[name]:
            return False
        due[name] = time.monotonic() + seconds
        return True

    while not over.wait(0.1):
        if every("look", POLL_S):
            leases.report_untasked()
        if every("share", SHARE_S):
            leases.share_rates()
        if every("status", STATUS_S):
            began, flows = time.thread_time(), board.view()
            value = json.dumps(document(record(settings, who, "running", flows, now_ms())), separators=(",", ":"))
            seen.status_bytes = max(seen.status_bytes, len(value))
            seen.status_s = max(seen.status_s, time.thread_time() - began)
        if every("scrape", SCRAPE_S):
            began = time.thread_time()
            text = generate_latest(_registry(lambda: MetricsSnapshot(settings, who, "running", board.view(), 0, 0)))
            seen.scrape_bytes, seen.scrape_s = len(text), max(seen.scrape_s, time.thread_time() - began)


def _registry(snapshot: Callable[[], MetricsSnapshot]) -> CollectorRegistry:
    class Now(Collector):
        def collect(self) -> Any:
            yield from families(snapshot())

    registry = CollectorRegistry()
    registry.register(Now())
    return registry


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(given: argparse.Namespace) -> None:
    settings = settings_of(given.lanes, given.leases)
    board, spark = Board(settings.flows), NoSpark()
    for flow in settings.flows:
        board.discovered(flow.name, discovered(flow.name, given.partitions // FLOWS))
        board.taken_over(flow.name)
    identity = ServerIdentity(*self_signed()) if given.tls else None
    listener = open_listener(ChannelSettings(), "127.0.0.1", "127.0.0.1", identity)
    leases = Leases(spark, settings, board, listener, lambda _: None)
    for flow in settings.flows:
        leases.claimed(flow.name, Claim(1))
    leases.start()
    while len(spark.leases) < settings.parallelism:
        time.sleep(0.05)
    lanes = tuple(
        OneLane(spec.name, lane.flow, lane.lane, lane.partitions) for spec in spark.leases for lane in spec.lanes
    )
    first = spark.leases[0]
    over, seen = threading.Event(), Measured()
    with tempfile.NamedTemporaryFile() as file:
        work = ManyLanes(first.driver, first.token, lanes, given.rows_per_s / given.leases, given.conditions)
        Path(file.name).write_bytes(pickle.dumps(work))
        played = subprocess.Popen([sys.executable, "-m", "bench.processes.lane_reports", file.name], env=environ())
        try:
            threading.Thread(target=watch, args=(board, leases, settings, over, seen), daemon=True).start()
            while sum(view.figures.records_total for view in board.view()) == 0:
                time.sleep(0.5)
            time.sleep(SETTLE_S)
            records, cpu, began = copied(board), cpu_s(), time.monotonic()
            time.sleep(given.seconds)
            passed, used = time.monotonic() - began, cpu_s() - cpu
            rows = (copied(board) - records) / 100 / passed
        finally:
            played.kill()
            played.wait()
            over.set()
            spark.over.set()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = given.partitions // given.lanes
    wanted = min(given.rows_per_s, given.partitions / report_pause(each, each))
    print(f"{given.partitions} partitions, {given.lanes} lanes, {given.leases} leases, load {os.getloadavg()[0]:.1f}")
    print(f"rows a second: {rows:,.0f} of {wanted:,.0f} that lanes with time would tell")
    print(f"cores: {used / passed:.2f}; microseconds of CPU a row: {used / max(1.0, rows * passed) * 1e6:.1f}")
    print(f"memory at most: {memory:.0f} MiB")
    print(f"status record: {seen.status_bytes:,} bytes, {seen.status_s * 1000:.0f} ms of CPU at most")
    print(f"metrics: {seen.scrape_bytes:,} bytes, {seen.scrape_s * 1000:.0f} ms of CPU at most")


def copied(board: Board) -> int:
    return sum(view.figures.records_total for view in board.view())


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.processes.driver", description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--lanes", type=int, default=200)
    parser.add_argument("--leases", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rows-per-s", type=float, default=ROWS_PER_S)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--conditions", action="store_true")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
