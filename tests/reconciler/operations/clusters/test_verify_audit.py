"""What stands in the place of the audit record, and is none, proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.errors import ExitCode
from tests.support.jobs.verify_runs import Ended


@pytest.mark.parametrize(
    "text", [b"null\n", b"[1]\n", b"[" * 100_000, b"\xff\xfe\0\n", b'{"at": NaN}\n', b'{"at": ' + b"9" * 6_000 + b"}\n"]
)
def test_a_record_that_was_written_over_is_not_proved(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Callable[..., Ended]
) -> None:
    environment, state = tmp_path / "prod", tmp_path / "state" / "prod"
    environment.mkdir()
    state.mkdir(parents=True)
    (environment / "e.yaml").write_text("clusters: {east: {bootstrap_servers: ['127.0.0.1:1']}}\n")
    (state / "audit.jsonl").write_bytes(text)
    monkeypatch.setenv("RECONCILER_STATE", str(tmp_path / "state"))
    ended = cli("audit", "verify", environment)
    assert ended.code == ExitCode.CHANGES
    assert "1 line in it, and none is a record: it was written over" in ended.out


@pytest.mark.parametrize("head", ["", "sha256:0b1f", "head.txt"])
def test_a_head_that_is_none_is_refused(head: str, tmp_path: Path, cli: Callable[..., Ended]) -> None:
    """An empty variable must not turn the check off, nor a slip look like a broken record."""
    ended = cli("audit", "verify", tmp_path / "prod", "--head", head)
    assert ended.code == ExitCode.ERROR
    assert f"--head is {head or 'empty'}" in ended.err
