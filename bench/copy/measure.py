"""One copy, measured: starts a system on fresh names, watches the target, counts CPU, proves equality, cleans up."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bench.copy.arrival import Arrival
from bench.copy.figures import BenchError, Case, Clusters, Copied, Failed, LineUse, Loaded, Run, System
from bench.copy.long_line import LongLine, Traffic, data_bytes, far_away
from bench.processes.clusters import settle
from bench.processes.cpu import ProcessTree, Usage, cpu_seconds
from bench.processes.proxy import Line
from bench.processes.tether import tethered
from bench.records.equality import digests
from bench.records.load import load_idle
from bench.records.topics import admin_client, delete_topics, topics_of

POLL_S = 0.05
START_LIMIT_S = 240.0
COPY_LIMIT_S = 900.0
IDLE_SETTLE_S, IDLE_S = 5.0, 20.0
LINE_PORT = 40  # the proxy's port beside the far broker's, inside the sandbox's block


@dataclass(frozen=True, slots=True)
class Instant:
    """Everything that is read at the first and at the last record."""

    at: float
    offsets: int
    usage: Usage
    brokers: dict[str, float]
    line: Traffic


@contextlib.contextmanager
def fresh_run(
    clusters: Clusters, topic: str, idle_topics: str | None = None, addresses: tuple[str, str] | None = None
) -> Iterator[Run]:
    """A run with names never used before. Afterwards its processes, topics and files are gone. ``addresses``: of source
    and target as the run sees them."""
    alias = f"bench{secrets.token_hex(3)}"
    source, target = addresses or (clusters.source, clusters.target)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, tethered(alias):
        run = Run(
            mark=alias,
            alias=alias,
            target_alias=f"to-{alias}",
            topic=topic,
            idle_topics=idle_topics,
            source=source,
            target=target,
            folder=Path(folder),
        )
        try:
            yield run
        finally:
            for bootstrap in (clusters.source, clusters.target):
                admin = admin_client(bootstrap)
                delete_topics(admin, topics_of(admin, (run.alias, run.target_alias)))


@contextlib.contextmanager
def started(system: System, run: Run) -> Iterator[ProcessTree]:
    """The system while it runs, with its processes watched."""
    with ProcessTree(run.mark) as tree:
        try:
            system.start(run)
            yield tree
        finally:
            system.stop(run)


def wait_for(arrival: Arrival, done: object, watch: tuple[System, Run], limit_s: float, what: str) -> None:
    """Looks until ``done()``. Raises BenchError when the system died or the time is over."""
    assert callable(done)
    system, run = watch
    began = checked = time.monotonic()
    while True:
        arrival.look()
        if done():
            return
        now = time.monotonic()
        if now - checked > 2:
            checked = now
            if (log := system.alive(run)) is not None:
                raise BenchError(f"{system.name} ended before {what}:\n{log}")
        if now - began > limit_s:
            raise BenchError(f"{system.name}: no {what} after {limit_s:.0f} s, {arrival.seen:,} offsets at the target")
        time.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class Ground:
    """What every system of a case gets alike."""

    case: Case
    clusters: Clusters
    loaded: Loaded
    idle_topics: str | None
    line: LongLine | None = None

    def addresses(self) -> tuple[str, str]:
        """Of source and target, one of them at the other end of a long line where the case has one."""
        source, target = self.clusters.source, self.clusters.target
        if self.line is None:
            return source, target
        return (self.line.address, target) if self.case.far == "source" else (source, self.line.address)


def _instant(tree: ProcessTree, given: Ground, offsets: int) -> Instant:
    at = time.monotonic()
    brokers = {name: cpu_seconds(pid) for name, pid in given.clusters.broker_pids.items()}
    return Instant(at, offsets, tree.sample(), brokers, given.line.traffic() if given.line else Traffic())


@contextlib.contextmanager
def ground(case: Case, clusters: Clusters, loaded: Loaded) -> Iterator[Ground]:
    made = Ground(case, clusters, loaded, load_idle(case.idle_partitions, clusters))
    if not case.delay_ms:
        yield made
        return
    far = clusters.source if case.far == "source" else clusters.target
    broker = int(far.rpartition(":")[2])
    line = Line(broker + LINE_PORT, broker, case.delay_ms / 1000, case.megabits * 1e6 / 8)
    with far_away(line) as made_line:
        yield replace(made, line=made_line)


def copy(system: System, case: Case, loaded: Loaded, clusters: Clusters, repeat: int) -> Copied | Failed:
    """Copies ``loaded`` once with ``system``. What goes wrong is told in ``Failed``."""
    try:
        with (
            ground(case, clusters, loaded) as given,
            fresh_run(clusters, loaded.topic, given.idle_topics, given.addresses()) as run,
        ):
            return _copy(system, given, run, repeat)
    except BenchError as error:
        return Failed(case.name, system.name, repeat, str(error))


def _copy(system: System, given: Ground, run: Run, repeat: int) -> Copied:
    clusters, loaded = given.clusters, given.loaded
    arrival = Arrival(clusters, run.remote_topic, loaded)
    settle(clusters, loaded.topic)
    try:
        began = time.monotonic()
        with started(system, run) as tree:
            wait_for(arrival, lambda: arrival.seen > 0, (system, run), START_LIMIT_S, "first record")
            first = _instant(tree, given, arrival.seen)
            wait_for(arrival, arrival.complete, (system, run), COPY_LIMIT_S, "last record")
            last = _instant(tree, given, arrival.seen)
            idle = _idle_cores(tree) if given.idle_topics else None
    finally:
        arrival.close()
    verified = tuple(map(str, digests(clusters.target, run.remote_topic))) == loaded.digests
    spent = last.usage.since(first.usage)
    return Copied(
        case=given.case.name,
        system=system.name,
        exactly_once=system.exactly_once,
        repeat=repeat,
        records=max(loaded.records - first.offsets, 0),
        verified=verified,
        start_s=first.at - began,
        start_cpu_s=first.usage.cpu_s,
        copy_s=last.at - first.at,
        cpu_s=spent.cpu_s,
        cpu_by_program={name: round(seconds, 2) for name, seconds in spent.by_program.items() if seconds > 0},
        broker_cpu_s={name: round(last.brokers[name] - first.brokers[name], 2) for name in first.brokers},
        peak_pss_mib=tree.peak_pss / 2**20,
        peak_rss_mib_by_program={name: round(rss / 2**20) for name, rss in tree.peak_rss_by_program.items()},
        log_bytes=loaded.log_bytes,
        idle_cores=idle,
        line=_line_use(given.line, given.case.far, first, last) if given.line else None,
    )


def _line_use(line: LongLine, far: str, first: Instant, last: Instant) -> LineUse:
    """Records come down from a far source and go up to a far target."""
    way = "down" if far == "source" else "up"
    moved = data_bytes(getattr(first.line, way), getattr(last.line, way))
    return LineUse(moved, line.line.bytes_per_s * (last.at - first.at), last.line.cpu_s - first.line.cpu_s)


def _idle_cores(tree: ProcessTree) -> float:
    """CPU seconds a second with nothing to copy, after the rush has settled."""
    time.sleep(IDLE_SETTLE_S)
    before = tree.sample()
    time.sleep(IDLE_S)
    return tree.sample().since(before).cpu_s / IDLE_S
