"""The reader: each part is read by itself, a failure is kept beside what is known, and the folder is read again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest

from reconciler.engine.drift.causes import NOTHING
from reconciler.errors import ClusterError, ReconcilerError, TopologyError, Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.state.audit_chain import AuditVerification, check
from reconciler.operations.serve.reader import (
    KEPT_SECONDS,
    LiveReader,
    Paces,
    ReadJobs,
    ReadLock,
    ReadSilence,
    ReviewRead,
    StandingsReader,
)
from reconciler.render.live.flows import Standings
from reconciler.render.live.pages import regions as parts_of
from reconciler.render.live.view import SILENCE_HOLDS_MS, AuditTrail, LivePage, LiveView, live_now
from reconciler.render.reports.status import StatusInputs
from tests.support.builders import topic, world
from tests.support.documents.live import standings
from tests.support.documents.maps import copying, regions, regions_world, running

QUICK = Paces(jobs_s=0.01, lock_s=0.01, clusters_s=0.01, review_s=0.02, most_s=0.02)


class LongPauses(Paces):
    """As where reading clusters takes long."""

    def pause(self, took_s: float) -> float:
        return 3600.0


class FakeSources:
    """``reader.Sources`` over fake clusters. ``failing``: what raises, by the part's name."""

    def __init__(self) -> None:
        self.topology: Topology = regions()
        self.world = regions_world()
        self.world.apply(self.topology)
        self.lag = 5
        self.failing: dict[str, ReconcilerError] = {}
        self.wait = threading.Event()
        self.open: list[str] = []
        self.looks = 0
        self.reads = 0
        self.silent_now: Mapping[str, Unknown] = {}

    def _raise(self, part: str) -> None:
        if part in self.failing:
            raise self.failing[part]

    def read_topology(self) -> Topology:
        self._raise("folder")
        return self.topology

    @contextmanager
    def jobs(self, _: Topology) -> Iterator[ReadJobs]:
        with self._opened("jobs"):
            yield self._look

    @contextmanager
    def lock(self, _: Topology) -> Iterator[ReadLock]:
        def look(_: LiveState) -> StatusInputs:
            self._raise("lock")
            return StatusInputs(None)

        with self._opened("lock"):
            yield look

    @contextmanager
    def silent(self, _: Topology) -> Iterator[ReadSilence]:
        with self._opened("silent"):
            yield lambda: self.silent_now

    @contextmanager
    def clusters(self, topology: Topology) -> Iterator[FakeClusters]:
        with self._opened("clusters"):
            yield FakeClusters(self, topology)

    @contextmanager
    def _opened(self, part: str) -> Iterator[None]:
        self.open.append(part)
        try:
            yield
        finally:
            self.open.remove(part)

    def _look(self) -> Mapping[str, LiveMirror | Unknown]:
        self._raise("jobs")
        self.looks += 1
        return {"west": running("west", copying("east-to-west", records_lag=self.lag))}


class FakeClusters:
    def __init__(self, sources: FakeSources, topology: Topology) -> None:
        self._sources = sources
        self._topology = topology

    def observe(self) -> LiveState:
        self._sources._raise("clusters")
        self._sources.reads += 1
        return self._sources.world.look(self._topology)

    def review(self) -> ReviewRead:
        self._sources._raise("review")
        live = self.observe()
        checked = AuditVerification(self._topology.environment, {"this machine": check([])})
        return ReviewRead(live, self._sources.world.plan(self._topology), NOTHING, AuditTrail((), checked))


def until(reader: LiveReader, holds: Callable[[LiveView], bool]) -> LiveView:
    end = time.monotonic() + 60
    while not holds(reader.view):
        reader.require_alive()
        assert time.monotonic() < end, reader.view
        time.sleep(0.005)
    return reader.view


def lag(view: LiveView) -> int | None:
    job = view.jobs.value.mirrors["west"] if view.jobs.value is not None else None
    return job.flows["east-to-west"].records_lag if isinstance(job, LiveMirror) else None


def test_all_parts_come_and_move_on_and_everything_is_closed() -> None:
    sources = FakeSources()
    with LiveReader(sources, QUICK) as reader:
        view = until(reader, lambda view: view.review.value is not None and view.lock.value is not None)
        assert view.clusters.value is not None
        assert {row.cluster for row in view.clusters.value.topics} == {"east", "west", "hub"}
        sources.lag = 6
        until(reader, lambda view: lag(view) == 6)
        assert sorted(sources.open) == ["clusters", "jobs", "lock", "silent"]
    assert sources.open == []


