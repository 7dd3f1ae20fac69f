"""The copy of the audit record in its topic, read: what runs on other machines did. Written by ``audit_topic``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, Message

from reconciler.edges.kafka.connection import Connection
from reconciler.edges.status_tail import Tail, open_tail
from reconciler.topology import Cluster, Principal

Line = Mapping[str, Any]


class _Lines(Tail):
    """Every record instead of the newest of each key: ``lines`` by key, as they were written."""

    records = 20_000  # of all environments that share the topic; what is older tells nothing of today's differences

    def __init__(self, connection: Connection, consumer: Consumer, topic: str, partitions: list[int]) -> None:
        super().__init__(connection, consumer, topic, partitions)
        self.lines: dict[bytes, list[Line]] = {}

    def take(self, message: Message) -> None:
        with contextlib.suppress(ValueError):
            line = json.loads(message.value() or b"")
            if isinstance(line, dict):
                self.lines.setdefault(message.key() or b"", []).append(line)


def read_copy(cluster: Cluster, principal: Principal, topic: str, environment: str) -> list[Line]:
    """The newest lines of ``environment``; empty where the topic is not there yet. Raises ClusterError."""
    tail = open_tail(cluster, principal, topic, _Lines)
    if tail is None:
        return []
    try:
        tail.advance()
    finally:
        tail.consumer.close()
        tail.connection.close()
    return tail.lines.get(environment.encode(), [])


def together(*records: Iterable[Line]) -> list[Line]:
    """Each line once, oldest first."""
    found = {json.dumps(line, sort_keys=True): line for record in records for line in record}
    return sorted(found.values(), key=lambda line: str(line.get("at", "")))
