"""A job that runs and whose status topic was deleted is no job that starts: the topic is named, and what makes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reconciler.backends.clusters.groups import Side
from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.mirror_jobs.status.records import StatusRecords
from reconciler.engine.observe.read_all import observe
from reconciler.errors import ClusterError, Unknown
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.state.last_apply import Applied
from reconciler.operations.session import mirror_runners
from reconciler.operations.session.session import ReadApply, Session
from reconciler.render.reports.status import status_text
from reconciler.replication.offsets.position_metadata import PositionMark
from tests.support.builders import cluster, flow, topology


@pytest.mark.parametrize("missing", [True, False])
def test_a_status_topic_that_is_gone_is_named(missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunFolder, "supervisor_pid", lambda _: 4711)
    monkeypatch.setattr(StatusRecords, "read", lambda *_: None)
    declared = topology(flow("east", "west", "orders"))
    session = Session(tmp_path, declared, Principal.PLAN)
    session.records["west"].topic_missing = missing
    mirrors = observe({}, session.runner, declared.mirrors).mirrors
    mirror = mirrors["west"]
    assert isinstance(mirror, LiveMirror)
    assert mirror.state is JobState.STARTING, "so a plan leaves it alone, and creates the topic"
    text = status_text(declared, LiveState({}, mirrors), 0)
    if missing:
        assert text.startswith(
            "UNKNOWN: mirror west is unknown; 0 of 1 mirror known to run; lag unknown; 0 conditions known; 1 unknown\n"
        )
        assert (
            "mirror west: unknown: its process runs, but its status topic __mirror_status does not exist at west, so "
            "what the job does cannot be seen. Run reconciler apply ENV, which creates the topic."
        ) in text
    else:
        assert "mirror west: starting" in text
    session.close()


def elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch, positions: object, *, missing: bool) -> Session:
    """Nothing runs here, and no record tells of the mirror. ``positions``: what the target answers, or raises."""

    def answer(*_: object) -> object:
        if isinstance(positions, Exception):
            raise positions
        return positions

    monkeypatch.setattr(Side, "marks", answer)
    monkeypatch.setattr(mirror_runners, "LISTEN_SECONDS", 0.0)
    monkeypatch.setattr(StatusRecords, "read", lambda *_: None)
    declared = topology(flow("east", "west", "orders"))
    mirrors = {name: replace(mirror, status_interval_ms=100) for name, mirror in declared.mirrors.items()}
    session = Session(folder, replace(declared, mirrors=mirrors), Principal.PLAN)
    session.records["west"].topic_missing = missing
    return session


@pytest.mark.parametrize("missing", [True, False])
@pytest.mark.parametrize(
    "positions",
    [
        {},
        {("east.orders", 0): PositionMark(foreign=True)},
        {("east.orders", 0): PositionMark()},
        {("__mirror_offsets", 0): PositionMark()},
    ],
)
def test_a_mirror_that_was_started_before_and_cannot_report_is_not_absent(
    positions: dict[tuple[str, int], PositionMark], missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = elsewhere(tmp_path, monkeypatch, positions, missing=missing)
    mirror = observe({}, session.runner, session.topology.mirrors).mirrors["west"]
    if any(not at.foreign for at in positions.values()) and missing:
        assert isinstance(mirror, Unknown)
        assert "its status topic __mirror_status does not exist at west, and group mirror." in mirror.error
        assert "holds its positions" in mirror.error
        assert "may run on another machine" in mirror.error
        assert "apply ENV --partial" in mirror.todo
    else:
        assert mirror == LiveMirror("west", JobState.ABSENT), "with its topic there it would have told of itself"
    session.close()


@pytest.mark.parametrize("applied", [True, False])
def test_where_positions_may_not_be_read_the_last_apply_decides(
    applied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ClusterError("west", "authorization", "group mirror.f may not be described")
    session = elsewhere(tmp_path, monkeypatch, refused, missing=True)
    flows = tuple(session.topology.flows) if applied else ()
    record = Applied(session.topology.environment, 1, "ann", "", {}, (), flows)
    monkeypatch.setattr(Session, "read_last_apply", lambda *_: ReadApply(record))
    mirror = observe({}, session.runner, session.topology.mirrors).mirrors["west"]
    assert isinstance(mirror, Unknown) is applied
    session.close()


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    ("place", "earlier", "wanted"),
    [
        (None, JobState.RUNNING, JobState.RUNNING),
        (JobState.STOPPED, JobState.RUNNING, JobState.RUNNING),
        (JobState.RUNNING, JobState.STOPPED, JobState.RUNNING),
        (JobState.RUNNING, JobState.RUNNING, JobState.RUNNING),
        (None, None, None),
    ],
)
def test_a_job_is_heard_where_an_edit_moved_its_status_away_from(
    place: JobState | None,
    earlier: JobState | None,
    wanted: JobState | None,
    here: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until its next start it reports to the former cluster; a plan said that it starts, and apply stopped it first.
    Where an earlier move has left a record of an ended application, the newer one counts. A machine without the job
    (not ``here``) finds it by its records."""
    said = {"west": (place, 1), "south": (earlier, 2)}

    def read(records: StatusRecords, mirror: str, *_: object) -> LiveMirror | None:
        state, at = said.get(records.cluster.name, (None, 0))
        return None if state is None else LiveMirror(mirror, state, updated_at_ms=at)

    monkeypatch.setattr(StatusRecords, "read", read)
    monkeypatch.setattr(StatusRecords, "read_all", lambda records, _: {"west": read(records, "west")})
    handover = {"status": {"cluster": {"name": "south"}}} if here else None
    monkeypatch.setattr(RunFolder, "read", lambda *_: handover)
    declared = topology(flow("east", "west", "orders"), cluster("south"))
    session = Session(tmp_path, declared, Principal.PLAN)
    session.find_strays({"gone"})
    found = session.status("west")
    assert (found and found.state) == wanted
    assert not (place is earlier is JobState.RUNNING) or (found and found.updated_at_ms == 2)
    session.close()


@pytest.mark.parametrize("keeps", ["east", "west"])
def test_a_driver_elsewhere_is_stopped_while_another_cluster_is_silent(
    keeps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status of its mirror is on west; an outage of east must not keep the job running."""
    reported, ordered = LiveMirror("m", JobState.RUNNING, run="r1"), list[tuple[str, str]]()
    declared = topology(flow("east", "west", "orders")).clusters
    records = {name: StatusRecords(declared[name], "test", Principal.APPLY) for name in ("east", "west")}

    def read_all(asked: StatusRecords, _: int) -> dict[str, LiveMirror]:
        if asked.cluster.name == "east":
            raise ClusterError("east", "unreachable", "east does not answer")
        return {"m": reported} if keeps == "west" else {}

    def write(kept: Cluster, _: Principal, values: dict[str, bytes]) -> None:
        ordered.extend((kept.name, key) for key in values)

    monkeypatch.setattr(StatusRecords, "read_all", read_all)
    monkeypatch.setattr(mirror_runners, "write_records", write)
    if keeps == "east":
        with pytest.raises(ClusterError, match="east does not answer"):
            mirror_runners.order_stop(records, Principal.APPLY, reported)
        assert ordered == []
        return
    mirror_runners.order_stop(records, Principal.APPLY, reported)
    assert [name for name, _ in ordered] == ["west"]
    assert "r1" in ordered[0][1]
