"""Pauses: their records, what a wish means, what lifts what, and when a job counts as having done it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.state.audit import AuditFile, read_lines
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.live import JobState, LiveMirror
from reconciler.model.plan import Outcome, Result
from reconciler.operations.mirror.pause import audited
from reconciler.replication.records.pauses import Pause, Scope, dumps, loads, pause_key, scope_of
from reconciler.replication.status import FlowStatus, PauseCounts, ReportedPause
from reconciler.resources.mirrors.pause_and_seek import (
    PauseRequest,
    paused_notes,
    progress,
    require_exists,
    scopes,
    to_lift,
)
from tests.support.builders import flow, topology
from tests.support.documents.live_values import pause
from tests.support.fakes.cluster import FakeCluster

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
SCOPES = st.one_of(
    st.builds(Scope, NAMES), st.builds(Scope, NAMES, NAMES), st.builds(Scope, NAMES, NAMES, st.integers(0, 10**6))
)


@given(NAMES, SCOPES)
def test_a_key_says_its_scope_and_nothing_of_another_environment(environment: str, scope: Scope) -> None:
    key = pause_key(environment, scope)
    assert scope_of(environment, key) == scope
    assert scope_of(environment + "x", key) is None


@given(SCOPES, st.integers(0), st.text(), st.text())
def test_a_record_is_read_back(scope: Scope, since: int, by: str, reason: str) -> None:
    pause = Pause(scope, since, by, reason)
    assert loads(scope, dumps(pause)) == pause


@given(SCOPES, st.binary())
def test_whatever_is_written_under_the_key_of_a_pause_pauses(scope: Scope, value: bytes) -> None:
    assert loads(scope, value).scope == scope


def test_keys_of_status_records_are_no_pauses() -> None:
    assert scope_of("sandbox", "sandbox/west") is None
    assert scope_of("sandbox", "control/sandbox/f/t/p") is None
    assert scope_of("sandbox", f"control/sandbox/f/t/{'9' * 5000}") is None, "more digits than an int takes"


@given(SCOPES, SCOPES, NAMES, st.integers(0, 3))
def test_what_is_within_covers_no_more(one: Scope, other: Scope, topic: str, partition: int) -> None:
    other = replace(other, flow=one.flow)
    if one.within(other) and one.covers(topic, partition):
        assert other.covers(topic, partition)


F, T, P = Scope("f"), Scope("f", "orders"), Scope("f", "orders", 3)
PAUSES = {scope: Pause(scope, 1, "ann@host", "why") for scope in (F, T, P)}


def test_resuming_lifts_everything_within_and_refuses_a_part_of_a_wider_pause() -> None:
    assert to_lift(F, PAUSES.values()) == tuple(PAUSES.values())
    assert to_lift(T, [PAUSES[T], PAUSES[P]]) == (PAUSES[T], PAUSES[P])
    assert to_lift(P, []) == ()
    with pytest.raises(ReconcilerError, match=r"flow f is paused as a whole .* by ann@host: why"):
        to_lift(P, [PAUSES[F]])
    with pytest.raises(ReconcilerError, match="topic orders of flow f is paused as a whole"):
        to_lift(P, [PAUSES[T], PAUSES[P]])


TOPOLOGY = topology(flow("east", "west", "orders", name="orders-flow"), flow("east", "west", "logs", name="logs-flow"))


def test_a_wish_without_a_flow_means_all_and_a_wrong_one_is_reported_with_the_nearest() -> None:
    assert scopes(TOPOLOGY, PauseRequest()) == (Scope("logs-flow"), Scope("orders-flow"))
    with pytest.raises(ReconcilerError, match="Perhaps you mean orders-flow"):
        scopes(TOPOLOGY, PauseRequest("order-flow"))
    with pytest.raises(ReconcilerError, match="without --topic"):
        scopes(TOPOLOGY, PauseRequest("orders-flow", "", 1))
    with pytest.raises(ReconcilerError, match="without a flow"):
        scopes(TOPOLOGY, PauseRequest("", "orders"))


def test_a_topic_that_is_missing_is_reported_with_the_nearest() -> None:
    east = FakeCluster("east")
    east.put("orders", 6)
    one = TOPOLOGY.flows["orders-flow"]
    seen = east.read()
    assert require_exists(one, Scope(one.name, "orders", 5), seen) == ""
    with pytest.raises(ReconcilerError, match="Perhaps you mean orders"):
        require_exists(one, Scope(one.name, "order"), seen)
    with pytest.raises(ReconcilerError, match="0 to 5"):
        require_exists(one, Scope(one.name, "orders", 6), seen)
    east.deny("orders")
    assert require_exists(one, Scope(one.name, "orders"), east.read(["orders"])).startswith("hidden"), "nobody can tell"
    assert "did not answer" in require_exists(one, Scope(one.name, "orders"), Unknown("cluster east", "down"))


def told(*pauses: ReportedPause, resuming: int = 0, state: JobState = JobState.RUNNING, at: int = 200) -> LiveMirror:
    status = FlowStatus("f", "x", pauses=pauses, resuming_partitions=resuming)
    return LiveMirror("west", state, updated_at_ms=at, flows=MappingProxyType({"f": status}))


def entry(paused: int, **place: Any) -> ReportedPause:
    return pause(4, paused, **place)


@pytest.mark.parametrize(
    ("mirror", "done"),
    [
        (told(entry(4)), True),
        (told(entry(3)), False),
        (told(entry(4, topic="orders")), False),
        (told(), False),
        (told(entry(4), at=100), False),
        (told(entry(4), state=JobState.STALE), False),
        (Unknown("mirror west", "no answer"), False),
    ],
)
def test_a_pause_is_confirmed_when_every_partition_is_by_a_later_word_of_the_job(mirror: Any, done: bool) -> None:
    found = progress(mirror, [F], paused=True, asked_ms=100)
    assert (found.done, found.runs) == (done, True)


@pytest.mark.parametrize(
    ("mirror", "done"),
    [
        (told(), True),
        (told(resuming=1), False),
        (told(entry(4)), False),
        (told(entry(4, topic="orders", partition=3)), False),
        (told(at=100), False),
    ],
)
def test_a_resume_is_confirmed_when_nothing_within_is_paused_or_waits(mirror: Any, done: bool) -> None:
    assert progress(mirror, [F], paused=False, asked_ms=100).done is done


def test_without_a_job_no_one_confirms() -> None:
    assert not progress(None, [F], paused=True, asked_ms=0).runs
    assert not progress(told(state=JobState.STOPPED), [F], paused=True, asked_ms=0).runs


def test_where_not_all_pauses_are_reported_a_resume_is_not_taken_for_confirmed() -> None:
    """The pause may be among those that the record does not name."""
    mirror = told(entry(1, topic="other"))
    [name] = mirror.flows
    counts = PauseCounts(900, 900, 900)
    capped = replace(mirror, flows={name: replace(mirror.flows[name], pause_counts=counts)})
    one = Scope(name, "t")
    assert progress(mirror, [one], paused=False, asked_ms=100).done
    unknown = progress(capped, [one], paused=False, asked_ms=100)
    assert (unknown.runs, unknown.done) == (True, False)
    assert "too many pauses to report each" in unknown.words
    assert paused_notes(capped)[-1] == f"flow {name} has 899 pauses more; see reconciler status ENV"


def test_a_plan_says_what_is_paused_by_whom_and_why() -> None:
    [note] = paused_notes(told(entry(4, topic="orders")))
    assert note.startswith("topic orders of flow f is paused since 1970-01-01 00:00:00 UTC by ann@host: why")


def test_a_lever_that_failed_halfway_says_so_in_the_audit_record(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(folder=tmp_path, state=tmp_path / "state", topology=topology(flow("east", "west")))

    def levers(error: BaseException) -> None:
        with audited(session, "mirror pause", ["pause:a", "pause:b"]) as outcomes:
            outcomes.append(Outcome("pause:a", Result.DONE))
            raise error

    for error in (ReconcilerError("west does not answer", "it is down"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            levers(error)
    lines = read_lines(session.state)
    assert [line["kind"] for line in lines] == ["begin", "change", "change", "end"] * 2
    assert [(line["id"], line["result"], line["error"]) for line in lines if line["kind"] == "change"] == [
        ("pause:a", "done", ""),
        ("pause:b", "failed", "west does not answer\nit is down"),
        ("pause:a", "done", ""),
        ("pause:b", "failed", "interrupted"),
    ]


def test_a_lever_whose_record_cannot_be_ended_says_that_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk took the beginning and is full now: to say that nothing was begun would be wrong."""
    session: Any = SimpleNamespace(folder=tmp_path, state=tmp_path / "state", topology=topology(flow("east", "west")))
    full = ReconcilerError("audit.jsonl cannot be written", "What leaves no record is not begun.", "Look.")

    def lever() -> None:
        with audited(session, "mirror pause", ["pause:a", "pause:b"]) as outcomes:
            outcomes.append(Outcome("pause:a", Result.DONE))
            monkeypatch.setattr(AuditFile, "write", Mock(side_effect=full))
            raise ReconcilerError("west does not answer")

    with pytest.raises(ReconcilerError) as raised:
        lever()
    assert raised.value.what == (
        "pause:a is done; pause:b is failed (west does not answer). "
        "The audit record does not say so: audit.jsonl cannot be written"
    )
    assert "not begun" not in str(raised.value)
