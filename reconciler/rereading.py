"""What a saved plan rests on, read once more: only that ground, and nothing of it may be unknown.

Border: asks through the ports; whether the ground has moved is ``planning``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.changes import AlterQuota, TopicChange
from reconciler.errors import Unknown
from reconciler.live import LiveAccess, LiveCluster, LiveState, LiveUsers
from reconciler.observations import access_to_read, quotas_to_read, topics_to_read, users_to_read
from reconciler.observing import Wanted
from reconciler.ports import ClusterReader
from reconciler.quotas import Limits, QuotaEntity
from reconciler.replicas import ReplicaFacts


@dataclass(frozen=True, slots=True)
class Ground:
    """``topics``: cluster -> the names to read there. ``more``: of which clusters more than topics is read."""

    topics: Mapping[str, tuple[str, ...]]
    mirrors: tuple[str, ...]
    more: Wanted


def ground(observed: Iterable[str]) -> Ground:
    """``observed``: the subjects of a plan's basis."""
    subjects = tuple(observed)
    mirrors = tuple(one.removeprefix("mirror ") for one in subjects if one.startswith("mirror "))
    more = Wanted(access_to_read(subjects), quotas_to_read(subjects), (), users_to_read(subjects))
    return Ground(topics_to_read(subjects), mirrors, more)


def unreadable(live: LiveState) -> list[Unknown]:
    """Every part that was asked for and did not come."""
    found = [one for one in (*live.clusters.values(), *live.mirrors.values()) if isinstance(one, Unknown)]
    parts = [part for one in live.clusters.values() if isinstance(one, LiveCluster) for part in _parts(one)]
    return found + [part for part in parts if isinstance(part, Unknown)]


def _parts(cluster: LiveCluster) -> tuple[object, ...]:
    acls = cluster.acls if cluster.access is not None else None
    users = (cluster.users.credentials, cluster.users.recorded) if cluster.users is not None else ()
    return acls, cluster.quotas, *users


@dataclass(frozen=True, slots=True)
class Narrow:
    """A reader of only ``names``: what a saved plan rests on, and nothing more."""

    reader: ClusterReader
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.reader.name

    def read(self, topics: Collection[str] | None = None) -> LiveCluster:
        return self.reader.read(self.names if topics is None else topics)

    def read_access(self) -> LiveAccess:
        return self.reader.read_access()

    def read_quotas(self) -> Mapping[QuotaEntity, Limits]:
        return self.reader.read_quotas()

    def read_quota_keys(self) -> Mapping[QuotaEntity, frozenset[str]]:
        return self.reader.read_quota_keys()

    def read_users(self) -> LiveUsers:
        return self.reader.read_users()

    def validate(self, changes: Sequence[TopicChange | AlterQuota]) -> Mapping[str, str]:
        return self.reader.validate(changes)

    def replica_facts(self, environment: str) -> ReplicaFacts:
        return self.reader.replica_facts(environment)
