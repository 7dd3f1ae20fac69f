"""What an apply leaves is recorded as it was read; what a killed one may have changed is in no record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from reconciler.errors import ClusterError
from reconciler.model.live import Source
from reconciler.model.state.last_apply import Applied
from reconciler.model.state.left_by_apply import LeftCluster, left_key, loads
from reconciler.operations.apply.records import keep_left, strike
from reconciler.operations.session.session import Seen
from tests.support.builders import World, cluster, topic, topology, world

BY = Applied("test", 1_000, "ada", "", {}, (), ())
WISHED = topology(topic("orders", partitions=2), topic("pay", partitions=1))


@dataclass
class Run:
    """A session and a lock, as far as the record needs them."""

    world: World
    topology: Any = WISHED
    last: Seen = Seen()  # noqa: RUF009  # frozen
    records: dict[str, bytes] = field(default_factory=dict)
    broken: str = ""

    @property
    def clusters(self) -> Any:
        return self.world.clusters

    def keep(self, key: str, value: bytes) -> str:
        if not self.broken:
            self.records[key] = value
        return self.broken

    def written(self, cluster: str = "east") -> LeftCluster:
        record = loads(self.records[left_key("test", cluster)])
        assert record is not None
        return record

    def apply(self, killed: bool = False) -> None:
        self.last = replace(self.last, live=self.world.look(self.topology))
        planned = self.world.plan(self.topology, left=self.last.left)
        assert strike(self, self, planned) == ""  # type: ignore[arg-type]
        self.world.apply(self.topology, planned)
        if not killed:
            assert keep_left(self, self, planned, BY) == ""  # type: ignore[arg-type]


@pytest.fixture
def run() -> Run:
    made = Run(world("east"))
    made.world.clusters["east"].put("stranger")
    made.apply()
    return made


def test_it_holds_what_the_apply_made_with_its_id_and_no_strangers(run: Run) -> None:
    live = run.world.clusters["east"].topics
    assert {name: one.topic_id for name, one in run.written().topics.items()} == {
        name: live[name].topic_id for name in ("orders", "pay")
    }
    assert run.written().since == "the apply of 1970-01-01T00:00:01Z by ada"


def test_a_default_that_only_made_topics_show_was_not_changed_outside() -> None:
    """Kafka sets min.insync.replicas for the whole cluster where it elects among eligible leader replicas."""
    first = Run(world("east"))
    first.world.clusters["east"].broker_configs = {"min.insync.replicas": ("1", Source.CLUSTER)}
    first.apply()
    assert first.written().defaults == {"min.insync.replicas": "1"}
    first.last = replace(first.last, left={"east": first.written()})
    assert first.world.plan(first.topology, left=first.last.left).outside == ()


def test_a_default_that_the_first_topic_shows_was_not_changed_outside() -> None:
    """A source without topics at the first apply."""
    first = Run(world("east"), topology(cluster("east")))
    first.world.clusters["east"].broker_configs = {"min.insync.replicas": ("1", Source.CLUSTER)}
    first.apply()
    first.world.clusters["east"].put("orders", 2)
    assert first.world.plan(WISHED, left={"east": first.written()}).outside == ()


def test_a_default_that_the_topic_of_the_lock_overrides_was_not_changed_outside() -> None:
    first = Run(world("east"), topology(cluster("east")))
    east = first.world.clusters["east"]
    east.broker_configs = {"min.insync.replicas": ("1", Source.CLUSTER), "retention.ms": ("1000", Source.CLUSTER)}
    east.put("__reconciler", min_insync_replicas="1")
    first.apply()
    east.put("orders", 2)
    assert first.world.plan(WISHED, left={"east": first.written()}).outside == ()
    east.broker_configs["retention.ms"] = ("2000", Source.CLUSTER)
    [change] = first.world.plan(WISHED, left={"east": first.written()}).outside
    assert change.key == "retention.ms"


def test_what_is_as_it_was_is_not_written_again(run: Run) -> None:
    run.records.clear()
    run.apply()
    assert run.records == {}


def test_a_killed_apply_is_not_taken_for_another_run(run: Run) -> None:
    run.topology = topology(topic("orders", partitions=5), topic("pay", partitions=1))
    run.apply(killed=True)
    assert run.written().topics.keys() == {"pay"}
    assert run.world.plan(run.topology, left=run.last.left).outside == ()


def test_an_apply_without_changes_takes_note_of_what_it_saw(run: Run) -> None:
    run.world.clusters["east"].put("pay", 1)
    run.world.clusters["east"].broker_configs["retention.ms"] = ("5", Source.CLUSTER)
    assert len(run.world.plan(run.topology, left=run.last.left).outside) == 2
    run.apply()
    assert run.world.plan(run.topology, left=run.last.left).outside == ()
    assert run.written().defaults == {"retention.ms": "5"}


def test_a_saved_plan_records_what_it_changed_and_keeps_the_rest(run: Run) -> None:
    run.topology = topology(topic("orders", partitions=5), topic("pay", partitions=1))
    planned = run.world.plan(run.topology)
    run.last = replace(run.last, live=None)
    run.world.clusters["east"].put("pay", 1)
    run.world.apply(run.topology, planned)
    keep_left(run, run, planned, BY)  # type: ignore[arg-type]
    assert run.written().topics["orders"].partitions == 5
    assert [one.kind for one in run.world.plan(run.topology, left=run.last.left).outside] == ["made-anew"]


def test_a_cluster_that_does_not_answer_afterwards_keeps_what_was_not_touched(run: Run) -> None:
    run.topology = topology(topic("orders", partitions=5), topic("pay", partitions=1))
    run.last = replace(run.last, live=run.world.look(run.topology))
    planned = run.world.plan(run.topology)
    strike(run, run, planned)  # type: ignore[arg-type]
    run.world.clusters["east"].fail_on(1, ClusterError("east", "unreachable", "east is silent"))
    assert keep_left(run, run, planned, BY) == ""  # type: ignore[arg-type]
    assert run.written().topics.keys() == {"pay"}


def test_a_record_that_cannot_be_written_is_reported(run: Run) -> None:
    run.broken = "no disk"
    run.world.clusters["east"].put("pay", 1)
    run.last = replace(run.last, live=run.world.look(run.topology))
    assert keep_left(run, run, run.world.plan(run.topology), BY) == "no disk"  # type: ignore[arg-type]
