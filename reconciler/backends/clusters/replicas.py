"""KafkaReplicas: implements the port ReplicaAdmin for one cluster: reassignments, throttles, elections."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from reconciler.backends.clusters.replica_requests import ReplicaRequests
from reconciler.backends.clusters.topics.read import read_cluster
from reconciler.backends.connections import errors
from reconciler.backends.connections.librdkafka import CONNECT_SECONDS, REQUEST_SECONDS, AdminConnection, kafka_error_of
from reconciler.backends.state.reassignment_journal import JournalLog
from reconciler.errors import ClusterError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import LiveCluster
from reconciler.model.replicas import RATES, Journal, ReplicaFacts, ThrottleEdit

SEEN_SECONDS = 15.0
DYNAMIC_BROKER = 2
_OPERATIONS = {
    "set": AlterConfigOpType.SET,
    "delete": AlterConfigOpType.DELETE,
    "append": AlterConfigOpType.APPEND,
    "subtract": AlterConfigOpType.SUBTRACT,
}


class KafkaReplicas(ReplicaRequests):
    """Connects when entered. Raises ClusterError; a context manager, for one thread."""

    def __init__(self, cluster: Cluster, principal: Principal, environment: str, connection: AdminConnection) -> None:
        super().__init__(cluster, principal)
        self.cluster = cluster
        self._admin = connection
        self._journal = JournalLog(cluster, environment, principal)

    @property
    def name(self) -> str:
        return self.cluster.name

    def __exit__(self, *error: object) -> None:
        self._journal.close()
        super().__exit__(*error)

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        return read_cluster(self._admin, topics)

    def facts(self) -> ReplicaFacts:
        brokers = sorted(node.id for node in self._admin.cluster().nodes)
        return ReplicaFacts(
            moves=self.moves(),
            sizes=MappingProxyType(self.sizes_on(brokers, None)),
            rates=MappingProxyType(self._rates(brokers)),
            journal=self._journal.read(self._admin),
        )

    def sizes(self, topics: Collection[str]) -> Mapping[tuple[str, int, int], int]:
        if not topics:
            return {}
        live = self.read(topics)
        wanted = {name: [part.index for part in topic.partitions] for name, topic in live.topics.items()}
        return self.sizes_on([broker.id for broker in live.brokers], wanted)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def write_journal(self, journal: Journal | None) -> None:
        self._journal.write(journal)

    def throttle(self, edits: Sequence[ThrottleEdit]) -> Sequence[ClusterError]:
        """A broker shows its rates only when it follows them, and what was written before them."""
        if not edits:
            return ()
        asked: dict[ConfigResource, Any] = {}
        for together in _by_request(edits):
            asked |= self._admin.admin.incremental_alter_configs(together, request_timeout=REQUEST_SECONDS)
        self._admin.settle(asked.values())
        failed = [
            _of_its_broker(error, resource)
            for resource, future in asked.items()
            if (error := self._admin.failure(future, _asked(resource))) is not None
        ]
        return failed or self._unseen([edit for edit in edits if edit.broker is not None])

    def _unseen(self, edits: Sequence[ThrottleEdit]) -> Sequence[ClusterError]:
        until = time.monotonic() + SEEN_SECONDS
        brokers = sorted({edit.broker for edit in edits if edit.broker is not None})
        while brokers:
            rates = self._rates(brokers)
            waiting = [edit for edit in edits if not _is_shown(edit, rates)]
            if not waiting:
                break
            if time.monotonic() > until:
                problem = f"broker {waiting[0].broker} does not show {waiting[0].key} as it was set"
                why = "Without it nothing would hold replication back"
                return (
                    ClusterError(self.name, "unreachable", problem, why, "Look at the broker, then run apply again."),
                )
            time.sleep(0.1)
        return ()

    def _rates(self, brokers: Iterable[int]) -> dict[int, Mapping[str, str]]:
        """The dynamic values of each broker itself. One that does not answer is left out."""
        resources = [ConfigResource(ResourceType.BROKER, str(broker)) for broker in brokers]
        asked: dict[ConfigResource, Any] = {}
        for resource in resources:
            asked |= self._admin.admin.describe_configs([resource], request_timeout=CONNECT_SECONDS)
        self._admin.settle(asked.values())
        rates: dict[int, Mapping[str, str]] = {}
        for resource, future in asked.items():
            error = kafka_error_of(future)
            if error is not None:
                failed = self._admin.error(error, _asked(resource))
                if failed.kind != "unreachable":
                    raise failed
                continue
            entries = future.result()
            rates[int(resource.name)] = {
                key: entries[key].value
                for key in RATES
                if key in entries and int(entries[key].source) == DYNAMIC_BROKER and entries[key].value is not None
            }
        return rates


def _of_its_broker(failed: ClusterError, resource: ConfigResource) -> ClusterError:
    """Only the broker itself takes its dynamic configs, so its silence is not that of the cluster."""
    if resource.restype is not ResourceType.BROKER or failed.kind != "unreachable":
        return failed
    description = f"broker {resource.name} of cluster {failed.cluster} does not answer"
    return ClusterError(
        failed.cluster, failed.kind, description, failed.why, "Start it and apply again, or plan without it."
    )


def _is_shown(edit: ThrottleEdit, rates: Mapping[int, Mapping[str, str]]) -> bool:
    if edit.broker is None or edit.broker not in rates:
        return False
    return rates[edit.broker].get(edit.key) == (edit.value if edit.operation == "set" else None)


def _by_request(edits: Sequence[ThrottleEdit]) -> list[list[ConfigResource]]:
    """All topics in one, each broker in its own: it goes to that broker."""
    entries: dict[tuple[ResourceType, str], list[ConfigEntry]] = {}
    for edit in edits:
        where = (ResourceType.TOPIC, edit.topic) if edit.broker is None else (ResourceType.BROKER, str(edit.broker))
        value = None if edit.operation == "delete" else edit.value
        entry = ConfigEntry(edit.key, value, incremental_operation=_OPERATIONS[edit.operation])
        entries.setdefault(where, []).append(entry)
    rows = [ConfigResource(kind, name, incremental_configs=some) for (kind, name), some in entries.items()]
    topics = [row for row in rows if row.restype is ResourceType.TOPIC]
    return [*([topics] if topics else []), *([row] for row in rows if row.restype is not ResourceType.TOPIC)]


def _asked(resource: ConfigResource) -> errors.Asked:
    if resource.restype is ResourceType.TOPIC:
        return errors.alter_configs(resource.name)
    return errors.Asked(f"set the replication throttle of broker {resource.name}", "AlterConfigs", "--cluster")
