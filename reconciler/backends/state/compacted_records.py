"""Compacted records of one environment in ``__reconciler``, on the cluster that they are about.

What they say is ``ownership``. Writers hold the environment's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import AdminConnection
from reconciler.backends.connections.requests import TopicRecords
from reconciler.backends.state import topic as lock_topic
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.lock import LOCK_TOPIC
from reconciler.replication.records.compacted_topic import CompactedTopic


class RecordLog:
    """Raises ClusterError. Opens a connection for each call and closes it."""

    def __init__(self, cluster: Cluster, principal: Principal) -> None:
        self.cluster = cluster
        self.principal = principal

    def read(self, *prefixes: str) -> Mapping[str, bytes]:
        """The newest value of each key that begins with one of ``prefixes``. Empty where the topic does not exist."""
        with closing(self._records()) as records:
            return records.values(*prefixes) or {}

    def write(self, entries: Mapping[str, bytes | None]) -> None:
        """All of them, or an error; None strikes an entry. Makes the topic where it is missing."""
        if not entries:
            return
        with closing(self._records()) as records:
            if not records.ask(errors.describe_topic(LOCK_TOPIC), CompactedTopic.exists):
                self._make()
            records.append(entries.items(), 0, required=True)

    def _records(self) -> TopicRecords:
        """Uncommitted: only the lock is written in transactions."""
        return TopicRecords(self.cluster, self.principal, LOCK_TOPIC)

    def _make(self) -> None:
        connection = AdminConnection(self.cluster, self.principal)
        try:
            if failed := lock_topic.make(connection, LOCK_TOPIC, len(connection.cluster().nodes)):
                raise failed
        finally:
            connection.close()
