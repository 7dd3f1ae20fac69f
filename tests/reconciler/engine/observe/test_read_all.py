"""One silent cluster or mirror is unknown; the others are read, and all at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.engine.observe.read_all import (
    ASK_EVERY_SECONDS,
    FIRST_SECONDS,
    SILENT_SECONDS,
    MirrorWatch,
    SilenceWatch,
    observe,
)
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


def test_a_mirror_that_cannot_be_checked_is_unknown() -> None:
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


def test_a_silent_watched_mirror_delays_no_other_and_is_never_shown_as_it_was() -> None:
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


# which clusters are silent, asked again and again

SOON = 30.0
"""Far more than an answer from memory takes on a busy machine; a look ends with the last answer."""


class AnsweringCluster:
    def __init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.failure: ClusterError | None = None
        self.asked = 0

    def ask(self) -> None:
        self.asked += 1
        assert self.answers.wait(60)
        if self.failure is not None:
            raise self.failure


class Watched:
    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.now = 100.0
        self.east, self.west = AnsweringCluster(), AnsweringCluster()
        self.watch = SilenceWatch(pool, {"east": self.east, "west": self.west}, lambda: self.now)

    def look(self, within_s: float = SOON) -> dict[str, str]:
        return {name: unknown.error for name, unknown in self.watch.look(within_s).items()}


@pytest.fixture
def watched() -> Iterator[Watched]:
    with ThreadPoolExecutor(2) as pool:
        watched = Watched(pool)
        yield watched
        watched.west.answers.set()


def test_each_is_asked_a_second_after_its_answer(watched: Watched) -> None:
    assert watched.look() == {}
    watched.now += ASK_EVERY_SECONDS - 0.01
    assert watched.look() == {}
    assert (watched.east.asked, watched.west.asked) == (1, 1)
    watched.now += 0.02
    watched.look()
    assert (watched.east.asked, watched.west.asked) == (2, 2)


def test_one_that_keeps_silent_is_reported_and_holds_up_no_other(watched: Watched) -> None:
    watched.look()
    watched.west.answers.clear()
    watched.now += ASK_EVERY_SECONDS
    assert watched.look(0.2) == {}
    watched.now += SILENT_SECONDS
    [(name, why)] = watched.look(0.2).items()
    assert (name, why) == ("west", "cluster west has not answered a request for 1.5 s. It may be slow, cut off or lost")
    assert (watched.east.asked, watched.west.asked) == (3, 2)
    watched.west.answers.set()
    assert watched.look() == {}


def test_the_first_answer_waits_for_a_connection_and_a_login(watched: Watched) -> None:
    watched.west.answers.clear()
    assert watched.look(0.2) == {}
    watched.now += FIRST_SECONDS - 0.1
    assert watched.look(0.2) == {}
    watched.now += 0.1
    assert list(watched.look(0.2)) == ["west"]


def test_one_that_refuses_is_reported_at_once_and_no_more_when_it_answers(watched: Watched) -> None:
    watched.west.failure = ClusterError("west", "unreachable", "west does not answer", "refused", "Check it.")
    assert watched.look() == {"west": "west does not answer. refused"}
    watched.now += ASK_EVERY_SECONDS
    watched.west.failure = None
    assert watched.look() == {}


def test_one_that_is_silent_stays_so_while_it_is_asked_again(watched: Watched) -> None:
    watched.west.failure = ClusterError("west", "unreachable", "west does not answer", "refused", "Check it.")
    watched.look()
    watched.now += ASK_EVERY_SECONDS
    watched.west.answers.clear()
    assert watched.look(0.2) == {"west": "west does not answer. refused"}
