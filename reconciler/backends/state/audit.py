"""The audit log: a complete record in ``audit.jsonl`` for the runs of one machine, and a copy in a Kafka topic.

The topic is keyed by environment and holds the runs of other machines, too.
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

NAME = "audit.jsonl"
LAST_BYTES = 1 << 20
Line = Mapping[str, Any]
SECONDS = 10.0
PAUSE_SECONDS = 1.0
"""Lines of changes travel together; those that begin or end a run go at once."""
TROUBLE_SECONDS = 60.0
"""How long lines of changes wait after the topic could not be written: each try may take ``SECONDS``, for which the run
waits while it holds the lock."""
TAIL_RECORDS = 20_000
"""Of all environments that share the topic; older lines explain no difference of today."""


class AuditFile:
    """Raises ReconcilerError when it cannot be opened or written: what leaves no record is not begun."""

    def __init__(self, state: Path) -> None:
        self.path = state / NAME
        try:
            make_private(state)
            opened = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._handle = open(opened, "a+b", buffering=0)  # noqa: SIM115, PTH123 - a descriptor, to the end
            # What a killed writer left of its last line must not swallow the next one.
            if self._handle.seek(0, os.SEEK_END):
                self._handle.seek(-1, os.SEEK_END)
                if self._handle.read(1) != b"\n":
                    self._handle.write(b"\n")
        except OSError as error:
            raise self._unwritable(error) from None

    def write(self, line: Mapping[str, Any]) -> None:
        """All of the line or nothing of it, also when this is interrupted, with the digest of the line before it."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX)  # a pause writes beside an apply
            data = json.dumps({**line, PREVIOUS: self.head() or None}, ensure_ascii=False).encode() + b"\n"
            before = self._handle.seek(0, os.SEEK_END)
            after = before + len(data)
            try:
                while data:  # a disk that is nearly full takes a part, and refuses the rest
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
        """Digest of the newest record, or empty. Skips a line that was cut off."""
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

    def holds(self, run: str) -> bool:
        """Whether the last lines have one of this run."""
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
    """The record so far, oldest first; empty where there is none. Skips a line that was cut off."""
    with contextlib.suppress(ReconcilerError):
        return recorded(state)
    return []


def recorded(state: Path) -> list[Mapping[str, Any]]:
    """As ``read_lines``. Raises ReconcilerError when the record exists and cannot be read."""
    try:
        text = read_kept(state / NAME, None, "replace")
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


def illegible(state: Path) -> int:
    """Lines of the record that are none, where it has no other; a killed writer leaves at most one between others."""
    try:
        lines = sum(bool(part.strip()) for part in read_kept(state / NAME, None, "replace").split("\n"))
    except OSError:
        return 0
    return 0 if read_lines(state) else lines


class AuditTopicLog:
    """Appends lines in order; they wait here until the topic exists, which the plan makes. One thread at a time."""

    def __init__(self, cluster: Cluster, topic: str, environment: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.key = environment
        self.waiting: list[Line] = []
        self.trouble = ""
        self.head: str | None = None
        """Digest of the newest record of the environment, empty for none; None before that was read."""
        self.broken_off = ""
        """Why the chain of digests starts again with this run, or empty."""
        self._encoded: list[bytes] = []
        """The first lines that wait, encoded: a line that may have been sent is sent again byte for byte."""
        self._not_before = 0.0
        self._records = TopicRecords(cluster, Principal.APPLY, topic, patience=SECONDS)

    def begin(self, line: Line) -> None:
        """The first line of a run. Raises ReconcilerError when it cannot be kept: then nothing may be begun."""
        self.write(line)
        if self.waiting and self.trouble:
            raise ReconcilerError(
                f"the audit topic {self.cluster.name}/{self.topic} cannot be written: {self.trouble}",
                "Nothing is changed without a record of who did what.",
                f"Let the apply principal write to it, or leave audit out of the topology: {self.cluster.name} answers"
                f" at {', '.join(self.cluster.bootstrap_servers)}.",
            )

    def write(self, line: Line) -> None:
        """Never raises: a run under way is not left half done for a copy of its record. ``left`` reports it."""
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
        """A sentence when lines did not reach the topic, else empty. Ends the connection."""
        self._records.close()
        if not self.waiting and self.broken_off:
            return f"the chain of {self.cluster.name}/{self.topic} starts again with this run: {self.broken_off}"
        if not self.waiting:
            return ""
        why = self.trouble or "the topic does not exist"
        return f"{len(self.waiting)} audit lines are in the file alone, not in {self.cluster.name}/{self.topic}: {why}"

    def _flush(self) -> None:
        if not self._records.ask(errors.write_topic(self.topic), CompactedTopic.exists):
            return
        # Each line gets the digest of the one before it, which another machine may have written.
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
    """Every record instead of the newest of each key: ``lines`` by key, as they were written."""

    def __init__(self, cluster: ClusterClient, topic: str, **how: Any) -> None:
        super().__init__(cluster, topic, **how)
        self.lines: dict[str, list[Line]] = {}

    def take(self, key: str, newest: Newest) -> None:
        with contextlib.suppress(ValueError):
            line = parsed(newest.value or b"")
            if isinstance(line, dict):
                self.lines.setdefault(key, []).append(line)


def read_copy(
    cluster: Cluster, principal: Principal, topic: str, environment: str, *, whole: bool = False
) -> list[Line]:
    """The newest lines of ``environment``, or all; empty where the topic does not exist yet. Raises ClusterError."""

    async def read(lines: CompactedTopic) -> list[Line]:
        assert isinstance(lines, _Lines)
        await lines.read(whole=whole)
        return lines.lines.get(environment, [])

    with contextlib.closing(TopicRecords(cluster, principal, topic, _Lines, tail=TAIL_RECORDS)) as records:
        return records.ask(errors.read_topic(topic), read)


def together(*records: Iterable[Line]) -> list[Line]:
    """Each line once, oldest first."""
    by_name = {json.dumps({**line, PREVIOUS: None}, sort_keys=True): line for record in records for line in record}
    return sorted(by_name.values(), key=lambda line: str(line.get("at", "")))
