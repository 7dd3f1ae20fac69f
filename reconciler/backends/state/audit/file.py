"""Appends the lines of the audit log to ``audit.jsonl`` in the run folder, each synced to disk."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.backends.files import make_private
from reconciler.errors import ReconcilerError
from reconciler.model.state.audit_chain import PREVIOUS, digest
from reconciler.replication.json_codec import parsed

NAME = "audit.jsonl"
LAST_BYTES = 1 << 20


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class AuditFile:
    """Raises ReconcilerError when it cannot be opened or written: what leaves no record is not begun."""

    def __init__(self, state: Path) -> None:
        self.path = state / NAME
        try:
            make_private(state)
            self._handle = open(self.path, "a+b", buffering=0, opener=_private)  # noqa: SIM115 - to the end
            self._end_cut_line()
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, line: Mapping[str, Any]) -> None:
        """All of the line or nothing of it, also when this is interrupted, with the digest of the line before it."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX)  # a pause writes beside an apply
            self._append(json.dumps({**line, PREVIOUS: self.head() or None}, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def head(self) -> str:
        """Digest of the newest record, or empty. A line that was cut off is passed over."""
        size, end = LAST_BYTES >> 4, self._handle.seek(0, os.SEEK_END)
        while end:
            self._handle.seek(max(0, end - size))
            lines = self._handle.read(size).splitlines()
            for text in reversed(lines if size >= end else lines[1:]):
                with contextlib.suppress(ValueError):
                    line = parsed(text)
                    if isinstance(line, dict):
                        return digest(line)
            if size >= end:
                break
            size *= 16
        return ""

    def _append(self, whole: bytes) -> None:
        before, data = self._handle.seek(0, os.SEEK_END), whole
        try:
            while data:  # a disk that is nearly full takes a part, and refuses the rest
                data = data[self._handle.write(data) :]
            os.fsync(self._handle.fileno())
        except BaseException as error:
            with contextlib.suppress(OSError):
                if isinstance(error, OSError) or self._handle.seek(0, os.SEEK_END) != before + len(whole):
                    self._handle.truncate(before)
            raise

    def holds(self, run: str) -> bool:
        """Whether the last lines have one of this run."""
        with contextlib.suppress(OSError):
            self._handle.seek(max(0, self._handle.seek(0, os.SEEK_END) - LAST_BYTES))
            return run.encode() in self._handle.read()
        return False

    def _end_cut_line(self) -> None:
        """What a killed writer left of its last line must not swallow the next one."""
        if self._handle.seek(0, os.SEEK_END):
            self._handle.seek(-1, os.SEEK_END)
            if self._handle.read(1) != b"\n":
                self._handle.write(b"\n")

    def close(self) -> None:
        self._handle.close()

    def __enter__(self) -> AuditFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _unwritable(self, error: OSError) -> ReconcilerError:
        return ReconcilerError(
            f"the audit record {self.path} cannot be written: {error.strerror or error}",
            "Nothing is changed without a record of who did it.",
            "Check the folder's permissions and the space left.",
        )


def read_lines(state: Path) -> list[Mapping[str, Any]]:
    """The record so far, oldest first; empty where there is none. A line that was cut off is passed over."""
    with contextlib.suppress(ReconcilerError):
        return recorded(state)
    return []


def recorded(state: Path) -> list[Mapping[str, Any]]:
    """As ``read_lines``. Raises ReconcilerError when the record is there and cannot be read."""
    try:
        text = (state / NAME).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        problem = f"the audit record {state / NAME} cannot be read: {error.strerror or error}"
        raise ReconcilerError(problem, "Whether it is whole is not known.", "Check the file's permissions.") from None
    lines: list[Mapping[str, Any]] = []
    for part in text.split("\n"):
        with contextlib.suppress(ValueError):
            line = parsed(part)
            if isinstance(line, dict):
                lines.append(line)
    return lines
