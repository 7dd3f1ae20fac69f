"""The copy of the audit log in a Kafka topic, keyed by environment, with the runs on other machines: written and read.

The file is the complete record of the runs of one machine.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import TopicRecords
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.audit_chain import PREVIOUS, digest
from reconciler.replication.json_codec import parsed
from reconciler.replication.records.compacted_topic import CompactedTopic, Newest

Line = Mapping[str, Any]
SECONDS = 10.0
PAUSE_SECONDS = 1.0
"""Lines of changes travel together; those that begin or end a run go at once."""
TROUBLE_SECONDS = 60.0
"""How long lines of changes wait after the topic could not be written: each try may take ``SECONDS``, and the run waits
for it, with the lock in its hands."""
TAIL_RECORDS = 20_000
"""Of all environments that share the topic; what is older tells nothing of today's differences."""


class AuditTopicLog:
    """Lines in order. While the topic is not there yet (the plan makes it), they wait here. One thread at a time."""

    def __init__(self, cluster: Cluster, topic: str, environment: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.key = environment
        self.waiting: list[Line] = []
        self.trouble = ""
        self.head: str | None = None
        """Digest of the newest record of the environment, empty for none; None before that was read."""
        self.begins_anew = ""
        """Why the chain of digests starts again with this run, or empty."""
        self._encoded: list[bytes] = []
        """Of the first lines that wait: what may have been sent is sent again as it was."""
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
        if not self.waiting and self.begins_anew:
            return f"the chain of {self.cluster.name}/{self.topic} starts again with this run: {self.begins_anew}"
        if not self.waiting:
            return ""
        why = self.trouble or "the topic does not exist"
        return f"{len(self.waiting)} audit lines are in the file alone, not in {self.cluster.name}/{self.topic}: {why}"

    def _flush(self) -> None:
        if not self._records.ask(errors.write_topic(self.topic), CompactedTopic.exists):
            return
        self._chain()
        self._records.append([(self.key, line) for line in self._encoded])
        self.waiting.clear()
        self._encoded.clear()
        self.trouble = ""

    def _chain(self) -> None:
        """Each line gets the digest of the one before it, which another machine may have written."""
        if self.head is None:
            try:
                lines = read_copy(self.cluster, Principal.APPLY, self.topic, self.key)
                self.head = digest(lines[-1]) if lines else ""
            except ClusterError as error:
                self.head, self.begins_anew = "", f"{error.what}. Let the apply principal read the topic."
        for line in self.waiting[len(self._encoded) :]:
            chained = {**line, PREVIOUS: self.head or None}
            self.head = digest(chained)
            self._encoded.append(json.dumps(chained, ensure_ascii=False).encode())


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
    """The newest lines of ``environment``, or all; empty where the topic is not there yet. Raises ClusterError."""

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
