"""Who holds an environment, as written in Kafka and shown to people. Frozen."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from reconciler.errors import ReconcilerError
from reconciler.topology import Cluster, Topology

LOCK_TOPIC = "__reconciler"
LOCK_TOPIC_REPLICAS = 3
# Few keys, one small record every few seconds while somebody holds the lock: compaction has to keep up.
LOCK_TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Beside ``lock_topic_configs``."""
LEASE_MS = 60_000
FORMAT_VERSION = 1


def lock_cluster(topology: Topology) -> Cluster:
    """The cluster that keeps the lock and the record of the last apply: the first by name. Raises ReconcilerError."""
    if not topology.clusters:
        raise ReconcilerError(
            f"environment {topology.environment} declares no cluster",
            "There is nobody to ask, and nothing to compare; a lost file would look like this.",
            "Declare one under clusters, or check that this is the right folder.",
        )
    return topology.clusters[min(topology.clusters)]


def lock_topic_factors(brokers: int) -> tuple[int, ...]:
    """To be tried in turn. Of two brokers the third may only be away, and Kafka may place a replica on it."""
    return (LOCK_TOPIC_REPLICAS, 2) if brokers == 2 else (min(LOCK_TOPIC_REPLICAS, brokers),)


def lock_topic_configs(replicas: int) -> dict[str, str]:
    """With one broker away it can still be written; what the cluster asks of other topics may be all replicas."""
    return {**LOCK_TOPIC_CONFIGS, "min.insync.replicas": str(max(1, replicas - 1))}


def lock_key(environment: str) -> str:
    return f"lock/{environment}"


def transactional_id(environment: str) -> str:
    return f"reconciler.{environment}"


def journal_key(environment: str) -> str:
    """Of a reassignment on its own cluster."""
    return f"reassignment/{environment}"


def journal_transactional_id(environment: str) -> str:
    return f"reconciler.{environment}.reassignment"


@dataclass(frozen=True, slots=True)
class Holder:
    """One process that holds, or asks for, the lock. ``place`` is equal for processes that can see each other, or
    empty where that cannot be known. ``id`` is unique."""

    id: str
    who: str
    host: str
    pid: int
    place: str
    purpose: str
    since_ms: int

    def words(self, now_ms: int) -> str:
        age = age_words(now_ms - self.since_ms)
        return f"{self.who} on {self.host}, process {self.pid} ({self.purpose}), for {age}"


@dataclass(frozen=True, slots=True)
class Steal:
    """From whom a lock was taken, and why."""

    who: str
    host: str
    pid: int
    purpose: str
    reason: str


@dataclass(frozen=True, slots=True)
class LockRecord:
    holder: Holder
    renewed_ms: int
    lease_ms: int = LEASE_MS
    steal: Steal | None = None

    def left_ms(self, now_ms: int) -> int:
        """How long it still counts; 0 or less: it does not."""
        return self.renewed_ms + self.lease_ms - now_ms

    def words(self, now_ms: int) -> str:
        """The holder, and what its silence may mean: who lives renews every third of the lease."""
        silent = now_ms - self.renewed_ms
        if silent * 2 < self.lease_ms:
            return self.holder.words(now_ms)
        ends = f"it may have been killed, then its lock ends in {self.left_ms(now_ms) // 1000 + 1} s"
        return f"{self.holder.words(now_ms)}; not renewed for {age_words(silent)}: {ends}"


def dumps(record: LockRecord) -> bytes:
    return json.dumps({"format_version": FORMAT_VERSION, **asdict(record)}, sort_keys=True).encode()


def loads(value: bytes) -> LockRecord:
    """Raises ValueError for anything ``dumps`` of this version did not write."""
    try:
        found: dict[str, Any] = json.loads(value)
        if found.pop("format_version") != FORMAT_VERSION:
            raise ValueError("another format version")
        holder, steal = Holder(**found.pop("holder")), found.pop("steal")
        return LockRecord(holder=holder, steal=Steal(**steal) if steal else None, **found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no lock record: {error}") from None


def age_words(milliseconds: int) -> str:
    seconds = max(0, milliseconds) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
