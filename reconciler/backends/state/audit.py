"""The audit log: a complete record of one machine's runs in ``audit.jsonl``, and a copy in a Kafka topic.

The topic's key is the environment; it also has the runs of other machines.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import TopicRecords
from reconciler.backends.files import make_private
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.audit_chain import PREVIOUS, digest
from reconciler.replication.json_codec import parsed
from reconciler.replication.kept_files import read_kept
from reconciler.replication.records.compacted_topic import CompactedTopic, Newest
from reconciler.text import counted

NAME = "audit.jsonl"
LAST_BYTES = 1 << 20
Line = Mapping[str, Any]
SECONDS = 10.0
PAUSE_SECONDS = 1.0
"""Seconds for which lines of changes are collected; lines that begin or end a run are written at once."""
TROUBLE_SECONDS = 60.0
"""Seconds without further attempts after a failed write: each attempt may delay the run by ``SECONDS`` while it holds
the lock."""
TAIL_RECORDS = 20_000
"""Records read at the topic's end, of all environments in it; older lines explain no present difference."""


class AuditFile:
    """The local file. Raises ReconcilerError if it cannot be opened or written: no run may begin without a record."""

    def __init__(self, state: Path) -> None:
        self.path = state / NAME
        try:
            make_private(state)
            opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._handle = open(opened, "a+b", buffering=0)  # noqa: SIM115, PTH123 - a descriptor, to the end
            # A killed writer may have left half a line, which must not swallow the next one.
            if self._handle.seek(0, os.SEEK_END):
                self._handle.seek(-1, os.SEEK_END)
                if self._handle.read(1) != b"\n":
                    self._handle.write(b"\n")
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, line: Mapping[str, Any]) -> None:
        """Writes the whole line or none of it, also when interrupted, with the digest of the previous line."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX)  # mirror pause writes without the lock, beside an apply
            data = json.dumps({**line, PREVIOUS: self.head() or None}, ensure_ascii=False).encode() + b"\n"
            before = self._handle.seek(0, os.SEEK_END)
            after = before + len(data)
            try:
                while data:  # a nearly full disk accepts a part of the line
                    data = data[self._handle.write(data) :]
                os.fsync(self._handle.fileno())
            except BaseException as error:
                with contextlib.suppress(OSError):
                    if isinstance(error, OSError) or self._handle.seek(0, os.SEEK_END) != after:
                        self._handle.truncate(before)
                raise
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def head(self) -> str:
        """Digest of the newest record, or empty. Skips a truncated line."""
        size, end = LAST_BYTES >> 4, self._handle.seek(0, os.SEEK_END)
        while end:
            self._handle.seek(max(0, end - size))
            lines = self._handle.read(size).splitlines()
            for text in reversed(lines if size >= end else lines[1:]):
                if (line := _record(text)) is not None:
                    return digest(line)
            if size >= end:
                break
            size *= 16
        return ""

    def holds(self, run: str) -> bool:
        """Whether one of the last lines belongs to this run."""
        with contextlib.suppress(OSError):
            self._handle.seek(max(0, self._handle.seek(0, os.SEEK_END) - LAST_BYTES))
            return run.encode() in self._handle.read()
        return False

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
    """The record, oldest line first; empty without a file. Skips truncated lines. Raises ReconcilerError for an
    unreadable file."""
    try:
        text = read_kept(state / NAME, None, "replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        problem = f"the audit record {state / NAME} cannot be read: {error.strerror or error}"
        raise ReconcilerError(problem, "Whether it is whole is not known.", "Check the file's permissions.") from None
    return [line for part in text.split("\n") if (line := _record(part)) is not None]


def _record(text: str | bytes) -> Mapping[str, Any] | None:
    with contextlib.suppress(ValueError):
        line = parsed(text)
        return line if isinstance(line, dict) else None
    return None


def illegible(state: Path) -> str:
    """What lines that are no records say against the file, or empty. A killed writer leaves the beginning of a record,
    behind which the next one begins a line."""
    try:
        parts = read_kept(state / NAME, None, "replace").split("\n")
    except OSError:
        return ""
    lines = [part for part in parts if part.strip("\0 \t\r") and _record(part) is None]
    foreign = [part for part in lines if not part.lstrip("\0").startswith("{")]
    if lines and not any(map(_record, parts)):
        return f"{counted(len(lines), 'line')} in it, and none is a record: it was written over"
    if foreign:
        return f"{counted(len(foreign), 'line')} in it that no command writes: it was edited"
    return "its last line is cut off: a killed command left it so, or it was edited" if parts[-1] in lines else ""


class AuditTopicLog:
    """Appends lines in order; buffers them until the plan has created the topic. For one thread at a time."""

    def __init__(self, cluster: Cluster, topic: str, environment: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.key = environment
        self.waiting: list[Line] = []
        self.trouble = ""
        self.head: str | None = None
        """Digest of the environment's newest record, empty if there is none; None before it was read."""
        self.broken_off = ""
        """Why the chain of digests restarts with this run, or empty."""
        self._encoded: list[bytes] = []
        """Encoded buffered lines: a line that may have been written is sent again byte for byte, so readers recognise
        it as a duplicate."""
        self._not_before = 0.0
        self._records = TopicRecords(cluster, Principal.APPLY, topic, patience=SECONDS)

    def begin(self, line: Line) -> None:
        """Writes the first line of a run. Raises ReconcilerError if it cannot be written: the run must not begin
        then."""
        self.write(line)
        if self.waiting and self.trouble:
            raise ReconcilerError(
                f"the audit topic {self.cluster.name}/{self.topic} cannot be written: {self.trouble}",
                "Nothing is changed without a record of who did what.",
                f"Let the apply principal write to it, or leave audit out of the topology: {self.cluster.name} answers"
                f" at {', '.join(self.cluster.bootstrap_servers)}.",
            )

    def write(self, line: Line) -> None:
        """Writes or buffers a line. Never raises: a missing copy must not end a run halfway. ``left`` reports it."""
        self.waiting.append(line)
        if line["kind"] == "change" and time.monotonic() < self._not_before:
            return
        self._not_before = 0.0
        try:
            self._flush()
        except ClusterError as error:
            self.trouble = error.what
        pause = TROUBLE_SECONDS if self.trouble else PAUSE_SECONDS
        self._not_before = time.monotonic() + pause

    def left(self) -> str:
        """A sentence about lines that did not reach the topic, or empty. Closes the connection."""
        self._records.close()
        if not self.waiting and self.broken_off:
            return f"the chain of {self.cluster.name}/{self.topic} starts again with this run: {self.broken_off}"
        if not self.waiting:
            return ""
        why = self.trouble or "the topic does not exist"
        return f"{len(self.waiting)} audit lines are in the file alone, not in {self.cluster.name}/{self.topic}: {why}"

    def _flush(self) -> None:
        """Appends waiting lines, each with the digest of the one before. After a failure the encoded lines are sent
        again as they were."""
        if not self._records.ask(errors.write_topic(self.topic), CompactedTopic.exists):
            return
        # Each line has the digest of the previous one, which may be from another machine.
        if self.head is None:
            try:
                lines = read_copy(self.cluster, Principal.APPLY, self.topic, self.key)
                self.head = digest(lines[-1]) if lines else ""
            except ClusterError as error:
                self.head, self.broken_off = "", f"{error.what}. Let the apply principal read the topic."
        for line in self.waiting[len(self._encoded) :]:
            chained = {**line, PREVIOUS: self.head or None}
            self.head = digest(chained)
            self._encoded.append(json.dumps(chained, ensure_ascii=False).encode())
        self._records.append([(self.key, line) for line in self._encoded])
        self.waiting.clear()
        self._encoded.clear()
        self.trouble = ""


