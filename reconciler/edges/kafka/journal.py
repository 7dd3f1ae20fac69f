"""The journal of a reassignment on its own cluster: one record of the environment in the topic ``__reconciler``."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

from confluent_kafka import TopicCollection

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.connection import CONNECT_SECONDS, Connection
from reconciler.edges.kafka.lock_log import FencedError, LockLog
from reconciler.errors import ClusterError
from reconciler.locks import LOCK_TOPIC, journal_key, journal_transactional_id
from reconciler.replicas import Journal, ListEntries
from reconciler.topology import Cluster, Principal

FORMAT_VERSION = 1


class JournalLog:
    """Raises ClusterError."""

    def __init__(self, cluster: Cluster, environment: str, principal: Principal) -> None:
        self.cluster = cluster
        self.environment = environment
        writer = journal_transactional_id(environment)
        self._log = LockLog(cluster, LOCK_TOPIC, journal_key(environment), writer, principal)
        self._open = False

    def read(self, connection: Connection) -> Journal | None:
        """None also where the topic was never made."""
        asked = connection.admin.describe_topics(TopicCollection([LOCK_TOPIC]), request_timeout=CONNECT_SECONDS)
        connection.settle(asked.values())
        failed = connection.failure(asked[LOCK_TOPIC], errors.describe_topic(LOCK_TOPIC))
        if failed is not None and failed.kind == "missing":
            return None
        if failed is not None:
            raise failed
        value = self._log.read()
        return None if value is None else self._loaded(value)

    def write(self, journal: Journal | None) -> None:
        value = None if journal is None else dumps(journal)
        for last in (False, True):
            try:
                if not self._open:
                    self._log.open()
                    self._log.fence()
                    self._open = True
                self._log.write(value)
                return
            except FencedError:
                self._open = False
                if last:
                    raise ClusterError(
                        self.cluster.name,
                        "other",
                        f"the journal of the reassignment on {self.cluster.name} is written by someone else as well",
                        "Two runs at once would clear each other's throttles.",
                        "Look who else applies this environment.",
                    ) from None

    def close(self) -> None:
        self._log.close()

    def _loaded(self, value: bytes) -> Journal:
        try:
            return loads(value)
        except ValueError as error:
            raise ClusterError(
                self.cluster.name,
                "invalid",
                f"the journal of a reassignment on {self.cluster.name} cannot be understood: {error}",
                "Another version of this program may have it under way.",
                "Use that version to finish it.",
            ) from None


def dumps(journal: Journal) -> bytes:
    targets: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), replicas in sorted(journal.targets.items()):
        targets.setdefault(topic, {})[str(partition)] = list(replicas)
    document = {
        "format_version": FORMAT_VERSION,
        "environment": journal.environment,
        "began_ms": journal.began_ms,
        "targets": targets,
        "rates": journal.rates,
        "brokers": journal.brokers,
        "lists": [[one.topic, one.key, list(one.entries), one.fresh] for one in journal.lists],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def loads(value: bytes) -> Journal:
    """Raises ValueError for anything ``dumps`` of this version did not write."""
    try:
        found: dict[str, Any] = json.loads(value)
        if found["format_version"] != FORMAT_VERSION:
            raise ValueError("another format version")
        targets = {
            (topic, int(partition)): tuple(replicas)
            for topic, partitions in found["targets"].items()
            for partition, replicas in partitions.items()
        }
        return Journal(
            environment=found["environment"],
            began_ms=found["began_ms"],
            targets=MappingProxyType(targets),
            rates=tuple(found["rates"]),
            brokers=tuple((broker, key) for broker, key in found["brokers"]),
            lists=tuple(ListEntries(t, key, tuple(entries), fresh) for t, key, entries, fresh in found["lists"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no journal: {error}") from None
