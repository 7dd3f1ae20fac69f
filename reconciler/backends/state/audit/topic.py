"""A copy of the audit record in a Kafka topic, keyed by environment. The file is the one that must be complete."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.connection import Connection, DebugLog
from reconciler.edges.kafka.identity import client_settings
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.topology import Cluster, Principal

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
        self.waiting: list[bytes] = []
        self.trouble = ""
        self._not_before = 0.0
        self._connection: Connection | None = None
        self._producer: Producer | None = None

    def begin(self, line: Mapping[str, Any]) -> None:
        """The first line of a run. Raises ReconcilerError when it cannot be kept: then nothing may be begun."""
        self.write(line)
        if self.waiting and self.trouble:
            raise ReconcilerError(
                f"the audit topic {self.cluster.name}/{self.topic} cannot be written: {self.trouble}",
                "Nothing is changed without a record of who did what.",
                f"Let the apply principal write to it, or leave audit out of the topology: {self.cluster.name} answers"
                f" at {', '.join(self.cluster.bootstrap_servers)}.",
            )

    def write(self, line: Mapping[str, Any]) -> None:
        """Never raises: a run under way is not left half done for a copy of its record. ``left`` tells."""
        self.waiting.append(json.dumps(line, ensure_ascii=False).encode())
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
        if not self.waiting:
            return ""
        why = self.trouble or "the topic does not exist"
        return f"{len(self.waiting)} audit lines are in the file alone, not in {self.cluster.name}/{self.topic}: {why}"

    def _flush(self) -> None:
        if not self._exists():
            return
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failed.append(error)

        producer = self._opened()
        sent = len(self.waiting)
        for line in self.waiting:
            producer.produce(self.topic, line, self.key, on_delivery=delivered)
        pending = producer.flush(SECONDS)
        if failed:
            raise KafkaException(failed[0])
        if pending:
            self._producer = None
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {SECONDS:.0f} s"))
        del self.waiting[:sent]
        self.trouble = ""

    def _exists(self) -> bool:
        if self._producer is not None:
            return True
        if self._connection is None or self._connection.closed:
            self._connection = Connection(self.cluster, Principal.APPLY)
        found = self._connection.admin.list_topics(self.topic, timeout=SECONDS).topics.get(self.topic)
        if found is None or (found.error is not None and found.error.code() in _MISSING):
            return False
        if found.error is not None:
            raise self._connection.error(found.error, errors.Asked(f"write to topic {self.topic}", "Write", ""))
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
