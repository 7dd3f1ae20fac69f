"""A file in the place of the audit record that is none proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import ExitCode
from tests.support.jobs.verify_runs import Ended


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The audit record of the environment ``prod``, to be written."""
    environment, state = tmp_path / "prod", tmp_path / "state" / "prod"
    environment.mkdir()
    state.mkdir(parents=True)
    (environment / "e.yaml").write_text("clusters: {east: {bootstrap_servers: ['127.0.0.1:1']}}\n")
    monkeypatch.setenv("RECONCILER_STATE", str(tmp_path / "state"))
    return state / "audit.jsonl"


@pytest.mark.parametrize(
    "text", [b"null\n", b"[1]\n", b"[" * 100_000, b"\xff\xfe\0\n", b'{"at": NaN}\n', b'{"at": ' + b"9" * 6_000 + b"}\n"]
)
def test_a_record_that_was_written_over_is_not_proved(
    text: bytes, record: Path, tmp_path: Path, cli: Callable[..., Ended]
) -> None:
    record.write_bytes(text)
    ended = cli("audit", "verify", tmp_path / "prod")
    assert ended.code == ExitCode.CHANGES
    assert "1 line in it, and none is a record: it was written over" in ended.out


WRITTEN = b'{"at": "2026-11-29", "run": "a", "kind": "begin", "previous": null}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(WRITTEN, "", id="as it was written"),
        pytest.param(b'{"at": "2026\n' + WRITTEN, "", id="a killed writer's beginning"),
        pytest.param(WRITTEN + b"\0" * 4096, "", id="a power loss"),
        pytest.param(WRITTEN + b'{"at": "2026', "its last line is cut off", id="cut off"),
        pytest.param(b"[]\n" + WRITTEN, "1 line in it that no command writes: it was edited", id="another value"),
        pytest.param(WRITTEN + b"# ok\n", "1 line in it that no command writes: it was edited", id="a comment"),
    ],
)
def test_lines_that_are_no_records_are_no_part_of_a_whole_chain(
    text: bytes, said: str, record: Path, tmp_path: Path, cli: Callable[..., Ended]
) -> None:
    record.write_bytes(text)
    ended = cli("audit", "verify", tmp_path / "prod")
    assert ended.code == (ExitCode.CHANGES if said else 0)
    assert (said or "whole since") in ended.out


@pytest.mark.parametrize("head", ["", "sha256:0b1f", "head.txt"])
def test_a_head_that_is_none_is_refused(head: str, tmp_path: Path, cli: Callable[..., Ended]) -> None:
    """An empty variable must not turn the check off, nor a slip look like a broken record."""
    ended = cli("audit", "verify", tmp_path / "prod", "--head", head)
    assert ended.code == ExitCode.ERROR
    assert f"--head is {head or 'empty'}" in ended.err
