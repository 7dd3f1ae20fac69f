"""One copy, measured: starts a system on fresh names, watches the target, counts CPU, proves equality, cleans up."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.arrival import Arrival
from bench.cpu import ProcessTree, Usage, cpu_seconds
from bench.equality import digests
from bench.figures import BenchError, Clusters, Copied, Failed, Loaded, Run, System
from bench.tether import tethered
from bench.topics import delete_topics, topics_of

LOOK_S = 0.05
START_LIMIT_S = 240.0
COPY_LIMIT_S = 900.0


@dataclass(frozen=True, slots=True)
class Instant:
    """Everything that is read at the first and at the last record."""

    at: float
    offsets: int
    usage: Usage
    brokers: dict[str, float]


@contextlib.contextmanager
def fresh_run(clusters: Clusters, topic: str) -> Iterator[Run]:
    """A run with names never used before. Afterwards its processes, topics and files are gone."""
    alias = f"bench{secrets.token_hex(3)}"
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, tethered(alias):
        run = Run(alias, alias, f"to-{alias}", topic, clusters, Path(folder))
        try:
            yield run
        finally:
            for bootstrap in (clusters.source, clusters.target):
                admin = AdminClient({"bootstrap.servers": bootstrap})
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
        time.sleep(LOOK_S)


def _instant(tree: ProcessTree, clusters: Clusters, offsets: int) -> Instant:
    at = time.monotonic()
    return Instant(at, offsets, tree.sample(), {name: cpu_seconds(pid) for name, pid in clusters.broker_pids.items()})


def copy(system: System, case: str, loaded: Loaded, clusters: Clusters, repeat: int) -> Copied | Failed:
    """Copies ``loaded`` once with ``system``. What goes wrong is told in ``Failed``."""
    try:
        with fresh_run(clusters, loaded.topic) as run:
            return _copy(system, case, loaded, run, repeat)
    except BenchError as error:
        return Failed(case, system.name, repeat, str(error))


def _copy(system: System, case: str, loaded: Loaded, run: Run, repeat: int) -> Copied:
    arrival = Arrival(run.clusters, run.remote_topic, loaded)
    try:
        began = time.monotonic()
        with started(system, run) as tree:
            wait_for(arrival, lambda: arrival.seen > 0, (system, run), START_LIMIT_S, "first record")
            first = _instant(tree, run.clusters, arrival.seen)
            wait_for(arrival, arrival.complete, (system, run), COPY_LIMIT_S, "last record")
            last = _instant(tree, run.clusters, arrival.seen)
            peak = tree.peak_rss
    finally:
        arrival.close()
    verified = tuple(map(str, digests(run.clusters.target, run.remote_topic))) == loaded.digests
    spent = last.usage.since(first.usage)
    return Copied(
        case=case,
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
        peak_rss_mib=peak / 2**20,
    )
