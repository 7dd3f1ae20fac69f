"""Files of a run that another hand edited, cut, replaced or made unreadable: one sentence, at once, and nothing
that was not reviewed runs."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reconciler_mirror.cluster_mode.follow import Folder
from reconciler_mirror.jobs.mirror_job import FolderRun

from reconciler.backends.mirror_jobs.runner.run_folder import RunFolder
from reconciler.backends.mirror_jobs.runner.spark_submit import SparkRunner
from reconciler.backends.mirror_jobs.runner.supervisor import Supervisor
from reconciler.backends.state.audit import illegible, read_lines
from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Mirror
from reconciler.operations.clusters.verify_audit import verify_audit
from reconciler.replication.handover import HandoverError
from reconciler.replication.kept_files import read_json, read_kept
from reconciler.replication.runs.run_folders import (
    GOAL,
    HANDOVER,
    PLACE,
    SECOND,
    RunPlace,
    current,
    is_as_written,
    place_of,
    settle,
)

AT_ONCE_S = 2.0
FILES = (
    HANDOVER,
    GOAL,
    "place.json",
    "command.json",
    "supervisor.json",
    "driver.json",
    "asked.json",
    "job.log",
    "current",
)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


def _text(content: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(content)

    return make


OTHERS: dict[str, Callable[[Path], None]] = {
    "a pipe": _fifo,
    "a folder": Path.mkdir,
    "a device": _link("/dev/zero"),
    "a link to nothing": _link("/nowhere/at/all"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "nothing in it": _text(b""),
    "half of it": _text(b'{"home": "/x", "need'),
    "deep": _text(b'{"a": ' * 100_000),
    "no number": _text(b'{"home": NaN, "pid": 1e999}'),
    "a name twice": _text(b'{"home": "/a", "home": "/b", "fingerprint": "a", "fingerprint": "b"}'),
    "not UTF-8": _text(b'{"home": "\xff"}'),
    "a list": _text(b"[1, 2]"),
    "other kinds": _text(b'{"home": 1, "needs": 2, "pid": "x", "flows": {"a": []}, "at_ms": true, "written": []}'),
    "a number of no process": _text(b'{"pid": 99999999999999999999}'),
    "digits": _text(b'{"pid": ' + b"9" * 5_000 + b"}"),
}
"""What is in the place of a file."""


def started(home: Path) -> None:
    """All that a job reads there before it copies anything."""
    run = FolderRun(home / HANDOVER, home)
    run.place()
    run.handover()
    run.goal()


def put(path: Path, what: str) -> None:
    path.unlink(missing_ok=True)
    OTHERS[what](path)


def run_folder(home: Path) -> Path:
    """As ``launch`` leaves it."""
    home.mkdir(mode=0o700)
    (home / HANDOVER).write_text('{"fingerprint": "f"}')
    (home / GOAL).write_text('{"flows": [], "calm_s": 0}')
    (home / "command.json").write_text('["true"]')
    settle(home, home, ("a",))
    return home


@pytest.mark.parametrize("what", [*OTHERS][:5])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, what: str) -> None:
    put(tmp_path / "x", what)
    began = time.monotonic()
    with pytest.raises(OSError, match=r"."):
        read_kept(tmp_path / "x")
    assert time.monotonic() - began < AT_ONCE_S


def test_what_is_larger_than_any_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("12345")
    assert read_kept(tmp_path / "x", 5) == "12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_kept(tmp_path / "x", 4)


@given(
    st.binary(max_size=40)
    | st.recursive(st.none() | st.floats() | st.text(max_size=3), st.lists, max_leaves=5).map(
        lambda x: json.dumps(x).encode()
    )
)
@settings(suppress_health_check=list(HealthCheck))
def test_no_bytes_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "bytes"
    file.write_bytes(content)
    try:
        document = read_json(file)
    except (OSError, ValueError):
        return
    json.dumps(document, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("name", FILES)
def test_commands_look_at_a_changed_run_folder_at_once_and_end_in_words(tmp_path: Path, name: str, what: str) -> None:
    home = run_folder(tmp_path / "west")
    put(home / name, what)
    runner = SparkRunner(tmp_path, {"west": Mirror("west", ())}, lambda _: None)
    began = time.monotonic()
    live, folder = runner.observe("west"), RunFolder(home)
    assert live.name == "west"
    assert (folder.pids(), folder.a_flow(), folder.follows_elsewhere()) == ([], "FLOW", False)
    assert folder.asked_at_ms() is None
    assert current(home) in (home, home / SECOND)
    assert time.monotonic() - began < AT_ONCE_S


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("name", [HANDOVER, GOAL, "place.json"])
def test_a_job_starts_from_nothing_that_another_hand_changed(tmp_path: Path, name: str, what: str) -> None:
    home = run_folder(tmp_path / "west")
    put(home / name, what)
    began = time.monotonic()
    with pytest.raises(HandoverError) as caught:
        started(home)
    assert str(home / name) in str(caught.value)
    assert str(caught.value).endswith("Write it again with reconciler apply ENV.")
    with pytest.raises(HandoverError, match=re.escape(str(home / name))):
        Folder(place_of(home)).definition()
    assert time.monotonic() - began < AT_ONCE_S


@pytest.mark.parametrize("folder", [".", SECOND])
def test_a_job_whose_place_was_deleted_runs_nothing_that_another_hand_changed(tmp_path: Path, folder: str) -> None:
    """The digests are in it: without it nothing would say that the definition is not the one that was reviewed."""
    home = run_folder(tmp_path / "west")
    run = home / folder
    run.mkdir(exist_ok=True)
    for name in (HANDOVER, "command.json"):
        (run / name).write_text((home / name).read_text())
    settle(run, home, ())
    (run / PLACE).unlink()
    (run / HANDOVER).write_text('{"fingerprint": "f", "flows": []}')
    with pytest.raises(HandoverError, match=r"place\.json, which names the mirror's folders, cannot be read: No such"):
        FolderRun(run / HANDOVER, run).handover()
    assert not is_as_written(run)
    assert Supervisor(run).run() == 1


def test_a_supervisor_starts_no_job_again_whose_place_was_deleted(tmp_path: Path) -> None:
    home = run_folder(tmp_path / "west")
    (home / GOAL).unlink()
    settle(home, home, ())
    reached_spark = f"import os; os.chdir('{home}'); open('driver.json', 'w').close()"
    deleted = f"again = not os.path.exists('{PLACE}') or os.remove('{PLACE}') or os.remove('current')"
    code = f"{reached_spark}; {deleted}; raise SystemExit(0 if again else 1)"
    (home / "command.json").write_text(json.dumps([sys.executable, "-c", code]))
    assert Supervisor(home).run() == 1, "it crashed once"
    assert RunFolder(home).word("supervisor.json", "state") == "failed"


@pytest.mark.parametrize("what", OTHERS)
def test_a_predecessor_of_whose_process_nothing_is_known_has_left(tmp_path: Path, what: str) -> None:
    home = run_folder(tmp_path / "west")
    put(home / "driver.json", what)
    assert RunPlace(home / SECOND, home).predecessor_left()


def test_a_definition_that_is_valid_and_was_not_reviewed_is_reported_by_both_digests(tmp_path: Path) -> None:
    home = run_folder(tmp_path / "west")
    run = FolderRun(home / HANDOVER, home)
    assert run.handover() == '{"fingerprint": "f"}'
    (home / HANDOVER).write_text('{"fingerprint": "f", "flows": []}')
    words = r"its SHA-256 is [0-9a-f]{16}, and [0-9a-f]{16} was written\. What was reviewed is not what would run\. "
    with pytest.raises(HandoverError, match=words):
        run.handover()
    (home / GOAL).unlink()
    with pytest.raises(HandoverError, match=r"goal\.json cannot be read: No such file"):
        run.goal()


def test_a_goal_that_no_one_gave_is_refused_too(tmp_path: Path) -> None:
    home = run_folder(tmp_path / "west")
    (home / GOAL).unlink()
    settle(home, home, ())
    assert FolderRun(home / HANDOVER, home).goal() is None
    (home / GOAL).write_text('{"flows": [], "calm_s": 0}')
    with pytest.raises(HandoverError, match="and none was written"):
        FolderRun(home / HANDOVER, home).goal()


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("name", ["command.json", "place.json"])
def test_a_supervisor_says_in_the_jobs_log_why_it_starts_nothing(tmp_path: Path, name: str, what: str) -> None:
    home = run_folder(tmp_path / "west")
    put(home / name, what)
    assert Supervisor(home).run() == 1
    assert RunFolder(home).word("supervisor.json", "state") == "failed"
    (line,) = (home / "job.log").read_text().splitlines()
    assert line.startswith(f"The mirror job cannot run: {home / name}")
    assert "reconciler apply ENV" in line
    live = SparkRunner(tmp_path, {"west": Mirror("west", ())}, lambda _: None).observe("west")
    assert (live.state.value, live.detail) == ("failed", line)


@pytest.mark.parametrize("what", [*OTHERS][:5])
def test_an_audit_record_and_a_report_that_are_no_files_are_reported_at_once(tmp_path: Path, what: str) -> None:
    put(tmp_path / "audit.jsonl", what)
    put(tmp_path / "drill.json", what)
    began = time.monotonic()
    absent = what == "a link to nothing"  # as before the first command
    with nullcontext() if absent else pytest.raises(ReconcilerError, match=r"audit.jsonl cannot be read: (?!\[Errno)"):
        assert read_lines(tmp_path) == []
    assert illegible(tmp_path) == ""
    with pytest.raises(ReconcilerError, match=r"drill.json cannot be read as JSON: (?!\[Errno)"):
        verify_audit(tmp_path, None, tmp_path / "drill.json")
    assert time.monotonic() - began < AT_ONCE_S
