"""What can go wrong during a cut-over, at every call of its port: clusters that do not answer, hooks, a stolen lock,
topics that change, members that stay, a mirror that stands.

What must hold: as in ``test_steps``, each record is read once; and what the run ends with names the cause.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.errors import ClusterError, ExitCode
from reconciler.model.reports.cutover import CutoverSettings
from reconciler.model.reports.failover import GroupMove, GroupOffset, GroupState, TranslatedPartition
from reconciler.model.state.cutover_journal import CutoverState
from reconciler.operations.cutover.run import exit_code
from reconciler.operations.failover.group_offsets import written
from tests.support.fakes.moving_clients import (
    COPY,
    ORDERS,
    Clusters,
    Hook,
    KilledError,
    plan,
    read_to_the_end,
    run,
    take_back,
)

SETTINGS = CutoverSettings(2.0, 20.0, 3.0, 30.0)


def read_once(clusters: Clusters) -> None:
    read_to_the_end(clusters)
    assert clusters.read == [*clusters.log, *clusters.there]


@given(first=st.integers(1, 160), long=st.integers(1, 40), reads=st.integers(1, 30))
def test_clusters_that_do_not_answer_between_any_two_looks_end_a_run_and_the_next_goes_on(
    first: int, long: int, reads: int
) -> None:
    clusters = Clusters(plan(settings=SETTINGS), reads=reads, away=range(first, first + long))
    while (report := run(clusters)).failed is not None or report.findings:
        assert "east does not answer" in (report.failed.text if report.failed else report.findings[0])
        assert exit_code(report) is ExitCode.PARTIAL or not clusters.rules_made, "1 says that nothing was changed"
    read_once(clusters)
    assert clusters.journal is not None
    assert clusters.journal.state is CutoverState.DONE


@given(at=st.integers(1, 160), reads=st.integers(1, 30), linger=st.integers(0, 9))
def test_another_machine_that_takes_the_lock_at_any_moment_ends_it_alone(at: int, reads: int, linger: int) -> None:
    clusters = Clusters(plan(settings=SETTINGS), reads=reads, linger=linger, steal_at=at)
    report = run(clusters)
    told = [report.failed.text] if report.failed else report.findings
    assert all("the lock was taken over" in each for each in told), "with it, the right to write its journal is lost"
    read_once(clusters)
    assert clusters.journal is not None
    assert clusters.journal.state is CutoverState.DONE


@given(kill=st.integers(1, 160), away=st.integers(1, 30), long=st.integers(1, 9), again=st.integers(1, 20))
@example(kill=1, away=1, long=1, again=1)
def test_a_rollback_goes_on_after_kills_and_lost_clusters_alike(kill: int, away: int, long: int, again: int) -> None:
    clusters = Clusters(plan(settings=SETTINGS), moves=False, kill_at=kill)
    with suppress(KilledError):
        run(clusters)
    if clusters.journal is None or clusters.journal.state is CutoverState.DONE:
        return
    clusters.calls, clusters.kill_at, clusters.away = 0, again, range(away, away + long)
    for _ in range(long + 3):
        with suppress(KilledError, ClusterError):
            report = take_back(clusters)
            if report.failed is None and not report.findings:
                break
        clusters.kill_at = -1
    assert clusters.journal.state is CutoverState.TAKEN_BACK
    assert not clusters.rules_made
    assert not clusters.paused
    clusters.switched = False
    read_once(clusters)


@given(hooks=st.lists(st.sampled_from(Hook), max_size=4), linger=st.integers(0, 9))
def test_a_hook_that_fails_or_succeeds_late_is_run_again_until_it_ends(hooks: list[Hook], linger: int) -> None:
    clusters = Clusters(plan(settings=SETTINGS), hooks=list(hooks), linger=linger)
    for _ in hooks:
        report = run(clusters)
        assert report.failed is not None
        assert report.failed.name == "switch"
        read_to_the_end(clusters)  # clients go where the hook sent them, if it did
    assert run(clusters).failed is None
    read_once(clusters)


def test_after_a_hook_that_failed_the_way_back_is_open_until_a_client_writes() -> None:
    clusters = Clusters(plan(), hooks=[Hook.FAILS])
    assert run(clusters).failed is not None
    report = take_back(clusters)
    assert not report.own
    assert report.failed is None
    read_once(clusters)
    late = Clusters(plan(), hooks=[Hook.LATE])
    assert run(late).failed is not None
    read_to_the_end(late)
    assert sum(take_back(late).own.values()) == len(late.there) > 0


def test_a_record_that_a_client_wrote_before_the_pause_forbids_a_rollback_after_the_switch() -> None:
    clusters = Clusters(plan(), hooks=[Hook.FAILS], early=2)
    assert run(clusters).failed is not None
    assert take_back(clusters).own == {"east.orders-0": 2}
    assert clusters.rules_made, "producers stay off while it is a failback"


@given(
    kills=st.lists(st.integers(1, 160), max_size=3), back=st.sampled_from((None, 0, 1, 2)),
    away=st.tuples(st.integers(1, 160), st.integers(0, 30)), steal_at=st.integers(-60, 160),
    hooks=st.lists(st.sampled_from(Hook), max_size=2), clients=st.tuples(st.integers(0, 9), st.integers(1, 30)),
    linger=st.integers(0, 9), open_for=st.integers(0, 40), stands=st.integers(0, 40),
    marks=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)  # fmt: skip
def test_whatever_comes_together_each_record_is_read_once(
    kills: list[int], back: int | None, away: tuple[int, int], steal_at: int, hooks: list[Hook],
    clients: tuple[int, int], linger: int, open_for: int, stands: int, marks: tuple[bool, bool, bool, bool],
) -> None:  # fmt: skip
    """Two kills, a lost cluster, a stolen lock, hooks that fail, a rollback in between, and clients of each kind. After
    each run that fails a user does what its error says."""
    (rate, reads), (obeys, stays, leaves, moved) = clients, marks
    clusters = Clusters(
        plan(settings=SETTINGS), rate=rate, reads=reads, linger=linger, open_for=open_for, stands=stands,
        hooks=list(hooks), steal_at=steal_at, away=range(away[0], sum(away)),
        obeys=obeys, stays=stays, leaves=leaves, moved=moved,
    )  # fmt: skip
    for turn in range(20):
        clusters.calls, clusters.kill_at = 0, kills.pop() if kills else -1
        report = None
        with suppress(KilledError):
            report = run(clusters)
        clusters.away, clusters.steal_at = range(0), -1
        if report is not None and report.failed is None and not report.findings:
            break
        clusters.kill_at = -1
        if turn == back and clusters.journal is not None and clusters.journal.state is CutoverState.UNDER_WAY:
            taken = take_back(clusters)
            assert taken.own or taken.failed is None
            clusters.switched = clusters.switched and bool(taken.own)  # consumers get the address of the origin
        words = report.failed.text if report is not None and report.failed is not None else ""
        clusters.obeys = clusters.obeys or "still written" in words
        if "groups billing" in words and not clusters.leaves:
            clusters.plan = plan(settings=replace(SETTINGS, clients_s=0.0))  # it is given up
    assert clusters.journal is not None
    assert clusters.journal.state is CutoverState.DONE
    clusters.leaves = True
    read_once(clusters)


def test_a_member_that_never_leaves_is_named_then_given_up_and_misses_nothing_when_it_comes() -> None:
    clusters = Clusters(plan(settings=SETTINGS), leaves=False, reads=1)
    report = run(clusters)
    assert report.failed is not None
    assert (report.failed.name, clusters.back_runs) == ("clients", False)
    assert "not seen on west within 30 s: groups billing" in report.failed.text
    clusters.plan = plan(settings=replace(SETTINGS, clients_s=0.0))
    report = run(clusters)
    assert report.failed is None
    assert "not waited for, and not seen yet: groups billing" in next(
        s.text for s in report.steps if s.name == "clients"
    )
    clusters.leaves = True
    read_once(clusters)


def test_a_stalled_mirror_is_waited_for_then_reported_and_writes_can_go_on() -> None:
    clusters = Clusters(plan(), copies=False)
    report = run(clusters)
    assert report.failed is not None
    assert (report.failed.name, clusters.paused) == ("drain", False)
    assert "left to copy after 20 s" in report.failed.text
    assert "cutover rollback" in report.failed.text
    assert take_back(clusters).failed is None
    assert not clusters.rules_made
    clusters.copies = True
    assert run(clusters).failed is None
    read_once(clusters)


@given(reads=st.integers(1, 9), linger=st.integers(0, 9))
def test_a_static_member_whose_session_lasts_stops_no_cut_over(reads: int, linger: int) -> None:
    clusters = Clusters(plan(settings=SETTINGS), stays=True, reads=reads, linger=linger)
    assert run(clusters).failed is None
    read_once(clusters)


@pytest.mark.parametrize(
    ("created", "words"),
    [
        ({"fresh": "1 partition id new"}, "fresh: was absent, is 1 partition id new"),
        ({"orders": "2 partitions id id"}, "orders: was 1 partition id id, is 2 partitions id id"),
        ({"orders": "1 partition id other"}, "orders: was 1 partition id id, is 1 partition id other"),
    ],
)
@pytest.mark.parametrize("after", ["fence", "pause", "commit"])
def test_topics_that_change_at_any_time_before_the_switch_stop_it(
    created: dict[str, str], words: str, after: str
) -> None:
    clusters = Clusters(plan())
    act = getattr(clusters, after)

    def changes(*some: object) -> object:
        done = act(*some)
        clusters.created |= created
        return done

    setattr(clusters, after, changes)
    report = run(clusters)
    assert report.failed is not None
    assert words in report.failed.text
    assert not clusters.switched
    assert take_back(clusters).failed is None
    assert not clusters.paused


def test_a_topic_created_after_the_switch_is_reported() -> None:
    clusters = Clusters(plan())
    act = clusters.hook

    def changes(name: str) -> object:
        done = act(name)
        clusters.created = {"fresh": "1 partition id new"} if name == "switch" else clusters.created
        return done

    clusters.hook = changes  # type: ignore[method-assign, assignment]
    report = run(clusters)
    assert report.failed is None
    (finding,) = report.findings
    assert "made on east since the fence was verified, and not copied: fresh" in finding


@pytest.mark.parametrize("leaves_at", [0, 2, 10**6])
def test_a_rollback_waits_for_members_that_came_too_early_then_names_their_group(leaves_at: int) -> None:
    """Set under a member, a position would be lost; left as it is in silence, the group would read records again."""
    clusters = Clusters(plan(settings=SETTINGS), hooks=[Hook.FAILS])
    run(clusters)
    looks: list[int] = []

    def groups_back() -> tuple[GroupMove, ...]:
        early = len(looks) < leaves_at
        looks.append(0)
        here = GroupState("classic", "Stable" if early else "Empty", int(early))
        offset = GroupOffset(COPY, ORDERS, 9, "", TranslatedPartition(9, True), 4)
        return (written(GroupMove("billing", GroupState("classic", "Empty", 0), here, (offset,)), {}),)

    clusters.groups_back = groups_back  # type: ignore[method-assign]
    report = take_back(clusters)
    assert report.failed is None
    (group,) = report.groups
    if leaves_at > 10:
        assert group.note == "it has members there"
        assert exit_code(report) is ExitCode.PARTIAL
        assert clusters.clock >= 3.0
    else:
        assert (group.note, exit_code(report)) == ("", ExitCode.DONE)
