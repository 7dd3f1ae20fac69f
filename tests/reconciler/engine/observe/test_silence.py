"""Which clusters are silent: told within two seconds, one holds up no other, and one that answers again is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.engine.observe.silence import ASK_EVERY_SECONDS, FIRST_SECONDS, SILENT_SECONDS, SilenceWatch
from reconciler.errors import ClusterError

SOON = 30.0
"""Far more than an answer from memory takes on a busy machine; a look ends with the last answer."""


class FakeCluster:
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
        self.east, self.west = FakeCluster(), FakeCluster()
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


def test_one_that_keeps_silent_is_told_and_holds_up_no_other(watched: Watched) -> None:
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


def test_one_that_refuses_is_told_at_once_and_no_more_when_it_answers(watched: Watched) -> None:
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
