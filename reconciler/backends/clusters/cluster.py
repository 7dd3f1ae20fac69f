"""KafkaCluster: the ports ClusterReader and ClusterAdmin over one cluster and one principal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType

from reconciler.acls import AclBinding
from reconciler.changes import AclChange, AlterQuota, DeleteTopic, TopicChange, UserChange
from reconciler.edges.kafka.access import AccessControl
from reconciler.edges.kafka.batches import Item
from reconciler.edges.kafka.bulk_reading import FROM_TOPICS, read_in_bulk
from reconciler.edges.kafka.connection import CONNECT_SECONDS, Connection
from reconciler.edges.kafka.health import read_health
from reconciler.edges.kafka.quotas import QuotaControl
from reconciler.edges.kafka.reading import read_cluster
from reconciler.edges.kafka.replicas import KafkaReplicas
from reconciler.edges.kafka.users import UserControl
from reconciler.edges.kafka.writing import perform, validate
from reconciler.errors import ClusterError
from reconciler.healths import ClusterHealth, lacks_replicas
from reconciler.live import Before, LiveAccess, LiveCluster, LiveUsers
from reconciler.plans import Outcome, Planned
from reconciler.quotas import Limits, QuotaEntity
from reconciler.replicas import Move, Partition, ReplicaFacts
from reconciler.topology import Cluster, Principal


class KafkaCluster:
    """Connects at the first request; secrets are resolved then. Methods raise ClusterError, or SecretError for a
    reference that cannot be resolved. One thread at a time; a context manager."""

    def __init__(
        self,
        cluster: Cluster,
        principal: Principal = Principal.PLAN,
        environment: str = "",
        ahead: Callable[[], LiveCluster | None] | None = None,
    ) -> None:
        """``environment``: whose ownership record says which access rules, quotas and users are ours. ``ahead`` gives
        what the first whole read finds, which has begun elsewhere, or None when that failed."""
        self.cluster = cluster
        self.principal = principal
        self.access = AccessControl(cluster, principal, environment)
        self.quotas = QuotaControl(cluster, principal, environment)
        self.users = UserControl(cluster, principal, environment)
        self._ahead = ahead
        self._connection: Connection | None = None

    @property
    def name(self) -> str:
        return self.cluster.name

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        found, began = None, time.monotonic()
        if topics is None and self._ahead is not None:
            begun, self._ahead = self._ahead, None
            found = begun()
        elif topics is None or len(topics) > FROM_TOPICS:
            found = read_in_bulk(self.cluster, self.principal, topics)
        # Who kept silent until now is not given the whole time once more.
        left = max(CONNECT_SECONDS / 2, CONNECT_SECONDS - (time.monotonic() - began))
        return found or read_cluster(self._connected(), topics, within=left)

    def health(self) -> ClusterHealth:
        """What gates of a rollout ask: cheap, whatever the number of topics. Without what is being reassigned: a new
        replica that is not in sync yet is none that is missing (KIP-455)."""
        found = read_health(self._connected())
        if not found.short:
            return found
        moves: dict[Partition, Move] = {}
        with contextlib.suppress(ClusterError), self.replicas("") as replicas:
            moves = {move.key: move for move in replicas.moves()}
        left = [one for one in found.short if lacks_replicas(one, moves.get((one.topic, one.index)))]
        return replace(found, short=tuple(left))

    def read_access(self) -> LiveAccess:
        return self.access.read()

    def read_quotas(self) -> Mapping[QuotaEntity, Limits]:
        return self.quotas.read()

    def read_quota_keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        return self.quotas.keys()

    def read_users(self) -> LiveUsers:
        return self.users.read()

    def validate(self, changes: Sequence[TopicChange | AlterQuota]) -> Mapping[str, str]:
        topics = [one for one in changes if not isinstance(one, AlterQuota | DeleteTopic)]
        items = [Item(f"{number}", change) for number, change in enumerate(topics)]
        refusals = dict(validate(self._connected(), items)) if items else {}
        quotas = [one for one in changes if isinstance(one, AlterQuota)]
        return refusals | dict(self.quotas.validate(quotas)) if quotas else refusals

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> Sequence[Outcome]:
        if any(isinstance(planned.change, AclChange) for planned in changes):
            return self.access.perform(changes, progress)
        if any(isinstance(planned.change, AlterQuota) for planned in changes):
            return self.quotas.perform(changes, progress)
        if any(isinstance(planned.change, UserChange) for planned in changes):
            return self.users.perform(changes, progress)
        return perform(self._connected(), changes, progress) if changes else ()

    def rules_by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        return self.access.by_broker()

    def keep_pending(self, before: Mapping[AclBinding, Before | None]) -> None:
        self.access.record.write_pending(before)

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        return self.access.put_back(before)

    def replica_facts(self, environment: str) -> ReplicaFacts:
        with self.replicas(environment) as replicas:
            return replicas.facts()

    def replicas(self, environment: str) -> KafkaReplicas:
        return KafkaReplicas(self.cluster, self.principal, environment, self._connected())

    def close(self) -> None:
        """Lets the connection go; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = Connection(self.cluster, self.principal)
        return self._connection
