"""Access as an environment declares it: rules by role or in Kafka's own words. ``access.roles`` expands them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.acls import WILDCARD, Operation, PatternType, Permission, ResourceType
from reconciler.errors import NOWHERE, Where


class AccessRole(StrEnum):
    """What a principal does, from which its rules follow; see ``access.roles``."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    STREAMS = "streams"
    CONNECT = "connect"
    MIRROR = "mirror"
    RECONCILER_PLAN = "reconciler-plan"
    RECONCILER_APPLY = "reconciler-apply"


@dataclass(frozen=True, slots=True, order=True)
class NamePattern:
    """Names of one kind of resource. The literal name ``*`` is Kafka's wildcard for all of them."""

    name: str
    pattern: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return self.name if self.pattern is PatternType.LITERAL else f"{self.name}*"


@dataclass(frozen=True, slots=True)
class ExactRule:
    """The part of an access rule that is written as Kafka stores it: every name with every operation."""

    resource: ResourceType
    names: tuple[NamePattern, ...]
    operations: tuple[Operation, ...]
    permission: Permission = Permission.ALLOW


@dataclass(frozen=True, slots=True)
class AccessRule:
    """One entry of ``access``: a role with what it is about, or an ``exact`` rule; never both.

    ``absent``: these rules must not exist, whoever made them. ``number`` counts entries from 1, in file order.
    ``flows`` are names (role mirror only; empty: all). ``application_id`` is Kafka Streams'.
    """

    number: int
    principal: str
    clusters: tuple[str, ...]
    role: AccessRole | None = None
    exact: ExactRule | None = None
    hosts: tuple[str, ...] = (WILDCARD,)
    topics: tuple[NamePattern, ...] = ()
    groups: tuple[NamePattern, ...] = ()
    transactional_ids: tuple[NamePattern, ...] = ()
    reads: tuple[NamePattern, ...] = ()
    writes: tuple[NamePattern, ...] = ()
    application_id: str = ""
    flows: tuple[str, ...] = ()
    absent: bool = False
    where: Where = field(default=NOWHERE, compare=False)
