"""Two clusters in memory, and clients that move at a cut-over: a port of its steps that fails, hangs and is killed as a
test asks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.protocol.producers.describe_producers import ActiveProducer, Producers
from reconciler.model.principals import AclBinding
from reconciler.model.reports.cutover import (
    CutoverPlan,
    CutoverReport,
    CutoverSettings,
    FenceChosen,
    GroupSeen,
    MemberSeen,
    TopicSeen,
)
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
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState, dumps, loads
from reconciler.operations.cutover.decide import planned_topics
from reconciler.operations.cutover.run import CutoverRollback
from reconciler.operations.cutover.steps import CutoverRun, fresh_journal
from reconciler.operations.cutover.world import StepEnd, StepNotes
from reconciler.operations.failover.group_offsets import due, written
from reconciler.resources.acls.derive_from_flows import denial

ORDERS: Key = ("orders", 0)
COPY: Key = ("east.orders", 0)
PRODUCER = 7


class Hook(Enum):
    """FAILS: it does nothing. LATE: it does its work, and is reported as failed."""

    FAILS = "fails"
    LATE = "late"


class KilledError(BaseException):
    """kill -9: nothing after it runs."""


@dataclass
class Clusters:
    """One partition, one group, one producer; same offsets on both sides, so that positions translate to themselves.

    ``obeys``: the producer is bound by rules. ``open_for``: seconds its transaction stays open. ``moves``: clients
    follow the switch, ``linger`` seconds later. ``reads``: records the group reads at each look. ``kill_at``: number of
    the call that kills. ``away``: calls at which no cluster answers. ``steal_at``: number of the call during which
    another machine takes the lock over, and brings the cut-over to its end. ``copies``: the mirror runs. ``hooks``: how
    the runs of the hook *switch* end, one after the other. ``stays``: a static member that the origin counts for ever.
    ``stands``: seconds in which the mirror copies nothing. ``leaves``: the group's member goes with the switch, else it
    reads on at the origin. ``moved``: it had gone to the destination before. ``early``: records that a client wrote at
    the destination between the fence and the pause.
    ``broken``: at each look at the gates, one after the other, whether one does not hold; then all hold.
    """

    plan: CutoverPlan
    obeys: bool = True
    open_for: float = 0.0
    moves: bool = True
    linger: float = 0.0
    reads: int = 5
    rate: int = 3
    kill_at: int = -1
    away: range = range(0)
    steal_at: int = -1
    holder: int = 1
    copies: bool = True
    hooks: list[Hook] = field(default_factory=list)
    broken: list[bool] = field(default_factory=list)
    stays: bool = False
    stands: float = 0.0
    leaves: bool = True
    moved: bool = False
    late: int = 0
    early: int = 0
    lets_through: int = 0
    probed: int = 0
    log: list[int] = field(default_factory=lambda: list(range(20)))
    copied: int = 10
    there: list[int] = field(default_factory=list)
    rules_made: set[AclBinding] = field(default_factory=set)
    read_only: bool = True
    paused: bool = False
    back_runs: bool = False
    at_origin: int = 4
    at_destination: int | None = None
    read: list[int] = field(default_factory=list)
    joined: bool = False
    switched: bool = False
    clock: float = 0.0
    calls: int = 0
    journal: CutoverJournal | None = None
    last_ms: int = 0
    aborted: list[str] = field(default_factory=list)
    created: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    enough: list[int | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.read = self.log[: self.at_origin]
        if self.moved:
            self.joined, self.at_destination = True, self.at_origin

    # time: clients act while the cut-over waits

    def sleep(self, seconds: float) -> None:
        self._call()
        self.clock += seconds
        self.open_for = max(0.0, self.open_for - seconds)
        self.stands -= seconds
        fenced = bool(self.rules_made) and self.obeys
        self.linger -= seconds if self.switched else 0
        gone = self.switched and self.moves and self.linger < 0
        if not gone and not fenced:
            self._write(self.rate)
        if self.late and self.switched:
            self._write(self.late)
            self.late = 0
        if not self.joined and not (gone and self.leaves):
            fresh = self.log[self.at_origin : self.at_origin + self.reads]
            self.read += fresh
            self.at_origin += len(fresh)
        if not self.paused and self.copies and self.stands <= 0:
            self.copied = min(len(self.log), self.copied + 8)
        if gone:
            assert not self.read_only, "producers that come find the copies writable"
            self.there.append(1000 + len(self.there))
            self.joined = self.joined or self.leaves
        if self.joined:
            both = [*self.log[: self.copied], *self.there]
            begun = self.at_destination or 0  # auto.offset.reset: earliest
            self.read += both[begun:]
            self.at_destination = max(begun, len(both))

    def _write(self, count: int) -> None:
        self.log += range(len(self.log), len(self.log) + count)
        self.last_ms += count

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at:
            raise KilledError
        if self.calls in self.away:
            raise ClusterError("east", "unreachable", "east does not answer")
        if self.calls == self.steal_at:
            self.holder += 1
            run(self)

    # the port

    def now(self) -> float:
        return self.clock

    def say(self, text: str) -> None:
        self.said.append(text)

    def rules(self) -> tuple[frozenset[AclBinding], frozenset[AclBinding]]:
        self._call()
        return frozenset(self.rules_made), frozenset(self.rules_made)

    def fence(self, rules: Collection[AclBinding]) -> None:
        self._call()
        self.rules_made |= set(rules)
        self._call()

    def unfence(self, rules: Collection[AclBinding]) -> None:
        self._call()
        self.rules_made -= set(rules)
        self._call()

    def topics(self) -> Mapping[str, str]:
        self._call()
        return planned_topics(self.plan) | self.created

    def partitions(self) -> Mapping[Key, PartitionState]:
        self._call()
        end = len(self.log)
        return {ORDERS: PartitionState(ORDERS, COPY, self.copied, end - bool(self.open_for), end)}

    def producers(self) -> Mapping[Key, Producers] | None:
        self._call()
        first = len(self.log) - 1 if self.open_for else -1
        return {ORDERS: (ActiveProducer(PRODUCER, 0, self.last_ms, first, last_ms=self.last_ms),)}

    def names(self, producer_ids: Collection[int]) -> Mapping[int, str]:
        return dict.fromkeys(producer_ids, "billing-writer")

    def abort(self, transactional_id: str) -> None:
        self._call()
        self.aborted.append(transactional_id)
        self.open_for = 0.0

    def let_through(self) -> Collection[Key]:
        self._call()
        self.probed += 1
        return [("orders", 0)] if self.probed <= self.lets_through else []

    def unread(self, spans: Mapping[Key, tuple[int, int]]) -> frozenset[Key]:
        self._call()
        return frozenset(key for key, (begin, end) in spans.items() if begin < end)

    def is_paused(self) -> bool:
        return self.paused

    def pause(self) -> StepNotes:
        self._call()
        done, self.paused = not self.paused, True
        self._call()
        return done, ""

    def resume(self) -> StepNotes:
        self._call()
        done, self.paused = self.paused, False
        self._call()
        return done, ""

    def start_back(self) -> StepNotes:
        self._call()
        done, self.back_runs = not self.back_runs, True
        self._call()
        return done, ""

    def hold_back(self) -> StepNotes:
        self._call()
        done, self.back_runs = self.back_runs, False
        return done, ""

    def groups(self, *, settled: bool) -> tuple[GroupMove, ...]:
        self._call()
        assert isinstance(settled, bool)
        gone = self.joined and not self.stays
        here = GroupState("classic", "Empty" if gone else "Stable", int(not gone))
        there = GroupState("classic", "Stable" if self.joined else "Empty", int(self.joined))
        at = min(self.at_origin, self.copied)
        offset = GroupOffset(ORDERS, COPY, self.at_origin, "", TranslatedPartition(at, True), self.at_destination)
        return (GroupMove("billing", here, there, (offset,)),)

    def commit(self, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
        self._call()
        for offsets in due(tuple(groups)).values():
            for offset in offsets if not self.joined else ():  # brokers refuse it while a group has members
                self.at_destination = offset.translated.offset
        self._call()
        return tuple(written(move, {}) for move in groups)

    def groups_back(self) -> tuple[GroupMove, ...]:
        self._call()
        self.joined = False
        self.at_origin = max(self.at_origin, self.at_destination or 0)
        return ()

    def ends(self, drained: Mapping[Key, int]) -> Mapping[Key, int]:
        self._call()
        assert drained.keys() <= {ORDERS}, "none before the fence"
        return {COPY: self.copied + len(self.there)}

    def own_records(self, since: Mapping[Key, int], enough: int | None = None) -> Mapping[Key, int]:
        self._call()
        count = self.copied + len(self.there) - since[COPY]
        self.enough.append(enough)
        return {COPY: min(count, enough or count)} if count else {}

    def early_records(
        self, before: Mapping[Key, int], drained: Mapping[Key, int], there: Mapping[Key, int]
    ) -> Mapping[Key, int]:
        assert before.keys() == there.keys() == {COPY}
        assert drained == {ORDERS: len(self.log)}
        return {COPY: self.early} if self.early else {}

    def lift(self) -> StepEnd:
        return self._copies(read_only=False)

    def restore(self) -> StepEnd:
        return self._copies(read_only=True)

    def _copies(self, *, read_only: bool) -> StepEnd:
        self._call()
        changed, self.read_only = self.read_only is not read_only, read_only
        self._call()
        return (StepResult.DONE if changed else StepResult.ALREADY), ""

    def members(self) -> Mapping[str, int]:
        self._call()
        return {"billing": int(self.joined)}

    def tail(self, ends: Mapping[Key, int], there: Mapping[Key, int]) -> StepNotes:
        self._call()
        return True, f"{ends[ORDERS]} and {there[COPY]}"

    def gate_faults(self) -> tuple[Fault, ...]:
        self._call()
        return (Fault("lag", "flow west-to-east", "2m behind"),) if self.broken and self.broken.pop(0) else ()

    def hook(self, name: str) -> StepNotes | None:
        self._call()
        if name != "switch":
            return None
        how = self.hooks.pop(0) if self.hooks else None
        self.switched = self.switched or how is not Hook.FAILS
        self._call()
        if how is not None:
            raise ReconcilerError("the hook switch did not end within 60 s")
        return True, "ran"

    def keep(self, journal: CutoverJournal, require_lock: Callable[[], None] = lambda: None) -> None:
        self._call()
        require_lock()
        self.journal = loads(dumps(journal))
        self._call()

    def perform(self, name: str, act: Callable[[], StepEnd]) -> StepEnd:
        self._call()
        return act()


class Machine:
    """The clusters as one run sees them: it writes its journal and begins a step only while it holds the lock."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters, self._number = clusters, clusters.holder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clusters, name)

    def keep(self, journal: CutoverJournal) -> None:
        self._clusters.keep(journal, self._require_lock)

    def perform(self, name: str, act: Callable[[], StepEnd]) -> StepEnd:
        self._require_lock()
        return self._clusters.perform(name, act)

    def _require_lock(self) -> None:
        if self._clusters.holder != self._number:
            raise ReconcilerError("the lock was taken over")


