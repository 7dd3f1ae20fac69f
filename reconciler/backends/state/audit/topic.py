"""The copy of the audit log in a Kafka topic, keyed by environment, with the runs on other machines: written and read.

The file is the complete record of the runs of one machine.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import client_settings
from reconciler.backends.connections.librdkafka import AdminConnection, DebugLog, deliver
from reconciler.backends.connections.requests import Requests
from reconciler.backends.mirror_jobs.status.tail import Tail, open_tail
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.audit_chain import PREVIOUS, digest
from reconciler.replication.json_codec import parsed

Line = Mapping[str, Any]
SECONDS = 10.0
PAUSE_SECONDS = 1.0
"""Lines of changes travel together; those that begin or end a run go at once."""
TROUBLE_SECONDS = 60.0
"""How long lines of changes wait after the topic could not be written: each try may take ``SECONDS``, and the run waits
for it, with the lock in its hands."""
_MISSING = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class AuditTopicLog:
    """Lines in order. While the topic is not there yet (the plan makes it), they wait here. One thread at a time."""

    def __init__(self, cluster: Cluster, topic: str, environment: str) -> None:
        self.cluster = cluster
        self.topic = topic
        self.key = environment.encode()
        self.waiting: list[Line] = []
        self.trouble = ""
        self.head: str | None = None
        """Digest of the newest record of the environment, empty for none; None before that was read."""
        self.begins_anew = ""
        """Why the chain of digests starts again with this run, or empty."""
        self._encoded: list[bytes] = []
        """Of the first lines that wait: what may have been sent is sent again as it was."""
        self._not_before = 0.0
        self._connection: AdminConnection | None = None
        self._producer: Producer | None = None

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
        except KafkaException as error:
            self.trouble = str(error.args[0].str())
        pause = TROUBLE_SECONDS if self.trouble else PAUSE_SECONDS
        self._not_before = time.monotonic() + pause

    def left(self) -> str:
        """A sentence when lines did not reach the topic, else empty. Ends the connection."""
        self._producer = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if not self.waiting and self.begins_anew:
            return f"the chain of {self.cluster.name}/{self.topic} starts again with this run: {self.begins_anew}"
        if not self.waiting:
            return ""
        why = self.trouble or "the topic does not exist"
        return f"{len(self.waiting)} audit lines are in the file alone, not in {self.cluster.name}/{self.topic}: {why}"

    def _flush(self) -> None:
        if not self._exists():
            return
        producer = self._opened()
        self._chain()
        sent = len(self.waiting)
        failed, pending = deliver(producer, self.topic, [(self.key, line) for line in self._encoded], SECONDS)
        if failed:
            raise KafkaException(failed)
        if pending:
            self._producer = None
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {SECONDS:.0f} s"))
        del self.waiting[:sent], self._encoded[:sent]
        self.trouble = ""

    def _chain(self) -> None:
        """Each line gets the digest of the one before it, which another machine may have written."""
        if self.head is None:
            try:
                lines = read_copy(self.cluster, Principal.APPLY, self.topic, self.key.decode())
                self.head = digest(lines[-1]) if lines else ""
            except ClusterError as error:
                self.head, self.begins_anew = "", f"{error.what}. Let the apply principal read the topic."
        for line in self.waiting[len(self._encoded) :]:
            chained = {**line, PREVIOUS: self.head or None}
            self.head = digest(chained)
            self._encoded.append(json.dumps(chained, ensure_ascii=False).encode())

    def _exists(self) -> bool:
        if self._producer is not None:
            return True
        if self._connection is None or self._connection.closed:
            self._connection = AdminConnection(self.cluster, Principal.APPLY)
        document = self._connection.admin.list_topics(self.topic, timeout=SECONDS).topics.get(self.topic)
        if document is None or (document.error is not None and document.error.code() in _MISSING):
            return False
        if document.error is not None:
            raise self._connection.error(document.error, errors.Asked(f"write to topic {self.topic}", "Write", ""))
        return True

    def _opened(self) -> Producer:
        if self._producer is None:
            assert self._connection is not None
            settings = {
                **client_settings(self.cluster, Principal.APPLY),
                "enable.idempotence": True,
                "delivery.timeout.ms": int(SECONDS * 1000),
                "error_cb": self._connection.heard,
            }
            self._producer = Producer(settings, logger=DebugLog())
        return self._producer


class _Lines(Tail):
    """Every record instead of the newest of each key: ``lines`` by key, as they were written."""

    records = 20_000  # of all environments that share the topic; older ones do not explain today's differences

    def __init__(self, requests: Requests, consumer: Consumer, topic: str, partitions: Sequence[int]) -> None:
        super().__init__(requests, consumer, topic, partitions)
        self.lines: dict[bytes, list[Line]] = {}

    def take(self, message: Message) -> None:
        with contextlib.suppress(ValueError):
            line = parsed(message.value() or b"")
            if isinstance(line, dict):
                self.lines.setdefault(message.key() or b"", []).append(line)


def read_copy(
    cluster: Cluster, principal: Principal, topic: str, environment: str, *, whole: bool = False
) -> list[Line]:
    """The newest lines of ``environment``, or all; empty where the topic is not there yet. Raises ClusterError."""
    tail = open_tail(cluster, principal, topic, _Lines)
    if tail is None:
        return []
    try:
        tail.advance()
        if whole:
            tail.complete()
    finally:
        tail.consumer.close()
    return tail.lines.get(environment.encode(), [])


def together(*records: Iterable[Line]) -> list[Line]:
    """Each line once, oldest first."""
    by_name = {json.dumps({**line, PREVIOUS: None}, sort_keys=True): line for record in records for line in record}
    return sorted(by_name.values(), key=lambda line: str(line.get("at", "")))