class _Lines(CompactedTopic):
    """Keeps every record, not only the newest of each key: ``lines`` by key, in log order."""

    def __init__(self, cluster: ClusterClient, topic: str, **how: Any) -> None:
        super().__init__(cluster, topic, **how)
        self.lines: dict[str, list[Line]] = {}

    def take(self, key: str, newest: Newest) -> None:
        if (line := _record(newest.value or b"")) is not None:
            self.lines.setdefault(key, []).append(line)


def read_copy(
    cluster: Cluster, principal: Principal, topic: str, environment: str, *, whole: bool = False
) -> list[Line]:
    """The newest lines of ``environment``, or all; empty if the topic does not exist. Raises ClusterError."""

    async def read(lines: CompactedTopic) -> list[Line]:
        assert isinstance(lines, _Lines)
        await lines.read(whole=whole)
        return lines.lines.get(environment, [])

    with contextlib.closing(TopicRecords(cluster, principal, topic, _Lines, tail=TAIL_RECORDS)) as records:
        return records.ask(errors.read_topic(topic), read)


def together(*records: Iterable[Line]) -> list[Line]:
    """Merges records: each line once, oldest first."""
    by_name = {json.dumps({**line, PREVIOUS: None}, sort_keys=True): line for record in records for line in record}
    return sorted(by_name.values(), key=lambda line: str(line.get("at", "")))
