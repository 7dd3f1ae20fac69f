"""KafkaCluster: implements the ports ClusterReader and ClusterAdmin for one cluster and one principal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import assert_never

from reconciler.backends.clusters.acls_and_quotas import AccessControl, QuotaControl
from reconciler.backends.clusters.configs import broker_configs
from reconciler.backends.clusters.replicas import KafkaReplicas
from reconciler.backends.clusters.topics.batches import PlannedTopicChange, topic_items
from reconciler.backends.clusters.topics.read import metadata, read_cluster
from reconciler.backends.clusters.topics.write import perform, validate
from reconciler.backends.clusters.users import UserControl
from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError, or_unknown
from reconciler.kafka.protocol.metadata_and_configs import ClusterOf
from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    CreateTopic,
    DeleteTopic,
    KindName,
    Subject,
    TopicChange,
)
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Before, LiveAccess, LiveCluster, LiveUsers, Made, broker_defaults, shows_defaults
from reconciler.model.plan import Outcome, Planned
from reconciler.model.principals import AclBinding, QuotaEntity, QuotaLimits
from reconciler.model.replicas import Partition, ReassignmentInFlight, ReplicaFacts
from reconciler.model.reports.health import ClusterHealth, Short, lacks_replicas


class KafkaCluster:
    """Connects and resolves secrets at the first request. Methods raise ClusterError, or SecretError for an
    unresolvable reference. Threads may share it, and take turns; a context manager."""

    def __init__(
        self,
        cluster: Cluster,
        principal: Principal = Principal.PLAN,
        environment: str = "",
        ahead: Callable[[], LiveCluster | None] | None = None,
    ) -> None:
        """``environment``: its ownership record lists the access rules, quotas and users that are ours. ``ahead``:
        returns the early read of the whole cluster, or None if that failed."""
        self.cluster = cluster
        self.principal = principal
        self.access = AccessControl(cluster, principal, environment)
        self.quotas = QuotaControl(cluster, principal, environment)
        self.users = UserControl(cluster, principal, environment)
        self._ahead = ahead
        self._requests: Requests | None = None
        self._connecting = Lock()

    @property
    def name(self) -> str:
        return self.cluster.name

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        if topics is None and self._ahead is not None:
            begun, self._ahead = self._ahead, None
            if (cluster := begun()) is not None:
                return self._with_defaults(cluster)
        cluster = read_cluster(self._connected(), topics)
        return cluster if topics is not None else self._with_defaults(cluster)

    def _with_defaults(self, cluster: LiveCluster) -> LiveCluster:
        """Adds a broker's defaults for new topics, which an empty cluster shows on no topic."""
        if shows_defaults(cluster) or not cluster.brokers:
            return cluster
        number = cluster.brokers[0].id

        def ask() -> Mapping[str, str]:
            configs = broker_configs(self._connected(), number)
            return broker_defaults({key: entry.value for key, entry in configs.items()})

        return replace(cluster, defaults=or_unknown(f"configs of broker {number}", ask))

    def health(self) -> ClusterHealth:
        """Health for the gates of a rollout, in few requests for any number of topics. Covers topics that the principal
        may describe."""
        requests = self._connected()

        async def read() -> ClusterOf:
            return await metadata(await requests.wire.any_control(), None)

        described = requests.query(errors.DESCRIBE_CLUSTER, read)
        offline: list[str] = []
        short: list[Short] = []
        for topic in sorted(described.topics):
            for part in topic.partitions:
                if part.leader < 0:
                    offline.append(f"{topic.name}-{part.number}")
                if not set(part.replicas) <= set(part.isr):
                    short.append(Short(topic.name, part.number, part.replicas, part.isr))
        health = ClusterHealth(self.name, len(described.brokers), tuple(offline), tuple(short))
        if not health.short:
            return health
        # A replica that a reassignment adds (KIP-455) is not under-replicated while it catches up.
        moves: dict[Partition, ReassignmentInFlight] = {}
        with contextlib.suppress(ClusterError), self.replicas("") as replicas:
            moves = {move.key: move for move in replicas.moves()}
        lacking = [short for short in health.short if lacks_replicas(short, moves.get((short.topic, short.index)))]
        return replace(health, short=tuple(lacking))

    def read_access(self) -> LiveAccess:
        return self.access.read()

    def read_quotas(self) -> Mapping[QuotaEntity, QuotaLimits]:
        return self.quotas.read()

    def read_quota_keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        return self.quotas.keys()

    def read_users(self) -> LiveUsers:
        return self.users.read()

    def validate(self, changes: Sequence[TopicChange | AlterQuota]) -> Mapping[Subject, str]:
        """Subject -> the brokers' refusal, by requests that change nothing."""
        items: list[PlannedTopicChange] = []
        quotas: list[AlterQuota] = []
        for change in changes:
            match change:
                case AlterQuota():
                    quotas.append(change)
                case DeleteTopic():
                    """Kafka has no validate-only deletion."""
                case CreateTopic() | AddPartitions() | AlterConfigs():
                    items.append(PlannedTopicChange(f"{len(items)}", change))
                case _:
                    assert_never(change)
        refusals = dict(validate(self._connected(), items)) if items else {}
        return refusals | dict(self.quotas.validate(quotas)) if quotas else refusals

    def perform(self, changes: Sequence[Planned], progress: Callable[[Outcome], None]) -> Sequence[Outcome]:
        """One outcome for each change, in order; all of one kind. Each kind decides what fits into a request."""
        if not changes:
            return ()
        match changes[0].change.kind:
            case KindName.TOPICS:
                items = topic_items(changes)  # before a connection is opened for a change that is none of a topic
                return perform(self._connected(), items, progress)
            case KindName.ACLS:
                return self.access.perform(changes, progress)
            case KindName.QUOTAS:
                return self.quotas.perform(changes, progress)
            case KindName.USERS:
                return self.users.perform(changes, progress)
            case KindName.REPLICAS | KindName.MIRRORS as other:
                raise ValueError(f"changes of {other} are not made here: {changes[0].id}")
            case unknown:
                assert_never(unknown)

    def rules_by_broker(self) -> Mapping[int, frozenset[AclBinding]]:
        return self.access.by_broker()

    def own_rules(self, rules: Mapping[AclBinding, Made]) -> None:
        self.access.record.write(rules)

    def keep_pending(self, before: Mapping[AclBinding, Before | None]) -> None:
        self.access.pending.write(before)

    def put_back(self, before: Mapping[AclBinding, Before]) -> Mapping[AclBinding, str]:
        return self.access.put_back(before)

    def replica_facts(self, environment: str) -> ReplicaFacts:
        with self.replicas(environment) as replicas:
            return replicas.facts()

    def replicas(self, environment: str) -> KafkaReplicas:
        return KafkaReplicas(self.cluster, self.principal, environment)

    def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        requests, self._requests = self._requests, None
        if requests is not None:
            requests.__exit__()

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _connected(self) -> Requests:
        with self._connecting:
            if self._requests is None:
                self._requests = Requests(self.cluster, self.principal).__enter__()
            return self._requests
