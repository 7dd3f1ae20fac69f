"""The control topic of mirror hosts: the fake and a real broker agree on reading and on compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.mirror_jobs.host.control_topic import ControlStore, ControlTopic
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Principal
from tests.support.clusters import CreateTopic, kraft, real_cluster
from tests.support.fakes.control import FakeControl
from tests.support.fakes.subjects import BrokerStranger
from tests.support.waiting import until


@dataclass(frozen=True)
class Writers:
    """Two processes on one control topic, and how to delete it and make it again."""

    first: ControlStore
    second: ControlStore
    delete: Callable[[], None]
    make: Callable[[], None]


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka("plain"))])
def writers(request: pytest.FixtureRequest, unique: str, create_topic: CreateTopic) -> Iterator[Writers]:
    if request.param == "fake":
        fake = FakeControl()
        yield Writers(fake, fake, lambda: _delete(fake), lambda: setattr(fake, "missing", False))
        return
    west, topic = request.getfixturevalue("plain").clusters["west"], f"__control-{unique}"
    cluster = real_cluster(west)
    with KafkaCluster(cluster, Principal.APPLY) as admin:
        stranger = BrokerStranger(west, create_topic, admin)
        stranger.make(topic, 1, cleanup_policy="compact")
        made = [ControlTopic(cluster, unique, Principal.MIRROR, topic) for _ in range(2)]
        first, second = made
        yield Writers(
            first, second, lambda: stranger.delete(topic), lambda: stranger.make(topic, 1, cleanup_policy="compact")
        )
        for control in made:
            control.close()


def _delete(fake: FakeControl) -> None:
    fake.entries.clear()
    fake.missing = True


def test_who_comes_second_writes_only_after_reading_what_the_first_wrote(writers: Writers) -> None:
    assert writers.first.read() == {}
    assert writers.first.swap("host/test/west", None, b"1")
    assert not writers.second.swap("host/test/west", None, b"2")
    assert writers.second.swap("host/test/west", b"1", b"2")
    assert not writers.first.swap("host/test/west", b"1", b"3")
    assert writers.first.swap("host/test/west", b"2", b"4")
    assert writers.first.swap("host/test/west", b"4", b"5")
    assert writers.second.swap("desired/test/west", None, b"x")
    assert writers.first.swap("host/test/west", b"5", b"6"), "another key fences nobody"


def test_a_reader_sees_the_newest_of_each_key_and_no_key_that_was_deleted(writers: Writers) -> None:
    for before, after in ((None, b"1"), (b"1", b"2")):
        assert writers.first.swap("a", before, after)
    assert writers.first.swap("b", None, b"x")
    assert writers.first.swap("b", b"x", None)
    until(lambda: writers.second.read() == {"a": b"2"})


@kraft  # ZooKeeper forgets a deleted name later than it says
def test_a_topic_that_is_gone_is_missing_and_takes_nothing_until_it_is_there_again(writers: Writers) -> None:
    assert writers.first.swap("a", None, b"1")
    until(lambda: "a" in writers.second.read())
    writers.delete()
    until(lambda: _gone(writers.second))
    assert not writers.second.swap("a", b"1", b"2")
    writers.make()
    until(lambda: writers.second.read() == {} and not writers.second.missing)
    assert writers.second.swap("a", None, b"3")


def _gone(control: ControlStore) -> bool:
    try:
        return control.read() == {} and control.missing
    except ClusterError:
        return False
