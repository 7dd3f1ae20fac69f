"""Writes the pauses that a mirror job obeys: one record each in the status topic, deleted to resume."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from reconciler.backends.connections.requests import TopicRecords
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.replication.names import STATUS_TOPIC


def write_records(cluster: Cluster, principal: Principal, values: Mapping[str, bytes | None]) -> None:
    """``values`` by key, None deletes. Raises ClusterError; then some may have been written."""
    with closing(TopicRecords(cluster, principal, STATUS_TOPIC)) as records:
        records.append(values.items())
