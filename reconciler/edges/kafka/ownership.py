"""The ownership record: which access rules of a cluster the runs of one environment made, kept on that cluster.

One compacted record a rule in ``__reconciler``. A record that is lost, or a topic that is not there, means: nothing is
owned, so nothing is deleted. Beside it, one record for each rule that a wave is about to touch: how it was before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from reconciler.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from reconciler.edges.kafka.record_log import RecordLog
from reconciler.live import Before, Made
from reconciler.topology import Cluster, Principal

OWNED, PENDING = "access", "access-pending"


def key_of(environment: str, binding: AclBinding, kind: str = OWNED) -> str:
    return f"{kind}/{environment}/{binding}"


def value_of(binding: AclBinding, entry: Made | Before) -> bytes:
    return json.dumps({"acl": asdict(binding), **asdict(entry)}, ensure_ascii=False, sort_keys=True).encode()


def entry_of(value: bytes) -> tuple[AclBinding, Made | Before] | None:
    """None for a value of a later release."""
    try:
        told = json.loads(value)
        acl = told["acl"]
        binding = AclBinding(
            ResourceType(acl["resource"]),
            str(acl["name"]),
            PatternType(acl["pattern"]),
            str(acl["principal"]),
            str(acl["host"]),
            Operation(acl["operation"]),
            Permission(acl["permission"]),
        )
        if "there" in told:
            return binding, Before(bool(told["there"]), _made(told["made"]) if told["made"] else None)
        return binding, _made(told)
    except (ValueError, KeyError, TypeError):
        return None


def _made(told: Mapping[str, Any]) -> Made:
    return Made(str(told["title"]), str(told["maker"]))


@dataclass(frozen=True, slots=True)
class Recorded:
    """``pending``: rules that a wave touched and no probe has confirmed."""

    owned: Mapping[AclBinding, Made] = field(default_factory=lambda: MappingProxyType({}))
    pending: Mapping[AclBinding, Before] = field(default_factory=lambda: MappingProxyType({}))


class OwnershipRecord:
    """Raises ClusterError."""

    def __init__(self, cluster: Cluster, principal: Principal, environment: str) -> None:
        self.environment = environment
        self.log = RecordLog(cluster, principal)

    def read(self) -> Recorded:
        """Empty where the topic does not exist."""
        values = self.log.read(*(f"{kind}/{self.environment}/" for kind in (OWNED, PENDING)))
        found = [entry for value in values.values() if (entry := entry_of(value)) is not None]
        return Recorded(
            {acl: entry for acl, entry in found if isinstance(entry, Made)},
            {acl: entry for acl, entry in found if isinstance(entry, Before)},
        )

    def write(self, entries: Mapping[AclBinding, Made | None]) -> None:
        """All of them, or an error; None strikes an entry. Makes the topic where it is missing."""
        self._write(OWNED, entries)

    def write_pending(self, entries: Mapping[AclBinding, Before | None]) -> None:
        """As ``write``."""
        self._write(PENDING, entries)

    def _write(self, kind: str, entries: Mapping[AclBinding, Made | None] | Mapping[AclBinding, Before | None]) -> None:
        self.log.write(
            {
                key_of(self.environment, binding, kind): None if entry is None else value_of(binding, entry)
                for binding, entry in entries.items()
            }
        )
