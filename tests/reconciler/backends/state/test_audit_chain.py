"""Writers of the audit record: each record follows the newest one of its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from reconciler.backends.state import audit
from reconciler.backends.state.audit import NAME, AuditFile, AuditTopicLog, read_lines
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.state.audit_chain import PREVIOUS, check, digest
from tests.support.builders import cluster

LINE = {"kind": "change", "run": "r", "at": "2026-11-23T00:00:00.000Z"}


def test_writers_of_one_file_follow_each_other(tmp_path: Path) -> None:
    with AuditFile(tmp_path) as apply, AuditFile(tmp_path) as pause:
        for number in range(6):
            (pause if number % 3 else apply).write({**LINE, "id": "x" * 70_000 * (number % 2), "number": number})
        assert apply.head() == pause.head()
        report = check(read_lines(tmp_path))
    assert (report.whole, report.records, len(report.heads)) == (True, 6, 1)


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    with AuditFile(tmp_path) as audit:
        audit.write(LINE)
    with (tmp_path / NAME).open("a", encoding="utf-8") as half:
        half.write('{"kind": "cha')
    with AuditFile(tmp_path) as audit:
        audit.write({**LINE, "run": "s"})
    assert check(read_lines(tmp_path)).whole
    assert check(read_lines(tmp_path)).records == 2


def test_a_record_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(ReconcilerError, match="cannot be read"):
        read_lines(tmp_path)


class Topic(AuditTopicLog):
    """Keeps what it appends, as a topic of one partition would."""

    def __init__(self) -> None:
        super().__init__(cluster("east"), "audit", "test")
        self.sent: list[dict[str, Any]] = []
        self._records = cast(Any, self)

    def ask(self, *_: object) -> bool:
        return True

    def append(self, lines: list[tuple[str, bytes]]) -> None:
        self.sent += [json.loads(line) for _, line in lines]

    def close(self) -> None:
        pass


def test_a_run_continues_from_what_another_machine_wrote(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [{**LINE, PREVIOUS: None}]
    monkeypatch.setattr(audit, "read_copy", lambda *_: there)
    log = Topic()
    for number in range(3):
        log.write({"kind": "end", "run": "s", "number": number})
    report = check([*there, *log.sent])
    assert (report.whole, report.records) == (True, 4)
    assert report.heads == (log.head,) == (digest(log.sent[-1]),)
    assert log.left() == ""


def test_a_topic_that_may_not_be_read_is_written_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise ClusterError("east", "denied", "topic audit may not be read")

    monkeypatch.setattr(audit, "read_copy", denied)
    log = Topic()
    log.write({"kind": "end"})
    assert log.sent[0][PREVIOUS] is None
    assert "starts again with this run: topic audit may not be read" in log.left()