def plan(**changes: object) -> CutoverPlan:
    topic = TopicSeen("orders", "east.orders", "id", 1, 10, 3.0, 8.0)
    group = GroupSeen("billing", "classic", (MemberSeen("app", "/10.0.0.1"),), 1, 0, 0, True, 0)
    made = CutoverPlan(
        "prod", "east-to-west", "east", "west", "", "", CutoverSettings(2.0, 20.0, 20.0, 30.0), 0, {}, "flow",
        (topic,), (group,), {}, FenceChosen(frozenset({denial("orders")})), "west-to-east", (), (), 6.0, lifts=True,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def run(clusters: Clusters) -> CutoverReport:
    journal = clusters.journal
    if journal is None or journal.state is CutoverState.TAKEN_BACK:
        journal = fresh_journal(clusters.plan, "digest", "ann", 0)
    machine = Machine(clusters)
    return CutoverRun(machine, clusters.plan, journal, lambda: int(clusters.clock * 1000) + 1).run()


def take_back(clusters: Clusters) -> CutoverReport:
    assert clusters.journal is not None
    return CutoverRollback(clusters, clusters.plan, clusters.journal, lambda: 0).run()


def read_to_the_end(clusters: Clusters) -> None:
    """Clients go on where they are, and nothing fails any more."""
    clusters.away, clusters.kill_at, clusters.steal_at = range(0), -1, -1
    for _ in range(20):
        clusters.sleep(1)