@pytest.mark.parametrize("part", ["jobs", "lock", "clusters", "review"])
def test_what_fails_is_reported_and_what_was_known_stays(part: str) -> None:
    sources = FakeSources()
    broken = ClusterError("east", "unreachable", f"no {part}", "", "Wait.")
    with LiveReader(sources, QUICK) as reader:
        until(reader, lambda view: view.review.value is not None and view.lock.value is not None)
        until(reader, lambda view: lag(view) == 5)
        sources.failing[part] = broken
        kept = "review" if part == "clusters" else part
        view = until(reader, lambda view: getattr(view, kept).failure is not None)
        assert getattr(view, kept).failure.error == f"no {part}"
        assert getattr(view, kept).value is not None
        del sources.failing[part]
        until(reader, lambda view: getattr(view, kept).failure is None)


def test_another_folder_is_read_by_new_connections_and_a_broken_one_is_reported() -> None:
    sources = FakeSources()
    with LiveReader(sources, QUICK) as reader:
        until(reader, lambda view: view.review.value is not None)
        sources.failing["folder"] = TopologyError(())
        view = until(reader, lambda view: bool(view.folder_problem))
        assert view.topology == sources.topology
        del sources.failing["folder"]
        before = sources.topology
        sources.topology = replace(before, topics={**before.topics, "new": topic("new", "west", partitions=1)})
        view = until(reader, lambda view: "new" in view.topology.topics and view.review.value is not None)
        assert view.folder_problem == ""
        assert view.review.value is not None
        assert [str(planned.change.subject) for planned in view.review.value.plan.changes]


def test_a_fault_of_this_program_ends_it_rather_than_figures_that_only_grow_old() -> None:
    sources = FakeSources()
    with LiveReader(sources, QUICK) as reader:
        until(reader, lambda view: view.review.value is not None)
        sources.world = world("east")  # there is no west any more: a KeyError
        with pytest.raises(KeyError):
            until(reader, lambda _: False)


def test_reading_takes_a_tenth_of_the_time_and_no_pause_is_so_long_that_all_is_old() -> None:
    paces = Paces()
    assert paces.pause(0.1) == 10
    assert paces.pause(3) == 27
    assert paces.pause(60) == 45


def test_a_cluster_that_falls_silent_is_unknown_before_clusters_are_read_again() -> None:
    sources = FakeSources()
    with LiveReader(sources, replace(QUICK, clusters_s=30.0, most_s=60.0)) as reader:
        until(reader, lambda view: view.review.value is not None)
        reads = sources.reads
        sources.silent_now = {"west": Unknown("cluster west", "no answer for 2 s", "Wait.")}
        view = until(reader, lambda view: bool(view.silent.value))
        live = live_now(view, reader.now_ms())
        assert {name for name, cluster in live.clusters.items() if isinstance(cluster, Unknown)} == {"west"}
        assert "no answer for 2 s" in "".join(part.html for part in parts_of(view, LivePage(), reader.now_ms(), None))
        later = live_now(view, reader.now_ms() + SILENCE_HOLDS_MS + 1)
        assert isinstance(later.clusters["west"], LiveCluster), "what was said of it then holds no longer"
        sources.silent_now = {}
        view = until(reader, lambda view: not view.silent.value)
        assert all(isinstance(cluster, LiveCluster) for cluster in live_now(view, reader.now_ms()).clusters.values())
        assert sources.reads == reads, "clusters were not read more often"


def test_a_cluster_that_comes_back_is_read_as_soon_as_its_pace_allows() -> None:
    sources = FakeSources()
    with LiveReader(sources, LongPauses(0.01, 0.01, 0.01, clusters_s=0.1)) as reader:
        until(reader, lambda view: view.review.value is not None)
        reads = sources.reads
        sources.silent_now = {"west": Unknown("cluster west", "no answer", "Wait.")}
        until(reader, lambda view: bool(view.silent.value))
        assert sources.reads == reads
        sources.silent_now = {}
        until(reader, lambda _: sources.reads > reads)


def test_standings_are_asked_once_for_all_who_look_within_a_while() -> None:
    now, asked = [100.0], []

    def survey(_: Topology, flow: str) -> Standings:
        asked.append(flow)
        if flow == "west-to-hub":
            raise ReconcilerError("the login is denied", "It reads as the mirror.", "Run doctor.")
        return standings(flow)

    reader = StandingsReader(regions, survey, lambda: now[0])
    assert reader.of("east-to-west") is reader.of("east-to-west")
    denied = reader.of("west-to-hub")
    assert isinstance(denied, Unknown)
    assert denied.todo == "Run doctor."
    assert isinstance(reader.of("nobody"), Unknown)
    assert asked == ["east-to-west", "west-to-hub"]
    now[0] += KEPT_SECONDS
    reader.of("east-to-west")
    assert asked == ["east-to-west", "west-to-hub", "east-to-west"]
