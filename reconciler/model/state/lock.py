"""The lock of an environment: holder, lease, and its JSON as written to Kafka. Frozen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.errors import ReconcilerError
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.replication.json_codec import JsonRecord
from reconciler.text import time_words

LOCK_TOPIC_REPLICAS = 3
# Few keys, but a small record every few seconds while a run holds the lock: compaction has to keep up.
LOCK_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
"""In every shape of the topic; ``lock_topic_configs`` adds min.insync.replicas."""
WISHES = frozenset({"segment.bytes", "segment.ms", "min.cleanable.dirty.ratio", "min.insync.replicas"})
"""Configs that keep our own topics small and writable. If a service or a broker policy refuses them, the topics work
without: reading is slower, because compaction comes later."""
LEASE_MS = 60_000


def lock_cluster(topology: Topology) -> Cluster:
    """The cluster with the lock and the record of the last apply: the one on which they were found, at first the first
    by name. Raises ReconcilerError."""
    if not topology.clusters:
        raise ReconcilerError(
            f"environment {topology.environment} declares no cluster",
            "There is no cluster to ask, and nothing to compare; a lost file would look like this.",
            "Declare one under clusters, or check that this is the right folder.",
        )
    return topology.clusters[topology.lock_home or min(topology.clusters)]


def lock_topic_factors(brokers: int) -> tuple[int, ...]:
    """Factors to try in turn. If two brokers are up, a third may only be down, and Kafka may place a replica on it."""
    return (LOCK_TOPIC_REPLICAS, 2) if brokers == 2 else (min(LOCK_TOPIC_REPLICAS, brokers),)


def lock_topic_configs(replicas: int) -> dict[str, str]:
    """Keeps the topic writable with one broker down; the cluster's default may require all replicas."""
    return {**LOCK_TOPIC_CONFIGS, "min.insync.replicas": str(max(1, replicas - 1))}


def lock_topic_shapes(brokers: int, chosen: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Factors and configs for the lock's topic, to try in turn: a broker policy may refuse the configs that are mere
    wishes. ``chosen``: configs from git, which are none."""
    factors = lock_topic_factors(brokers)
    yield from ((factor, {**lock_topic_configs(factor), **chosen}) for factor in factors)
    for factor in factors:
        needed = {key: value for key, value in lock_topic_configs(factor).items() if key not in WISHES}
        yield factor, {**needed, **chosen}


def lock_key(environment: str) -> str:
    return f"lock/{environment}"


def transactional_id(environment: str) -> str:
    return f"reconciler.{environment}"


def journal_key(environment: str) -> str:
    """Key of the reassignment's journal, on the cluster that it changes."""
    return f"reassignment/{environment}"


def journal_transactional_id(environment: str) -> str:
    return f"reconciler.{environment}.reassignment"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds or requests the lock. ``place``: equal for processes that can see each other, empty if
    unknown. ``id``: unique."""

    id: str
    who: str
    host: str
    pid: int
    place: str
    purpose: str
    since_ms: int

    def words(self, now_ms: int) -> str:
        age_s = max(0, now_ms - self.since_ms) // 1000
        return f"{self.who} on {self.host}, process {self.pid} ({self.purpose}), for {time_words(age_s)}"


@dataclass(frozen=True, slots=True)
class Steal:
    """The former holder of a stolen lock."""

    who: str
    host: str
    pid: int
    purpose: str
    reason: str
    """Of the user who took it, for the audit record."""


@dataclass(frozen=True, slots=True)
class LockRecord:
    """The lock of an environment, as its record has it."""

    holder: Holder
    renewed_ms: int
    """Since 1970."""
    lease_ms: int = LEASE_MS
    steal: Steal | None = None
    """Set if it was taken from another holder."""

    def left_ms(self, now_ms: int) -> int:
        """Remaining time; 0 or less: expired."""
        return self.renewed_ms + self.lease_ms - now_ms

    def words(self, now_ms: int) -> str:
        """The holder, and the meaning of its silence: a live one renews at every third of the lease."""
        silent = now_ms - self.renewed_ms
        if silent * 2 < self.lease_ms:
            return self.holder.words(now_ms)
        ends = f"it may have been killed, then its lock ends in {self.left_ms(now_ms) // 1000 + 1} s"
        return f"{self.holder.words(now_ms)}; not renewed for {time_words(silent // 1000)}: {ends}"


_RECORD = JsonRecord(LockRecord, "lock record")
dumps, loads = _RECORD.dumps, _RECORD.loads
