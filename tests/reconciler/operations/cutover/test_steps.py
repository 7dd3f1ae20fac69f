"""Cut-overs in memory: killed at every look and act, gone on with by another run; producers and consumers as they come.

What must hold: a record that was accepted once is read once by a group that follows the rules, wherever it reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import BlockedError, ExitCode, LockHeld, ReconcilerError
from reconciler.model.environment.rollout import Gates
from reconciler.model.principals import AclBinding
from reconciler.model.reports.cutover import CutoverSettings, FenceChosen
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState
from reconciler.model.state.rejoin_journal import RejoinTopic
from reconciler.operations.cutover import live
from reconciler.operations.cutover.run import exit_code, journal_of
from reconciler.operations.failover import rejoin_live, steps
from reconciler.operations.mirror import seek
from reconciler.replication.offsets.parting import WholeRecord
from reconciler.resources.acls.derive_from_flows import denial
from tests.support.fakes.moving_clients import Clusters, KilledError, plan, read_to_the_end, run, take_back


def test_every_record_is_read_once_and_writes_stop_for_the_reported_time() -> None:
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
def test_a_rollback_reverts_everything_or_says_why_not(kill: int, again: int, moves: bool) -> None:
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


@pytest.mark.parametrize("killed", [False, True])
def test_what_the_flow_copies_after_a_rollback_is_not_taken_for_records_of_clients(killed: bool) -> None:
    clusters = Clusters(plan(), moves=False)
    assert exit_code(run(clusters)) is ExitCode.PARTIAL, "no client has come"
    unfence = clusters.unfence

    def and_then_all_go_on(rules: Collection[AclBinding]) -> None:
        unfence(rules)
        clusters.switched = False
        clusters.sleep(1.0)
        if killed and not clusters.rules_made:
            clusters.unfence = unfence  # type: ignore[method-assign]
            raise KilledError

    clusters.unfence = and_then_all_go_on  # type: ignore[method-assign]
    copied = clusters.copied
    try:
        report = take_back(clusters)
    except KilledError:
        report = take_back(clusters)
    assert clusters.copied > copied
    assert (report.own, report.findings, report.failed, exit_code(report)) == ({}, (), None, ExitCode.DONE)


def test_a_producer_that_does_not_obey_is_named_and_nothing_moves() -> None:
    clusters = Clusters(plan(), obeys=False)
    report = run(clusters)
    assert report.failed is not None
    assert report.failed.name == "verify-fence"
    assert "orders-0 from" in report.failed.text
    assert "billing-writer" in report.failed.text
    assert not clusters.paused
    assert clusters.at_destination is None
    again = run(clusters)
    assert exit_code(again) is ExitCode.PARTIAL, "the first run's fence stands"
    clusters.obeys = True
    assert run(clusters).failed is None


def test_exit_code_1_says_that_nothing_is_changed() -> None:
    bare = plan(fence=FenceChosen(obstacle="no authorizer"))
    clusters = Clusters(bare, obeys=False)
    assert exit_code(run(clusters)) is ExitCode.ERROR, "no fence can be made, and the producer continues"
    asked = replace(bare, settings=replace(bare.settings, aborts=True))
    assert exit_code(run(Clusters(asked, obeys=False))) is ExitCode.PARTIAL, "a transaction may be aborted"


def test_a_report_outlives_the_loss_of_the_last_word_of_its_journal() -> None:
    for moves, last in ((True, run), (False, take_back)):
        clusters = Clusters(plan(), moves=moves)
        keep = clusters.keep
        if last is take_back:
            assert exit_code(run(clusters)) is ExitCode.PARTIAL, "no client has come"

        def refuse(journal: CutoverJournal, *lock: Callable[[], None], keep: Callable[..., None] = keep) -> None:
            if journal.state is not CutoverState.UNDER_WAY:
                raise ReconcilerError("west does not answer")
            keep(journal, *lock)

        clusters.keep = refuse  # type: ignore[method-assign, assignment]
        report = last(clusters)
        assert report.failed is None
        (finding,) = report.findings
        assert "the journal still says that it is under way: west does not answer. Run it again" in finding
        assert exit_code(report) is ExitCode.PARTIAL
        clusters.keep = keep  # type: ignore[method-assign]
        assert exit_code(last(clusters)) is ExitCode.DONE


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


def test_while_clients_are_waited_for_what_they_write_is_not_counted_whole() -> None:
    clusters = Clusters(plan(), linger=9)
    assert run(clusters).failed is None
    assert set(clusters.enough) == {1}, "each look would read all that was written since the switch"


def test_the_ends_of_both_sides_are_compared_as_far_as_they_must_be_the_same() -> None:
    def records(*said: str, time: int = 7) -> list[WholeRecord]:
        """``a1``: key and value; ``a-``: a tombstone."""
        values = [None if each[1] == "-" else each[1].encode() for each in said]
        return [WholeRecord(n, time, said[n][0].encode(), value, ()) for n, value in enumerate(values)]

    all_of_it = records("a1", "b1", "a2", "c1")
    exactly = partial(live.alike, compacted=False, timed=True)
    assert exactly(all_of_it, all_of_it) == 4
    assert exactly(all_of_it, all_of_it[1:]) == 3, "retention took one"
    assert exactly(all_of_it, []) == 0
    assert exactly(all_of_it, records("a1", "b1", "c1")) is None
    assert exactly(all_of_it, records("a1", "b1", "a2", "c1", time=9)) is None
    assert live.alike(all_of_it, records("a1", "b1", "a2", "c1", time=9), compacted=False, timed=False) == 4
    by_key = partial(live.alike, compacted=True, timed=True)
    assert by_key(all_of_it, records("b1", "a2", "c1")) == 3, "one side is cleaned"
    assert by_key(records("a1", "b1", "b-", "c1"), records("a1", "c1")) == 2, "and its tombstone gone"
    assert by_key(all_of_it, records("b1", "c1")) is None, "the newest of a key is missing"
    assert by_key(all_of_it, records("b1", "a3", "c1")) is None


@pytest.mark.parametrize("spared", [(), ("User:mirror",)])
def test_records_behind_the_fence_after_the_switch_are_counted(spared: tuple[str, ...]) -> None:
    """Also where a mirror is spared that writes other topics."""
    clusters = Clusters(plan(fence=FenceChosen(frozenset({denial("orders")}), spared)), late=4)
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


@pytest.mark.parametrize(("behind", "found_by"), [("pause", "pause"), ("commit", "switch"), ("lift", "switch")])
def test_a_record_that_slips_in_before_the_switch_is_copied_by_the_next_run(behind: str, found_by: str) -> None:
    clusters = Clusters(plan())
    act = getattr(clusters, behind)

    def slips(*given: object) -> object:
        done = act(*given)
        clusters._write(1)
        setattr(clusters, behind, act)
        return done

    setattr(clusters, behind, slips)
    report = run(clusters)
    assert report.failed is not None
    assert report.failed.name == found_by
    assert clusters.journal is not None
    assert not clusters.journal.switched, "clients are where they were"
    assert "was written after the fence was verified: orders-0 by 1 offset" in report.failed.text
    assert run(clusters).failed is None
    read_to_the_end(clusters)
    assert clusters.read == [*clusters.log, *clusters.there]


SOAK = plan(settings=replace(plan().settings, soak_s=60.0), gates=Gates())


def test_a_wave_is_over_once_its_gates_have_held_for_the_soak() -> None:
    clusters = Clusters(SOAK, broken=[True, True, False, True, False])
    report = run(clusters)
    assert report.failed is None
    soak = report.steps[-1]
    assert (soak.name, soak.text) == ("soak", "all gates held for 60 s")
    assert 60 <= soak.seconds < 75, "one look that sees a gate broken ends no soak"
    assert clusters.journal is not None
    assert (clusters.journal.state, clusters.journal.soaked_ms) == (CutoverState.DONE, 60_000)


def test_gates_that_break_keep_the_next_wave_from_beginning_until_a_whole_soak_has_passed() -> None:
    clusters = Clusters(SOAK, broken=[*[False] * 8, True, True])
    report = run(clusters)
    assert report.failed is not None
    assert report.failed.name == "soak"
    assert "gates do not hold after the cut-over: flow west-to-east: 2m behind" in report.failed.text
    assert exit_code(report) is ExitCode.PARTIAL
    assert clusters.journal is not None
    next_wave = plan(topics_expression="payments", topics=())
    with pytest.raises(BlockedError, match=r"is under way .* it has come to step soak"):
        journal_of(next_wave, "another", [clusters.journal])
    began = clusters.clock
    assert run(clusters).failed is None
    assert clusters.clock - began >= 60
    assert journal_of(next_wave, "another", [clusters.journal]) is None
    read_to_the_end(clusters)
    assert clusters.read == [*clusters.log, *clusters.there]


def test_a_soak_goes_on_with_what_is_left_after_a_kill() -> None:
    clusters = Clusters(SOAK)
    keep = clusters.keep

    def kills(journal: CutoverJournal, *require_lock: Callable[[], None]) -> None:
        keep(journal, *require_lock)
        if journal.soaked_ms >= 40_000:
            raise KilledError

    clusters.keep = kills  # type: ignore[method-assign, assignment]
    with pytest.raises(KilledError):
        run(clusters)
    clusters.keep = keep  # type: ignore[method-assign]
    report = run(clusters)
    assert 20 <= report.steps[-1].seconds < 30


def test_a_step_is_not_begun_without_its_journal() -> None:
    clusters = Clusters(plan())
    keep = clusters.keep

    def refuse(journal: CutoverJournal, *require_lock: Callable[[], None]) -> None:
        if journal.begun == "pause":
            raise ReconcilerError("the lock was taken over by bob")
        keep(journal, *require_lock)

    clusters.keep = refuse  # type: ignore[method-assign, assignment]
    report = run(clusters)
    assert report.failed is not None
    assert (report.failed.name, clusters.paused) == ("pause", False)


def test_once_the_lock_is_lost_no_position_is_set_and_nothing_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step waits for members, clients or transactions, for minutes; another run may take the lock and go back."""

    def stolen(*_: object) -> None:
        raise LockHeld("the lock is held no longer", "Another run took it.", "Check its audit record.")

    def act(*_: object) -> None:
        raise AssertionError("another run holds the lock")

    without_lock = SimpleNamespace(require_kept=stolen, require_lock=stolen)
    monkeypatch.setattr(live, "set_positions", act)
    monkeypatch.setattr(live, "abort", act)
    monkeypatch.setattr(live, "Survey", lambda *_: SimpleNamespace(exact_groups=tuple, destination=None))
    monkeypatch.setattr(live, "move_of", lambda *_: None)
    world = live.LiveWorld.__new__(live.LiveWorld)
    world.session, world.plan = SimpleNamespace(topology=None, visits=None), plan()  # type: ignore[assignment]
    monkeypatch.setattr(world, "_execute", without_lock, raising=False)
    monkeypatch.setattr(world, "_survey", SimpleNamespace(destination=None), raising=False)
    changes: list[Callable[[], object]] = [lambda: world.commit(()), world.groups_back, lambda: world.abort("orders")]
    for change in changes:
        with pytest.raises(LockHeld):
            change()

    monkeypatch.setattr(steps, "set_positions", act)
    switch = steps.Switch.__new__(steps.Switch)
    monkeypatch.setattr(switch, "survey", SimpleNamespace(exact_groups=tuple, destination=None), raising=False)
    with pytest.raises(LockHeld):
        switch._offsets(without_lock, [])  # type: ignore[arg-type]

    monkeypatch.setattr(seek, "begin_anew", act)
    rejoin = rejoin_live.LiveRejoin.__new__(rejoin_live.LiveRejoin)
    rejoin.session = SimpleNamespace(clusters={"east": SimpleNamespace(perform=act)})  # type: ignore[assignment]
    rejoin.execute = without_lock  # type: ignore[assignment]
    rejoin.flow = SimpleNamespace(name="east-to-west", source="east")  # type: ignore[assignment]
    topic = RejoinTopic("orders", "id", 1, (0,), {})
    for change in (lambda: rejoin.seek("orders"), lambda: rejoin.delete(topic), lambda: rejoin.create(topic)):
        with pytest.raises(LockHeld):
            change()
