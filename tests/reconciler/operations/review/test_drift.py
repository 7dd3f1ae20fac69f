"""Causes of drift, where an audit record cannot be read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reconciler.operations.review.drift import past, past_lines
from tests.support.builders import flow, topology


def test_an_audit_record_that_cannot_be_read_is_not_taken_for_one_without_causes(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(state=tmp_path, topology=topology(flow("east", "west", "orders")))
    said: list[str] = []
    assert (past_lines(session, said.append), said) == ([], []), "no command has run here yet"
    (tmp_path / "audit.jsonl").mkdir()
    past(session, said.append)
    assert said == [
        f"causes come without this machine's audit record: the audit record {tmp_path / 'audit.jsonl'} cannot be read: "
        "Is a directory. Check the file's permissions."
    ]
