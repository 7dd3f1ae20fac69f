"""The loop under a clock that only tests move: what it does, leaves, keeps, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from reconciler.engine.apply.limits import ApplyLimits, Silent
from reconciler.engine.apply.run import apply
from reconciler.engine.loop import Corrections, LoopPace, Round, run
from reconciler.errors import LockHeld, Problem, ReconcilerError, TopologyError, Where
from reconciler.model.environment.topology import Topology
from reconciler.model.options import Autonomy
from reconciler.model.plan import Outcome, Plan
from reconciler.render.reports.apply import round_figures, round_lines
from reconciler.resources.mirrors.handover import handovers
from tests.support.builders import World, flow, topic, topology, world
from tests.support.fakes.cluster import unreachable

WISHED = topology(topic("orders", partitions=2, configs={"retention.ms": "60000"}), flow("east", "west", ".*"))
REMOTE = "east.orders"


@dataclass
class Folder:
    """A ``running.Environment`` over fakes. ``edit``: what the folder says; an error is a broken edit."""

    world: World
    wished: Topology
    edit: Topology | ReconcilerError | None = None
    moving: bool = False
    stop: bool = False
    carried: list[list[str]] = field(default_factory=list)
    lost: LockHeld | None = None

    def changed(self) -> bool:
        if isinstance(self.edit, ReconcilerError):
            raise self.edit
        return self.edit is not None and self.edit != self.wished

    def take_over(self) -> bool:
        if self.moving:
            return False
        assert isinstance(self.edit, Topology)
        self.wished = self.edit
        return True

    def plan(self) -> Plan:
        return self.world.plan(self.wished)

    def carry_out(self, plan: Plan) -> Sequence[Outcome]:
        if self.lost:
            raise self.lost
        self.carried.append([planned.id for planned in plan.changes])
        gate: Callable[[], str] = lambda: "asked to stop" if self.stop else ""  # noqa: E731
        told = handovers(self.wished)
        return apply(plan, self.world.clusters, self.world.runner, told, Silent(), ApplyLimits(gate))


@dataclass
class Hand:
    """A clock. ``between``: what happens while the loop waits for its next round; it stops when nothing is left."""

    between: list[Callable[[], object]]
    at: float = 1_000_000.0
    waited: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float) -> bool:
        self.at += seconds
        if seconds == 1.0:  # the folder settles
            return False
        self.waited.append(seconds)
        if not self.between:
            return True
        self.between.pop(0)()
        return False


def nothing() -> None:
    pass


def turns(folder: Folder, autonomy: Autonomy, *between: Callable[[], object], window: float = 3600.0) -> list[Round]:
    told: list[Round] = []
    pace = LoopPace(60.0, autonomy, Corrections(window=window))
    assert run(folder, Hand(list(between)), pace, told.append) == len(between) + 1 == len(told)
    return told


@pytest.fixture
def settled() -> Folder:
    made = world()
    made.apply(WISHED)
    return Folder(made, WISHED)


def test_a_quiet_round_is_one_line_and_changes_nothing(settled: Folder) -> None:
    found = turns(settled, Autonomy.ALL, nothing)
    assert [one.quiet for one in found] == [True, True]
    assert [line[1] for line in round_lines(found[1])] == ["round"]
    assert settled.carried == []


def test_a_new_source_topic_is_mirrored_in_the_next_round(settled: Folder) -> None:
    found = turns(settled, Autonomy.SAFE, lambda: settled.world.clusters["east"].put("fresh", 3, retention_ms="5000"))
    assert settled.carried == [["create:west/east.fresh"]]
    made = settled.world.clusters["west"].topics["east.fresh"]
    assert len(made.assignment) == 3
    assert made.overrides["retention.ms"] == "5000"
    assert settled.world.runner.log == ["start west"], "the running job is not touched"
    assert not found[1].quiet


def test_safe_grows_remote_topics_and_syncs_their_configs(settled: Folder) -> None:
    east = settled.world.clusters["east"]

    def stranger() -> None:
        found = east.put("free", 2)
        found.overrides["max.message.bytes"] = "2000000"

    def grows() -> None:
        east.topics["free"].assignment.append((1,))
        east.topics["free"].overrides["max.message.bytes"] = "3000000"

    turns(settled, Autonomy.SAFE, stranger, grows)
    remote = settled.world.clusters["west"].topics["east.free"]
    assert len(remote.assignment) == 3
    assert remote.overrides["max.message.bytes"] == "3000000"


def test_none_only_looks(settled: Folder) -> None:
    found = turns(settled, Autonomy.NONE, lambda: settled.world.clusters["east"].put("fresh"))
    assert settled.carried == []
    assert [held.id for held in found[1].held] == ["create:west/east.fresh"]
    assert round_figures(found[1], None).pending["create_topic"] == 1


def test_safe_leaves_declared_topics_risk_and_mirrors(settled: Folder) -> None:
    more = topology(
        *WISHED.clusters.values(),
        *WISHED.topics.values(),
        topic("pay", partitions=1),
        flow("east", "west", ".*", lanes=7),
    )
    settled.edit = more
    east, west = settled.world.clusters["east"], settled.world.clusters["west"]
    west.topics[REMOTE].overrides["retention.ms"] = "90000000"  # back to 60000: records would go
    found = turns(settled, Autonomy.SAFE)
    held = {one.id for one in found[0].held}
    assert {"create:east/pay", "restart:west", f"configs:west/{REMOTE}"} <= held
    assert "pay" not in east.topics
    assert settled.carried == [["create:west/east.pay"]]
    assert settled.world.runner.log == ["start west"]


def test_all_does_everything_and_is_empty_afterwards(settled: Folder) -> None:
    settled.edit = topology(*WISHED.clusters.values(), topic("pay", partitions=1), flow("east", "west", ".*", lanes=7))
    found = turns(settled, Autonomy.ALL, nothing)
    assert settled.world.runner.log == ["start west", "restart west"]
    assert found[1].quiet
    assert not found[0].held


def test_a_broken_edit_keeps_the_last_good_topology_and_says_so(settled: Folder) -> None:
    broken = TopologyError((Problem("yaml-broken", Where("t.yaml", 3, 1), "broken YAML", "", ""),))

    def breaks() -> None:
        settled.edit = broken
        settled.world.clusters["east"].put("fresh")

    def mends() -> None:
        settled.edit = topology(*WISHED.clusters.values(), topic("pay", partitions=1), flow("east", "west", ".*"))

    found = turns(settled, Autonomy.SAFE, breaks, mends)
    assert "t.yaml:3:1" in found[1].kept
    assert "last good topology" in found[1].kept
    assert "east.fresh" in settled.world.clusters["west"].topics, "the last good topology still works"
    assert round_figures(found[1], None).topology_kept
    assert (found[2].taken_over, found[2].kept) == (True, "")
    assert settled.wished is settled.edit


def test_an_edit_under_way_is_not_taken_over(settled: Folder) -> None:
    settled.edit, settled.moving = topology(*WISHED.clusters.values()), True
    found = turns(settled, Autonomy.ALL)
    assert "being edited" in found[0].kept
    assert settled.carried == []


def test_a_silent_cluster_leaves_the_others_at_work(settled: Folder) -> None:
    three = topology(topic("orders", partitions=2), flow("east", "west", "orders"), flow("east", "north", ".*"))
    settled.world = world("east", "west", "north")
    settled.world.apply(three)
    settled.wished = three

    def accident() -> None:
        settled.world.clusters["west"].fail_on(1, unreachable("west"))
        settled.world.clusters["east"].put("fresh")

    found = turns(settled, Autonomy.SAFE, accident, nothing)
    assert "east.fresh" in settled.world.clusters["north"].topics
    figures = round_figures(found[1], None)
    assert figures.unknown_clusters == 1
    assert figures.succeeded_at is not None
    assert ("warning", "unknown") in [line[:2] for line in round_lines(found[1])]
    assert found[2].quiet


def test_growth_of_a_source_waits_while_a_cluster_is_silent(settled: Folder) -> None:
    settled.edit = topology(topic("orders", partitions=5), flow("east", "west", ".*"))
    settled.world.clusters["west"].fail_on(1, unreachable("west"))
    found = turns(settled, Autonomy.ALL, nothing)
    assert [held.id for held in found[0].held] == ["partitions:east/orders"]
    assert "irreversible" in found[0].held[0].why
    assert len(settled.world.clusters["east"].topics["orders"].assignment) == 5, "once the cluster is back"


def test_a_field_set_back_again_and_again_is_left_alone(settled: Folder) -> None:
    west = settled.world.clusters["west"]

    def quarrel() -> None:
        west.topics[REMOTE].overrides["retention.ms"] = "30000"

    found = turns(settled, Autonomy.SAFE, quarrel, quarrel, quarrel, quarrel, nothing)
    assert len(settled.carried) == 3
    assert west.topics[REMOTE].overrides["retention.ms"] == "30000", "the other side's value stays"
    assert [len(one.contested) for one in found] == [0, 0, 0, 0, 1, 1]
    assert "someone else sets it to another value" in found[4].held[0].why
    assert "retention.ms = 60000" in found[4].held[0].why
    assert ("warning", "held back") in [line[:2] for line in round_lines(found[4])], "it needs a person"


def test_what_no_one_contests_is_still_corrected(settled: Folder) -> None:
    east, west = settled.world.clusters["east"], settled.world.clusters["west"]
    east.put("free", 1, retention_ms="60000")

    def quarrel() -> None:
        west.topics["east.free"].overrides["retention.ms"] = "30000"

    def both() -> None:
        quarrel()
        east.topics["free"].overrides["max.message.bytes"] = "2000000"

    turns(settled, Autonomy.SAFE, quarrel, quarrel, quarrel, both)
    assert west.topics["east.free"].overrides["max.message.bytes"] == "2000000"
    assert west.topics["east.free"].overrides["retention.ms"] == "30000"


def test_a_quarrel_ends_when_the_other_side_gives_in_or_git_changes(settled: Folder) -> None:
    west = settled.world.clusters["west"]

    def quarrel() -> None:
        west.topics[REMOTE].overrides["retention.ms"] = "30000"

    def gives_in() -> None:
        west.topics[REMOTE].overrides["retention.ms"] = "60000"

    found = turns(settled, Autonomy.SAFE, quarrel, quarrel, quarrel, quarrel, gives_in)
    assert found[4].contested
    assert not found[5].contested
    again = topology(topic("orders", partitions=2, configs={"retention.ms": "70000"}), flow("east", "west", ".*"))
    quarrel()
    settled.edit = again
    turns(settled, Autonomy.ALL)
    assert west.topics[REMOTE].overrides["retention.ms"] == "70000"


def test_corrections_far_apart_are_no_quarrel(settled: Folder) -> None:
    west = settled.world.clusters["west"]

    def edit() -> None:
        west.topics[REMOTE].overrides["retention.ms"] = "30000"

    turns(settled, Autonomy.SAFE, *([edit] * 6), window=90.0)
    assert len(settled.carried) == 6


def test_a_round_that_fails_is_reported_and_the_next_one_works(settled: Folder) -> None:
    def fails() -> Plan:
        raise ReconcilerError("the brokers refuse to talk", "why", "what to do")

    real = settled.plan

    def breaks() -> None:
        settled.plan = fails  # type: ignore[method-assign]

    def mends() -> None:
        settled.plan = real  # type: ignore[method-assign]

    found = turns(settled, Autonomy.ALL, breaks, mends)
    assert "refuse to talk" in found[1].error
    assert round_figures(found[1], None).succeeded_at is None
    assert [line[:2] for line in round_lines(found[1])] == [("error", "round failed")]
    assert found[2].quiet


def test_a_lock_that_was_taken_over_ends_the_run(settled: Folder) -> None:
    settled.world.clusters["east"].put("fresh")
    settled.lost = LockHeld("taken over by someone")
    with pytest.raises(LockHeld):
        run(settled, Hand([]), LoopPace(60.0, Autonomy.SAFE), lambda _: None)


def test_a_wished_stop_begins_no_further_step(settled: Folder) -> None:
    settled.edit = topology(*WISHED.clusters.values(), topic("pay", partitions=1), flow("east", "west", ".*", lanes=7))
    settled.stop = True
    found = turns(settled, Autonomy.ALL)
    assert {one.result.value for one in found[0].outcomes} == {"skipped"}
    assert "asked to stop" in found[0].outcomes[0].error
    assert settled.world.runner.log == ["start west"]


def test_the_interval_is_from_look_to_look(settled: Folder) -> None:
    clock = Hand([nothing])
    real = settled.plan

    def slow() -> Plan:
        clock.at += 20
        return real()

    settled.plan = slow  # type: ignore[method-assign]
    run(settled, clock, LoopPace(60.0, Autonomy.NONE), lambda _: None)
    assert clock.waited == [40.0, 40.0]
