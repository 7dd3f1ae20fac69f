"""Cut-overs in memory: killed at every look and act, gone on with by another run; producers and consumers as they come.

What must hold: a record that was accepted once is read once by a group that follows the rules, wherever it reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import ReconcilerError
from reconciler.kafka.protocol.producers.describe_producers import ActiveProducer, Producers
from reconciler.model.acls import AclBinding
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
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState, dumps, loads
from reconciler.operations.cutover.decide import topic_words
from reconciler.operations.cutover.rollback import CutoverRollback
from reconciler.operations.cutover.steps import CutoverRun, fresh_journal
from reconciler.operations.cutover.world import StepEnd, StepNotes
from reconciler.operations.failover.decide import due, written
from reconciler.resources.acls.read_only import denial

ORDERS: Key = ("orders", 0)
COPY: Key = ("east.orders", 0)
PRODUCER = 7


class KilledError(BaseException):
    """kill -9: nothing after it runs."""


@dataclass
class Clusters:
    """One partition, one group, one producer; same offsets on both sides, so that positions translate to themselves.

    ``obeys``: the producer is bound by rules. ``open_for``: seconds its transaction stays open. ``moves``: clients
    follow the switch, ``linger`` seconds later. ``reads``: records the group reads at each look. ``kill_at``: number of
    the call that kills.
    """

    plan: CutoverPlan
    obeys: bool = True
    open_for: float = 0.0
    moves: bool = True
    linger: float = 0.0
    reads: int = 5
    rate: int = 3
    kill_at: int = -1
    late: int = 0
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

    def __post_init__(self) -> None:
        self.read = self.log[: self.at_origin]

    # time: clients act while the cut-over waits

    def sleep(self, seconds: float) -> None:
        self._call()
        self.clock += seconds
        self.open_for = max(0.0, self.open_for - seconds)
        fenced = bool(self.rules_made) and self.obeys
        self.linger -= seconds if self.switched else 0
        gone = self.switched and self.moves and self.linger < 0
        if not gone and not fenced:
            self._write(self.rate)
        if self.late and self.switched:
            self._write(self.late)
            self.late = 0
        if not gone and not self.joined:
            fresh = self.log[self.at_origin : self.at_origin + self.reads]
            self.read += fresh
            self.at_origin += len(fresh)
        if not self.paused:
            self.copied = min(len(self.log), self.copied + 8)
        if gone:
            assert not self.read_only, "producers that come find the copies writable"
            self._join()
            self.there.append(1000 + len(self.there))
            assert self.at_destination is not None
            both = [*self.log[: self.copied], *self.there]
            self.read += both[self.at_destination :]
            self.at_destination = max(self.at_destination, len(both))

    def _join(self) -> None:
        self.joined = True
        if self.at_destination is None:
            self.at_destination = 0  # auto.offset.reset: earliest

    def _write(self, count: int) -> None:
        self.log += range(len(self.log), len(self.log) + count)
        self.last_ms += count

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.kill_at:
            raise KilledError

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
        return {topic.topic: topic_words(topic) for topic in self.plan.topics} | self.created

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
        here = GroupState("classic", "Empty" if self.joined else "Stable", int(not self.joined))
        there = GroupState("classic", "Stable" if self.joined else "Empty", int(self.joined))
        at = min(self.at_origin, self.copied)
        offset = GroupOffset(ORDERS, COPY, self.at_origin, "", TranslatedPartition(at, True), self.at_destination)
        return (GroupMove("billing", here, there, (offset,)),)

    def commit(self, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
        self._call()
        for offsets in due(tuple(groups)).values():
            for offset in offsets:
                self.at_destination = offset.translated.offset
        self._call()
        return tuple(written(move, {}) for move in groups)

    def groups_back(self) -> tuple[GroupMove, ...]:
        self._call()
        self.joined = False
        self.at_origin = max(self.at_origin, self.at_destination or 0)
        return ()

    def ends(self) -> Mapping[Key, int]:
        self._call()
        return {COPY: self.copied + len(self.there)}

    def own_records(self, since: Mapping[Key, int]) -> Mapping[Key, int]:
        self._call()
        count = self.copied + len(self.there) - since[COPY]
        return {COPY: count} if count else {}

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

    def hook(self, name: str) -> StepNotes | None:
        self._call()
        self.switched = self.switched or name == "switch"
        self._call()
        return (True, "ran") if name == "switch" else None

    def keep(self, journal: CutoverJournal) -> None:
        self._call()
        self.journal = loads(dumps(journal))
        self._call()

    def perform(self, name: str, act: Callable[[], StepEnd]) -> StepEnd:
        assert name
        return act()


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
    return CutoverRun(clusters, clusters.plan, journal, lambda: int(clusters.clock * 1000) + 1).run()


def take_back(clusters: Clusters) -> CutoverReport:
    assert clusters.journal is not None
    return CutoverRollback(clusters, clusters.plan, clusters.journal, lambda: 0).run()


def read_to_the_end(clusters: Clusters) -> None:
    """Clients go on where they are."""
    for _ in range(20):
        clusters.sleep(1)


def results(report: CutoverReport) -> dict[str, StepResult]:
    return {step.name: step.result for step in report.steps}


def test_every_record_is_read_once_and_writes_stop_for_the_time_told() -> None:
    clusters = Clusters(plan())
    report = run(clusters)
    assert report.failed is None, report.failed
    read_to_the_end(clusters)
    assert clusters.read == [*clusters.log, *clusters.there]
    assert clusters.journal is not None
    assert clusters.journal.state is CutoverState.DONE
    assert (clusters.paused, clusters.back_runs) == (True, True)
    assert report.stopped_s is not None
    assert 2.0 <= report.stopped_s < 10.0
    assert not report.findings


@given(
    kill=st.integers(1, 150), again=st.integers(1, 150), rate=st.integers(0, 9), reads=st.integers(1, 30),
    linger=st.integers(0, 9),
)  # fmt: skip
def test_a_run_that_is_killed_anywhere_is_gone_on_with(
    kill: int, again: int, rate: int, reads: int, linger: int
) -> None:
    settings = CutoverSettings(2.0, 20.0, 3.0, 30.0)  # slow groups do not catch up
    clusters = Clusters(plan(settings=settings), rate=rate, reads=reads, linger=linger)
    for at in (kill, again, -1):
        clusters.calls, clusters.kill_at = 0, at
        try:
            report = run(clusters)
        except KilledError:
            continue
        assert report.failed is None, report.failed
    clusters.kill_at = -1
    read_to_the_end(clusters)
    assert clusters.read == [*clusters.log, *clusters.there]
    assert len(set(clusters.read)) == len(clusters.read)


@given(kill=st.integers(1, 150), again=st.integers(1, 20), moves=st.booleans())
def test_a_rollback_takes_all_of_it_back_or_tells_why_not(kill: int, again: int, moves: bool) -> None:
    clusters = Clusters(plan(settings=CutoverSettings(2.0, 20.0, 20.0, 4.0)), moves=moves, kill_at=kill)
    with suppress(KilledError):
        run(clusters)
    if clusters.journal is None:
        return
    clusters.calls, clusters.kill_at = 0, again
    try:
        report = take_back(clusters)
    except KilledError:
        clusters.kill_at = -1
        report = take_back(clusters)
    clusters.kill_at = -1
    if report.own:
        assert sum(report.own.values()) == len(clusters.there) > 0
        assert clusters.rules_made, "producers stay off while it is a failback"
        return
    assert not clusters.rules_made
    assert not clusters.paused
    assert clusters.read_only
    assert not clusters.back_runs
    clusters.switched = False
    read_to_the_end(clusters)
    assert clusters.read == clusters.log


def test_a_producer_that_does_not_obey_is_named_and_nothing_moves() -> None:
    clusters = Clusters(plan(), obeys=False)
    report = run(clusters)
    assert report.failed is not None
    assert report.failed.name == "verify-fence"
    assert "orders-0 from" in report.failed.text
    assert "billing-writer" in report.failed.text
    assert not clusters.paused
    assert clusters.at_destination is None
    clusters.obeys = True
    assert run(clusters).failed is None


def test_an_open_transaction_is_waited_for_then_named_and_aborted_only_if_asked() -> None:
    assert run(Clusters(plan(), open_for=5.0)).failed is None
    clusters = Clusters(plan(), open_for=1e6)
    report = run(clusters)
    assert report.failed is not None
    assert "open transactions: billing-writer in orders-0" in report.failed.text
    assert not clusters.aborted
    asked = Clusters(plan(settings=replace(plan().settings, aborts=True)), open_for=1e6)
    assert run(asked).failed is None
    assert asked.aborted == ["billing-writer"]


def test_a_probe_that_is_let_through_disproves_the_fence_until_it_is_refused() -> None:
    probed = plan(probe="User:billing")
    clusters = Clusters(probed, lets_through=2)  # brokers learn of a rule one after the other
    report = run(clusters)
    assert report.failed is None
    assert clusters.probed == 3
    assert "a write as User:billing is refused" in next(s.text for s in report.steps if s.name == "verify-fence")
    bypassed = Clusters(probed, lets_through=10**6)
    report = run(bypassed)
    assert report.failed is not None
    assert report.failed.name == "verify-fence"
    assert "a write as User:billing is let through in orders-0" in report.failed.text
    assert not bypassed.paused


def test_clients_that_do_not_come_leave_the_way_back_stopped_and_the_next_run_goes_on() -> None:
    clusters = Clusters(plan(), moves=False)
    report = run(clusters)
    assert report.failed is not None
    assert (report.failed.name, clusters.back_runs) == ("clients", False)
    assert "groups billing and producers of orders" in report.failed.text
    clusters.moves = True
    assert run(clusters).failed is None
    read_to_the_end(clusters)
    assert clusters.read == [*clusters.log, *clusters.there]


def test_records_behind_the_fence_after_the_switch_are_counted() -> None:
    clusters = Clusters(plan(), late=4)
    report = run(clusters)
    assert report.failed is None
    assert len(report.findings) == 1
    assert "orders-0: 4 offsets" in report.findings[0]


def test_a_topic_that_was_created_meanwhile_is_not_left_behind() -> None:
    clusters = Clusters(plan(), created={"fresh": "1 partition id new"})
    report = run(clusters)
    assert report.failed is not None
    assert (report.failed.name, clusters.paused) == ("pause", False)
    assert "fresh: was absent, is 1 partition id new" in report.failed.text
    some = Clusters(plan(topics_expression="orders|fresh", started=""), created={"fresh": "1 partition id new"})
    report = run(some)
    assert report.failed is None
    assert "fresh" in report.findings[0]


def test_a_record_that_slips_in_behind_the_pause_is_copied_by_the_next_run() -> None:
    clusters = Clusters(plan())
    pause = clusters.pause

    def slips() -> StepNotes:
        done = pause()
        clusters._write(1)
        clusters.pause = pause  # type: ignore[method-assign]
        return done

    clusters.pause = slips  # type: ignore[method-assign]
    report = run(clusters)
    assert report.failed is not None
    assert "was written after the fence was verified: orders-0 by 1 offset" in report.failed.text
    assert run(clusters).failed is None
    read_to_the_end(clusters)
    assert clusters.read == [*clusters.log, *clusters.there]


def test_a_step_is_not_begun_without_its_journal() -> None:
    clusters = Clusters(plan())
    keep = clusters.keep

    def refuse(journal: CutoverJournal) -> None:
        if journal.begun == "pause":
            raise ReconcilerError("the lock was taken over by bob")
        keep(journal)

    clusters.keep = refuse  # type: ignore[method-assign]
    report = run(clusters)
    assert report.failed is not None
    assert (report.failed.name, clusters.paused) == ("pause", False)
