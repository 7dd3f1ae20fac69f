"""Files that another hand edited, cut, replaced or made unreadable: one sentence, at once."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.backends.state.audit import illegible, read_lines
from reconciler.errors import ReconcilerError
from reconciler.operations.clusters.verify_audit import verify_audit
from reconciler.replication.kept_files import read_json, read_kept

AT_ONCE_S = 2.0


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
    "digits": _text(b'{"pid": ' + b"9" * 5_000 + b"}"),
}
"""What is in the place of a file."""


def put(path: Path, what: str) -> None:
    path.unlink(missing_ok=True)
    OTHERS[what](path)


@pytest.mark.parametrize("what", OTHERS)
def test_what_no_program_of_ours_wrote_is_refused_at_once(tmp_path: Path, what: str) -> None:
    put(tmp_path / "x", what)
    began = time.monotonic()
    with pytest.raises((OSError, ValueError), match=r"."):
        read_json(tmp_path / "x")
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


@pytest.mark.parametrize("what", [*OTHERS][:5])
def test_an_audit_record_and_a_report_that_are_no_files_are_told_at_once(tmp_path: Path, what: str) -> None:
    put(tmp_path / "audit.jsonl", what)
    put(tmp_path / "drill.json", what)
    began = time.monotonic()
    assert (read_lines(tmp_path), illegible(tmp_path)) == ([], 0)
    with pytest.raises(ReconcilerError, match=r"drill.json cannot be read as JSON: (?!\[Errno)"):
        verify_audit(tmp_path, "", tmp_path / "drill.json")
    assert time.monotonic() - began < AT_ONCE_S
