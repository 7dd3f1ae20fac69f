"""Replication factors changed on the fake and on three real brokers in three racks: the same cases, the same traces."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.handles import ClusterHandle

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.engine.plan.build import plan
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.changes import FinishReassignment, ReassignReplicas
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveState, LiveTopic
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.ports import ClusterAdmin, ReplicaAdmin
from reconciler.model.replicas import THROTTLED_REPLICAS, ReassignmentPace, ReplicaFacts
from reconciler.resources.replicas.diff import with_replicas
from reconciler.resources.replicas.reassign.in_flight import ReassignmentWatch
from reconciler.resources.replicas.reassign.run import cancel, reassign
from tests.support.builders import cluster, codes, topic, topology
from tests.support.clusters import EAST, kraft, real_cluster
from tests.support.fakes.cluster import FakeCluster

QUICK = ReassignmentPace(throttle=50 << 20)
SLOW = ReassignmentPace(throttle=150_000, partitions_in_flight=2)
BYTES = 1_500_000
PARTITIONS = 3


class KilledError(BaseException):
    """kill -9, as far as the cluster can tell."""


class Mortal:
    """A ``ReplicaAdmin`` that dies at the ``waits``-th wait."""

    def __init__(self, inner: ReplicaAdmin, waits: int) -> None:
        self._inner = inner
        self._waits = waits

    def __getattr__(self, name: str) -> Any:
        if not self._waits:
            raise KilledError
        return getattr(self._inner, name)

    def wait(self, seconds: float) -> None:
        self._waits -= 1
        if not self._waits:
            raise KilledError
        self._inner.wait(seconds)


@dataclass
class Site:
    """A cluster of three brokers with one topic in it."""

    admin: ClusterAdmin
    topic: str
    environment: str
    begin_elsewhere: Callable[[Mapping[tuple[str, int], tuple[int, ...] | None]], object]
    notes: list[str] = field(default_factory=list)

    def desired(self, factor: int, pace: ReassignmentPace = QUICK) -> Topology:
        return topology(
            cluster("east", reassignment=pace),
            topic(self.topic, replication_factor=factor),
            environment=self.environment,
        )

    def plan(self, wished: Topology) -> Plan:
        live = LiveState({"east": self.admin.read()}, {})
        return plan(wished, with_replicas(wished, live, {"east": self.admin}))

    def apply(self, planned: Plan, waits: int = 0) -> tuple[Outcome, ...]:
        some: list[Planned] = [
            one for one in planned.changes if isinstance(one.change, ReassignReplicas | FinishReassignment)
        ]
        with self.replicas() as admin:
            used: Any = Mortal(admin, waits) if waits else admin
            return reassign(some, self.environment, used, ReassignmentWatch(self.notes.append, str, self.notes.append))

    def replicas(self) -> AbstractContextManager[ReplicaAdmin]:
        return self.admin.replicas(self.environment)

    def facts(self) -> ReplicaFacts:
        return self.admin.replica_facts(self.environment)

    def live(self) -> LiveTopic:
        return self.admin.read([self.topic]).topics[self.topic]

    def clean(self) -> None:
        found = self.facts()
        assert [move for move in found.moves if move.topic == self.topic] == []
        assert found.journal is None
        assert not any(found.rates.values())
        assert not [key for key in THROTTLED_REPLICAS if key in self.live().overrides]


@pytest.fixture(params=["fake", pytest.param("broker", marks=pytest.mark.kafka("ha_east"))])
def site(request: pytest.FixtureRequest, unique: str, create_topic: Callable[..., str]) -> Iterator[Site]:
    name = f"{unique}-orders"
    if request.param == "fake":
        fake = FakeCluster("east", 3)
        fake.put(name, PARTITIONS).sizes = dict.fromkeys(range(PARTITIONS), BYTES)
        elsewhere = fake.replicas("theirs")
        yield Site(fake, name, unique, lambda targets: elsewhere.reassign(targets, True))
        return
    east = request.getfixturevalue("ha_east").clusters["east"]
    create_topic(east, name, PARTITIONS, 1, retention_ms="-1", min_insync_replicas="1")
    _fill(east, name)
    with KafkaCluster(real_cluster(east)) as admin, admin.replicas("theirs") as theirs:
        yield Site(admin, name, unique, lambda targets: theirs.reassign(targets, True))
        theirs.reassign({(name, index): None for index in range(PARTITIONS)}, True)
        with admin.replicas(unique) as ours:
            cancel(unique, ours, ReassignmentWatch(_silent, str, _silent))


def _silent(_: str) -> None:
    """Nobody listens."""


def _fill(east: ClusterHandle, name: str) -> None:
    producer = Producer({**east.client(), "log_level": 0})
    block = os.urandom(50_000)
    for number in range(PARTITIONS * BYTES // len(block)):
        producer.produce(name, block, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def test_up_and_down_and_nothing_is_left_behind(site: Site) -> None:
    before = [part.leader for part in site.live().partitions]
    for factor in (3, 2):
        (outcome,) = site.apply(site.plan(site.desired(factor)))
        assert (outcome.result, outcome.error) == (Result.DONE, "")
        topic = site.live()
        assert topic.replication_factor == factor
        assert all(set(part.isr) == set(part.replicas) for part in topic.partitions)
        assert [part.replicas[0] for part in topic.partitions] == before
        site.clean()
        assert site.plan(site.desired(factor)).changes == ()


@kraft  # brokers of 2.8 copy all of it before their throttle counts
def test_killed_on_the_way_it_is_gone_on_with_at_another_pace(site: Site) -> None:
    with pytest.raises(KilledError):
        site.apply(site.plan(site.desired(3, SLOW)), waits=3)
    found = site.facts()
    assert len(found.moves) == SLOW.partitions_in_flight
    assert found.others() == ()
    assert {value for rates in found.rates.values() for value in rates.values()} == {str(SLOW.throttle)}
    (planned,) = site.plan(site.desired(3)).changes
    assert isinstance(planned.change, ReassignReplicas)
    assert planned.change.in_flight == len(found.moves)
    (outcome,) = site.apply(site.plan(site.desired(3)))
    assert (outcome.result, outcome.error) == (Result.DONE, "")
    assert site.live().replication_factor == 3
    site.clean()


@kraft  # brokers of 2.8 copy all of it before their throttle counts
def test_taken_back_on_the_way(site: Site) -> None:
    with pytest.raises(KilledError):
        site.apply(site.plan(site.desired(3, SLOW)), waits=3)
    with site.replicas() as admin:
        assert (
            cancel(site.environment, admin, ReassignmentWatch(site.notes.append, str, site.notes.append))
            == SLOW.partitions_in_flight
        )
    assert site.live().replication_factor == 1
    site.clean()


@kraft  # brokers of 2.8 copy all of it before their throttle counts
def test_one_of_others_blocks_and_stays(site: Site) -> None:
    one = site.live().partitions[0]
    other = next(broker for broker in (1, 2, 3) if broker not in one.replicas)
    plan = site.plan(site.desired(3, SLOW))
    with pytest.raises(KilledError):
        site.apply(plan, waits=3)  # slows the cluster down, so that what begins elsewhere is seen on its way
    site.begin_elsewhere({(site.topic, 0): (*one.replicas, other)})
    assert codes(site.plan(site.desired(3))) == {"reassignment-by-others"}
    site.begin_elsewhere({(site.topic, 0): None})
    while site.live().partitions[0].replicas != one.replicas:  # brokers show a moment later what the controller did
        time.sleep(0.1)
    site.apply(site.plan(site.desired(3)))
    assert site.live().replication_factor == 3
    site.clean()


def test_a_wrong_target_is_refused_by_the_brokers(site: Site) -> None:
    with site.replicas() as admin:
        assert list(admin.reassign({(site.topic, 0): (77,)}, factor_changes=True)) == [(site.topic, 0)]
        grown = {(site.topic, 0): (1, 2)}
        if EAST.number >= (4, 1):  # KIP-860; an older broker is not asked, and does it
            assert list(admin.reassign(grown, factor_changes=False)) == [(site.topic, 0)]
        assert admin.reassign({(site.topic, 0): None}, factor_changes=True) == {}
    site.clean()


def test_a_look_that_fails_is_unknown(site: Site) -> None:
    class Denied:
        name = "east"

        def replica_facts(self, environment: str) -> ReplicaFacts:
            raise ReconcilerError("may not", "", "Let it.")

    wished = site.desired(3)
    live = with_replicas(wished, LiveState({"east": site.admin.read()}, {}), {"east": Denied()})  # type: ignore[dict-item]
    (found,) = plan(wished, live).unknown
    assert isinstance(found, Unknown)
    assert found.subject == f"east/{site.topic} replicas"
