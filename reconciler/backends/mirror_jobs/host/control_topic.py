"""Reads the control topic, and writes single records by compare-and-set (decision 122).

Readers judge by their own clock whether the holder of a lease is alive: clocks of two machines are never compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from reconciler.backends.connections.errors import read_topic, write_topic
from reconciler.backends.connections.requests import TopicRecords
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.state.mirror_control import LEASE_MS, HostLease
from reconciler.replication.names import host_transactions
from reconciler.replication.records.compacted_topic import CompactedTopic

OURS = "reconciler."
"""Prefix of the transactional ids that the role reconciler-apply may use."""


class ControlStore(Protocol):
    """The control topic of one cluster and environment. Raises ClusterError."""

    @property
    def missing(self) -> bool:
        """Whether the topic did not exist at the last read."""
        ...

    def read(self) -> Mapping[str, bytes]:
        """Key -> newest value; empty if the topic does not exist."""
        ...

    def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        """Writes ``after`` if the value is still ``before``, else returns False. None deletes."""
        ...

    def close(self) -> None: ...


class ControlTopic:
    """``ControlStore`` in Kafka; thread-safe. A repeated write of a key costs one transaction, unless another process
    has written it since. ``topic``: the cluster's control topic if empty."""

    def __init__(self, cluster: Cluster, environment: str, principal: Principal, topic: str = "") -> None:
        self.cluster = cluster
        self.topic = topic or cluster.own_topics.control
        self._prefix = host_transactions(environment) if principal is Principal.MIRROR else f"{OURS}{environment}."
        self._records = TopicRecords(cluster, principal, self.topic, committed=True)
        self._missing = False

    @property
    def missing(self) -> bool:
        return self._missing

    def read(self) -> Mapping[str, bytes]:
        async def read(topic: CompactedTopic) -> Mapping[str, bytes] | None:
            newest = await topic.read()
            self._require_declared(topic.cluster.cluster_id)
            return topic.values() if newest is not None else None

        values = self._records.ask(read_topic(self.topic), read)
        self._missing = values is None
        return values or {}

    def swap(self, key: str, before: bytes | None, after: bytes | None) -> bool:
        writer = f"{self._prefix}{key}"
        return self._records.ask(write_topic(self.topic), lambda topic: topic.swap(writer, key, before, after))

    def close(self) -> None:
        self._records.close()

    def _require_declared(self, answered: str) -> None:
        """Raises ClusterError if the answering cluster's id is not the declared one."""
        if self.cluster.cluster_id not in (None, answered):
            raise ClusterError(
                self.cluster.name,
                "invalid",
                f"cluster {self.cluster.name} is declared with cluster_id {self.cluster.cluster_id}, but {answered}"
                " answered",
                "What is desired of mirrors is read there, and no other cluster may say it",
                f"Correct bootstrap_servers or cluster_id of {self.cluster.name}.",
            )


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """A record's value, and the monotonic time in seconds since when it has not changed."""

    value: bytes | None
    since: float

    def again(self, value: bytes | None, now: float) -> LeaseWatch:
        return self if value == self.value else LeaseWatch(value, now)

    def is_free(self, lease: HostLease | None, now: float) -> bool:
        """Whether another host may take the mirror: it has no lease, the lease was released, or the record, readable or
        not, has not changed for the length of a lease."""
        if self.value is None or (lease is not None and lease.released):
            return True
        lasts = lease.lease_ms if lease is not None else LEASE_MS
        return now - self.since >= lasts / 1000
