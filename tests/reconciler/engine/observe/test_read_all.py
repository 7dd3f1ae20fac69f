"""One silent cluster or mirror is unknown; the others are read, and all at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from reconciler.engine.observe.read_all import MirrorWatch, observe
from reconciler.errors import ClusterError, RunnerError, SecretError, Unknown
from reconciler.model.live import JobState, LiveCluster, LiveMirror, LiveState
from tests.support.fakes.cluster import FakeCluster, unreachable
from tests.support.fakes.runner import FakeRunner


class SilentRunner(FakeRunner):
    def observe(self, mirror: str) -> LiveMirror:
        if mirror == "west":
            raise RunnerError("the runner does not answer", "", "Start it.")
        return super().observe(mirror)


class MeetingCluster(FakeCluster):
    """Answers only when another cluster is asked at the same time."""

    def __init__(self, name: str, meeting: threading.Barrier) -> None:
        super().__init__(name)
        self.meeting = meeting

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        self.meeting.wait(timeout=20)
        return super().read(topics)


def test_every_cluster_and_mirror_has_an_entry() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.put("orders")
    live = observe({"east": east, "west": west}, FakeRunner(), ["west"])
    assert live.clusters == {"east": east.read(), "west": west.read()}
    assert live.mirrors == {"west": LiveMirror("west", JobState.ABSENT)}


def test_a_cluster_that_does_not_answer_is_unknown_and_never_empty() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    east.fail_on(1, unreachable("east"))
    live = observe({"east": east, "west": west})
    assert live.clusters["east"] == Unknown("cluster east", "cluster east does not answer", "Start it.")
    assert live.known("east") is None
    assert live.known("west") == west.read()


def test_the_cause_and_what_to_do_are_kept() -> None:
    east = FakeCluster("east")
    east.fail_on(1, ClusterError("east", "denied", "it may not", "It lacks Describe", "Allow it."))
    assert observe({"east": east}).clusters["east"] == Unknown(
        "cluster east", "it may not. It lacks Describe", "Allow it."
    )


def test_a_missing_secret_makes_only_its_cluster_unknown() -> None:
    east, west = FakeCluster("east"), FakeCluster("west")
    west.fail_on(1, SecretError("${env:PASSWORD} is not set"))
    live = observe({"east": east, "west": west})
    assert live.known("east") is not None
    assert isinstance(live.clusters["west"], Unknown)


def test_a_mirror_that_cannot_be_looked_at_is_unknown() -> None:
    live = observe({}, SilentRunner(), ["east", "west"])
    assert live.mirrors["west"] == Unknown("mirror west", "the runner does not answer", "Start it.")
    assert live.mirrors["east"] == LiveMirror("east", JobState.ABSENT)


def test_clusters_are_read_at_the_same_time() -> None:
    meeting = threading.Barrier(3)
    readers = {name: MeetingCluster(name, meeting) for name in ("a", "b", "c")}
    found = observe(readers).clusters
    assert {name: type(cluster) for name, cluster in found.items()} == dict.fromkeys(readers, LiveCluster)


def test_nothing_to_observe_is_an_empty_state() -> None:
    assert dict(observe({}).clusters) == {}


class HangingRunner(FakeRunner):
    """Answers for ``west`` only once it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def observe(self, mirror: str) -> LiveMirror:
        if mirror == "west":
            assert self.let_go.wait(60)
            raise RunnerError("west does not answer", "", "Start it.")
        return super().observe(mirror)


def test_a_watched_mirror_that_does_not_answer_keeps_no_other_waiting_and_is_never_told_as_it_was() -> None:
    runner, now = HangingRunner(), [100.0]
    with ThreadPoolExecutor(2) as pool:
        watch = MirrorWatch(pool, runner, ("east", "west"), lambda: now[0])
        for state in (JobState.RUNNING, JobState.STOPPED):
            runner.jobs["east"] = LiveMirror("east", state)
            live = until_answered(watch, "east")
            assert live.mirrors["east"] == LiveMirror("east", state)
            silent = live.mirrors["west"]
            assert isinstance(silent, Unknown)
            assert silent.error == f"no answer for {now[0] - 100:.0f} s"
            now[0] += 7
        runner.let_go.set()
        told = Unknown("mirror west", "west does not answer", "Start it.")
        assert until_answered(watch, "west", 20).mirrors["west"] == told
        runner.let_go.clear()
        assert watch.look(0.01).mirrors["west"] == told, "why it did not answer, while it is asked again"
        runner.let_go.set()


def until_answered(watch: MirrorWatch, name: str, within_s: float = 0.01) -> LiveState:
    """On a busy machine a thread may not have run at once."""
    until = time.monotonic() + 60
    while True:
        live = watch.look(within_s)
        found = live.mirrors[name]
        if not isinstance(found, Unknown) or not found.error.startswith("no answer for"):
            return live
        assert time.monotonic() < until
