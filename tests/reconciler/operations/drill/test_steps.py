"""Drills in memory: killed, and refused by a cluster, at every look and act.

What must hold: a canary is never left away by a drill that ends, and the next drill takes back what a killed one left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ClusterError, LockHeld
from reconciler.kafka.protocol.producers.describe_producers import Producers
from reconciler.model.principals import AclBinding
from reconciler.model.reports.cutover import CutoverPlan, CutoverSettings, FenceChosen, TopicSeen
from reconciler.model.reports.drill import DrillPlaces, RecoveryPoint
from reconciler.model.reports.failover import (
    GroupMove,
    GroupOffset,
    GroupState,
    Key,
    PartitionState,
    StepResult,
    TranslatedPartition,
)
from reconciler.model.reports.health import Fault
from reconciler.model.state.cutover_journal import CutoverJournal
from reconciler.operations.cutover.decide import planned_topics
from reconciler.operations.cutover.world import StepEnd, StepNotes
from reconciler.operations.drill.steps import DrillCourse, DrillRun, take_back
from reconciler.operations.failover.group_offsets import due, written
from reconciler.resources.acls.derive_from_flows import denial

CANARY, COPY, RETURNED = "drill.e2w", "east.drill.e2w", "west.drill.e2w"
TWO_WAY = DrillPlaces(CANARY, COPY, CANARY, RETURNED, "w2e")
OWN_TOPIC = DrillPlaces(CANARY, COPY, CANARY, note="no flow back")
ONE_WAY = DrillPlaces(CANARY, COPY, note="no flow back")
STRANGE = -1


class KilledError(BaseException):
    """kill -9: nothing after it runs."""


@dataclass
class Clusters:
    """One partition a topic. ``logs``: cluster, topic -> numbers. ``copies``: records that the mirror copies at each
    look. ``kill_at``, ``refuse_at``: number of the call that kills, or that the clusters do not answer."""

    logs: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    rules: set[AclBinding] = field(default_factory=set)
    read_only: bool = True
    paused: bool = False
    copies: int = 100
    clock: float = 0.0
    calls: int = 0
    kill_at: int = -1
    refuse_at: int = -1
    refuse_for: int = 1
    drops: bool = False
    doubles: bool = False


@dataclass
class World:
    """One drill on the clusters."""

    clusters: Clusters
    places: DrillPlaces
    plan: CutoverPlan
    strange: int = 0
    said: list[str] = field(default_factory=list)
    starts: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at_switch: Callable[[], str] = str

    def _call(self) -> None:
        its = self.clusters
        its.calls += 1
        its.clock += 0.01
        if its.calls == its.kill_at:
            raise KilledError
        if its.refuse_at <= its.calls < its.refuse_at + its.refuse_for:
            raise ClusterError("east", "unreachable", "east does not answer")
        if not its.paused:
            self._copy(("east", CANARY), ("west", COPY))
        if self.places.back:
            self._copy(("west", CANARY), ("east", RETURNED))

    def _copy(self, here: tuple[str, str], there: tuple[str, str]) -> None:
        source, copy = self._log(here), self._log(there)
        fresh = source[len(copy) : len(copy) + self.clusters.copies]
        copy += [STRANGE if self.clusters.drops and number % 50 == 7 else number for number in fresh]

    def _log(self, at: tuple[str, str]) -> list[int]:
        return self.clusters.logs.setdefault(at, [])

    def _names(self, there: bool) -> list[tuple[str, str]]:
        return [("west" if there else "east", name) for name in (self.places.there if there else self.places.here)]

    # the canary's client

    def copied(self) -> Mapping[Key, PartitionState]:
        self._call()
        end = len(self._log(("east", CANARY)))
        return {(CANARY, 0): PartitionState((CANARY, 0), (COPY, 0), len(self._log(("west", COPY))), end, end)}

    def copied_back(self) -> Mapping[Key, PartitionState]:
        self._call()
        if not self.places.back:
            return {}
        end, key = len(self._log(("west", CANARY))), (CANARY, 0)
        return {key: PartitionState(key, (RETURNED, 0), len(self._log(("east", RETURNED))), end, end)}

    def to_ends(self) -> None:
        self._call()
        for each in (*self._names(False), *self._names(True)):
            self.starts[each] = self.clusters.positions[each] = len(self._log(each))
            self._call()

    def write(self, numbers: Sequence[int], *, there: bool) -> None:
        assert bool(self.clusters.rules) == there, "a client that follows the rules writes where it may"
        self._call()
        self._log(("west" if there else "east", CANARY)).extend(numbers)
        self._call()

    def read(self, share: float, *, there: bool) -> Sequence[int]:
        self._call()
        found: list[int] = []
        for each in self._names(there):
            at, log = self.clusters.positions.get(each, 0), self._log(each)
            some = log[at : at + round((len(log) - at) * share + 0.4)]
            found += some
            self.clusters.positions[each] = at + len(some) - int(self.clusters.doubles and bool(some))
        self._call()
        self.strange += found.count(STRANGE)
        return [number for number in found if number != STRANGE]

    def compare(self) -> tuple[int, int]:
        self._call()
        pairs = [(("east", CANARY), ("west", COPY))]
        pairs += [(("west", CANARY), ("east", RETURNED))] if self.places.back else []
        both = [zip(self._log(a)[self.starts[a] :], self._log(b)[self.starts[b] :], strict=True) for a, b in pairs]
        equal = [one == other for pair in both for one, other in pair]
        return len(equal), equal.count(False)

    # the cut-over

    def now(self) -> float:
        return self.clusters.clock

    def sleep(self, seconds: float) -> None:
        self._call()
        self.clusters.clock += seconds

    def say(self, text: str) -> None:
        self.said.append(text)

    def rules(self) -> tuple[frozenset[AclBinding], frozenset[AclBinding]]:
        self._call()
        return frozenset(self.clusters.rules), frozenset(self.clusters.rules)

    def fence(self, rules: Collection[AclBinding]) -> None:
        self._call()
        self.clusters.rules |= set(rules)
        self._call()

    def unfence(self, rules: Collection[AclBinding]) -> None:
        self._call()
        self.clusters.rules -= set(rules)
        self._call()

    def gate_faults(self) -> tuple[Fault, ...]:
        return ()

    def topics(self) -> Mapping[str, str]:
        return planned_topics(self.plan)

    def partitions(self) -> Mapping[Key, PartitionState]:
        return self.copied()

    def producers(self) -> Mapping[Key, Producers] | None:
        return {}

    def names(self, producer_ids: Collection[int]) -> Mapping[int, str]:
        return dict.fromkeys(producer_ids, "")

    def abort(self, transactional_id: str) -> None:
        raise AssertionError(transactional_id)

    def let_through(self) -> Collection[Key]:
        return ()

    def unread(self, spans: Mapping[Key, tuple[int, int]]) -> frozenset[Key]:
        return frozenset(spans)

    def is_paused(self) -> bool:
        return self.clusters.paused

    def pause(self) -> StepNotes:
        self._call()
        done, self.clusters.paused = not self.clusters.paused, True
        self._call()
        return done, ""

    def resume(self) -> StepNotes:
        self._call()
        done, self.clusters.paused = self.clusters.paused, False
        self._call()
        return done, ""

    def start_back(self) -> StepNotes:
        raise AssertionError

    hold_back = start_back

    def _moves(self, pairs: Sequence[tuple[tuple[str, str], tuple[str, str]]]) -> tuple[GroupMove, ...]:
        state = GroupState("classic", "Empty", 0)
        offsets = tuple(
            GroupOffset((here[1], 0), (there[1], 0), at, "", TranslatedPartition(at, True), positions.get(there))
            for positions in (self.clusters.positions,)
            for here, there in pairs
            if (at := positions.get(here)) is not None
        )
        return (GroupMove(CANARY, state, state, offsets),)

    def groups(self, *, settled: bool) -> tuple[GroupMove, ...]:
        self._call()
        assert isinstance(settled, bool)
        return self._moves([(("east", CANARY), ("west", COPY))])

    def commit(self, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
        return self._set("west", tuple(groups))

    def groups_back(self) -> tuple[GroupMove, ...]:
        pairs = [(("west", COPY), ("east", CANARY))]
        pairs += [(("west", CANARY), ("east", RETURNED))] if self.places.back else []
        return self._set("east", self._moves(pairs))

    def _set(self, cluster: str, groups: tuple[GroupMove, ...]) -> tuple[GroupMove, ...]:
        self._call()
        for offsets in due(groups).values():
            for offset in offsets:
                self.clusters.positions[cluster, offset.destination[0]] = offset.translated.offset or 0
                self._call()
        return tuple(written(move, {}) for move in groups)

    def lift(self) -> StepEnd:
        return self._keep_copies(read_only=False)

    def restore(self) -> StepEnd:
        return self._keep_copies(read_only=True)

    def _keep_copies(self, *, read_only: bool) -> StepEnd:
        self._call()
        changed, self.clusters.read_only = self.clusters.read_only is not read_only, read_only
        self._call()
        return (StepResult.DONE if changed else StepResult.ALREADY), ""

    def ends(self, drained: Mapping[Key, int]) -> Mapping[Key, int]:
        self._call()
        return {(COPY, 0): len(self._log(("west", COPY)))}

    def own_records(self, since: Mapping[Key, int], enough: int | None = None) -> Mapping[Key, int]:
        return dict.fromkeys(since, 0)

    def early_records(
        self, before: Mapping[Key, int], drained: Mapping[Key, int], there: Mapping[Key, int]
    ) -> Mapping[Key, int]:
        return {}

    def members(self) -> Mapping[str, int]:
        return {}

    def tail(self, ends: Mapping[Key, int], there: Mapping[Key, int]) -> StepNotes:
        self._call()
        return True, f"{ends[CANARY, 0]} and {there[COPY, 0]}"

    def hook(self, name: str) -> StepNotes | None:
        self._call()
        return (True, self.at_switch()) if name == "switch" else None

    def keep(self, journal: CutoverJournal) -> None:
        assert journal.topics == (CANARY,)

    def perform(self, name: str, act: Callable[[], StepEnd]) -> StepEnd:
        assert name
        return act()


def plan(fence: bool = True) -> CutoverPlan:
    topic = TopicSeen(CANARY, COPY, "id", 1, 0, 0.0, 0.0)
    chosen = FenceChosen(frozenset({denial(CANARY)})) if fence else FenceChosen(obstacle="no authorizer")
    return CutoverPlan(
        "prod", "e2w", "east", "west", CANARY, CANARY, CutoverSettings(2.0, 20.0, 0.0, 0.0), 0, {}, "flow",
        (topic,), (), {}, chosen, "", (), (), 6.0, lifts=True,
    )  # fmt: skip


def drill(clusters: Clusters, places: DrillPlaces = TWO_WAY) -> DrillCourse:
    world = World(clusters, places, plan())
    take_back(world)
    return DrillRun(world, world.plan, 3.0, lambda: int(clusters.clock * 1000) + 1).run()


@pytest.mark.parametrize("places", [TWO_WAY, OWN_TOPIC, ONE_WAY], ids=["two-way", "own topic", "one-way"])
def test_each_record_is_read_once_and_the_canary_is_as_it_was(places: DrillPlaces) -> None:
    clusters = Clusters()
    for _ in range(2):  # the second one meets what the first has left in the logs
        course = drill(clusters, places)
        assert course.failure == ""
        assert course.records.proved, course.records
        assert course.records.strange == 0
        assert (clusters.paused, clusters.rules, clusters.read_only) == (False, set(), True)
        assert course.recovery_s is not None
        assert course.recovery_s >= 2.0, "the fence is held for that long"
        assert course.back_s is not None
        assert all(each.exact and (each.again, each.missed) == (0, 0) for each in course.positions)
        assert [step.name for step in course.steps] == [
            "fence", "verify-fence", "drain", "pause", "groups", "lift", "switch", "tail",
        ]  # fmt: skip


def test_what_is_written_where_no_flow_leads_back() -> None:
    clusters = Clusters()
    assert drill(clusters, ONE_WAY).records.proved
    assert ("west", CANARY) not in clusters.logs, "nothing was written at the destination"


@pytest.mark.parametrize("places", [TWO_WAY, ONE_WAY], ids=["two-way", "one-way"])
def test_a_drill_that_was_killed_at_any_call_is_taken_back_by_the_next(places: DrillPlaces) -> None:
    killed = 0
    for at in range(1, 140):
        clusters = Clusters(copies=20, kill_at=at)
        try:
            drill(clusters, places)
        except KilledError:
            killed += 1
        clusters.kill_at = -1
        course = drill(clusters, places)
        assert (course.failure, course.records.proved, course.records.strange) == ("", True, 0), at
        assert (clusters.paused, clusters.rules, clusters.read_only) == (False, set(), True), at
    assert killed > 100, "a drill takes as many calls, each of which was the last"


@given(
    kill=st.integers(1, 120), again=st.integers(1, 120), copies=st.integers(4, 40),
    places=st.sampled_from([TWO_WAY, OWN_TOPIC, ONE_WAY]),
)  # fmt: skip
def test_a_killed_drill_is_taken_back_by_the_next(kill: int, again: int, copies: int, places: DrillPlaces) -> None:
    clusters = Clusters(copies=copies)
    for at in (kill, again):
        clusters.calls, clusters.kill_at = 0, at
        try:
            drill(clusters, places)
        except KilledError:
            continue
    clusters.kill_at = -1
    course = drill(clusters, places)
    assert course.failure == ""
    assert course.records.proved, course.records
    assert course.records.strange == 0, "the group begins behind what was left"
    assert (clusters.paused, clusters.rules, clusters.read_only) == (False, set(), True)


@given(at=st.integers(1, 120), long=st.integers(1, 6))
def test_a_drill_that_fails_comes_back_or_says_what_is_left(at: int, long: int) -> None:
    clusters = Clusters(copies=20)
    world = World(clusters, TWO_WAY, plan())
    clusters.refuse_at, clusters.refuse_for = at, long
    course = DrillRun(world, world.plan, 3.0, lambda: 1).run()
    if not course.failure:
        assert course.records.proved
    else:
        assert "east does not answer" in course.failure
    assert course.left or (clusters.paused, clusters.rules, clusters.read_only) == (False, set(), True)


def test_a_record_that_is_lost_and_one_that_is_read_twice_are_found() -> None:
    lost = drill(Clusters(drops=True)).records
    assert (lost.missing > 0, lost.different > 0, lost.proved) == (True, True, False)
    twice = drill(Clusters(doubles=True)).records
    assert (twice.doubled > 0, twice.proved) == (True, False)


def test_a_mirror_that_falls_behind_is_the_recovery_point() -> None:
    slow = drill(Clusters(copies=1)).point
    assert slow is not None
    assert slow.records > 60
    assert slow.age_s > 1.0
    quick = drill(Clusters()).point
    assert quick == RecoveryPoint(0, 0.0) or (quick is not None and quick.age_s < 0.5)


def test_a_canary_that_is_not_copied_fails_before_anything_moves() -> None:
    clusters = Clusters(copies=0, logs={("east", CANARY): [1, 2, 3]})
    course = drill(clusters)
    assert "the canary has 3 offsets left to copy after 20 s" in course.failure
    assert course.steps == ()
    assert clusters.positions == {}


def test_a_failover_that_ends_early_is_taken_back() -> None:
    clusters = Clusters()
    world = World(clusters, TWO_WAY, replace(plan(), topics=(replace(plan().topics[0], topic_id="another"),)))
    world.topics = lambda: {CANARY: "1 partition id new"}  # type: ignore[method-assign]
    course = DrillRun(world, world.plan, 1.0, lambda: 1).run()
    assert "the failover ended at step pause" in course.failure
    assert course.steps[-1].result is StepResult.FAILED
    assert (clusters.paused, clusters.rules, clusters.read_only) == (False, set(), True)


def test_a_drill_that_lost_its_lock_takes_nothing_back_and_names_why() -> None:
    """Another drill may be under way on the same canary: its fence would be struck."""
    clusters = Clusters()
    world = World(clusters, TWO_WAY, plan())
    begun: list[str] = []

    def perform(name: str, act: Callable[[], StepEnd]) -> StepEnd:
        begun.append(name)
        if "pause" in begun:
            raise LockHeld("the lock was taken over by bob", "Someone else may act now.", "")
        return act()

    world.perform = perform  # type: ignore[method-assign]
    course = DrillRun(world, world.plan, 1.0, lambda: 1).run()
    assert begun[-2:] == ["pause", "take-back"]
    assert "the lock was taken over by bob" in course.failure
    assert "the lock was taken over by bob" in course.left[0]
    assert clusters.rules, "the canary's fence stands"
