"""Principals: their ACLs as Kafka stores them and access rules as an environment declares them, quotas (KIP-546), and
SCRAM users (RFC 5802, KIP-554).

No password is ever in one of these values, only the reference to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from reconciler.errors import NOWHERE, Where
from reconciler.text import BYTES, quoted

WILDCARD = "*"
"""As a literal resource name: all names. As a host: every address."""
CLUSTER_NAME = "kafka-cluster"
ANYONE = "User:*"


class ResourceType(StrEnum):
    """The value is Kafka's name in lower case; see ``backends.clusters`` for the codes."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional_id"
    DELEGATION_TOKEN = "delegation_token"  # noqa: S105 - Kafka's word for a kind of resource
    USER = "user"


class PatternType(StrEnum):
    """Stored rules are literal or prefixed; MATCH and ANY exist in Kafka's filters only and are never used here."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Operation(StrEnum):
    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    DESCRIBE_CONFIGS = "describe_configs"
    ALTER_CONFIGS = "alter_configs"
    IDEMPOTENT_WRITE = "idempotent_write"
    CREATE_TOKENS = "create_tokens"
    DESCRIBE_TOKENS = "describe_tokens"
    TWO_PHASE_COMMIT = "two_phase_commit"


class Permission(StrEnum):
    ALLOW = "allow"
    DENY = "deny"


IMPLIED_BY: Mapping[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operation -> others that imply it where they are allowed. A denial implies nothing, except for ALL."""
_PLAIN = re.compile(r"[^\s\"]+")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/=+-]*")


@dataclass(frozen=True, slots=True, order=True)
class AclBinding:
    """One rule as Kafka stores it: an identity, never updated. ``str`` of two different rules differs."""

    resource: ResourceType
    name: str
    """A name, its prefix by ``pattern``, or ``*``."""
    pattern: PatternType
    principal: str
    """As ``User:name``; ``User:*`` is everyone."""
    host: str
    """An address, or ``*``: brokers compare addresses, not names."""
    operation: Operation
    permission: Permission
    """DENY wins over every ALLOW."""

    def __str__(self) -> str:
        """``allow User:orders-app write on topic orders``; a prefix, and a host that is not every host, are shown."""
        where = "" if self.host == WILDCARD else f" from {self.host}"
        return f"{self.permission} {word(self.principal)} {self.operation} on {self.target}{where}"

    @property
    def target(self) -> str:
        """``topic orders``, ``topic prefix orders.`` or ``cluster``."""
        if self.resource is ResourceType.CLUSTER and self.name == CLUSTER_NAME and self.pattern is PatternType.LITERAL:
            return str(self.resource)
        prefix = "prefix " if self.pattern is PatternType.PREFIXED else ""
        return f"{self.resource} {prefix}{word(self.name)}"

    @property
    def wildcard(self) -> bool:
        return self.name == WILDCARD and self.pattern is PatternType.LITERAL

    def covers_name(self, name: str) -> bool:
        """Does the resource pattern match the resource called ``name``?"""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.wildcard or self.name == name

    def implied_by(self) -> tuple[AclBinding, ...]:
        """Rules for the same pattern, principal and host that imply this one (StandardAuthorizer).

        An allowed READ, WRITE, DELETE or ALTER implies DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS, ALL implies
        everything. A denied operation implies nothing but, for ALL, every operation.
        """
        if self.operation is Operation.ALL:
            return ()
        wider = IMPLIED_BY.get(self.operation, ()) if self.permission is Permission.ALLOW else ()
        return tuple(replace(self, operation=operation) for operation in (Operation.ALL, *sorted(wider)))

    def covers(self, other: AclBinding) -> bool:
        """Does this rule decide every request that ``other`` decides, in the same way? Then ``other`` changes nothing
        beside it (StandardAuthorizer)."""
        if (self.resource, self.permission) != (other.resource, other.permission):
            return False
        if self.principal not in (other.principal, ANYONE) or self.host not in (other.host, WILDCARD):
            return False
        if self.operation not in (other.operation, *(rule.operation for rule in other.implied_by())):
            return False
        if self.wildcard or (self.name, self.pattern) == (other.name, other.pattern):
            return True
        return self.pattern is PatternType.PREFIXED and not other.wildcard and other.name.startswith(self.name)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The cluster does not have this kind of thing, which is not the same as having none: SECURITY_DISABLED."""

    why: str


def redundant(binding: AclBinding, among: Iterable[AclBinding] | frozenset[AclBinding]) -> bool:
    """Whether another rule of ``among`` already implies ``binding``."""
    this_redundant = among if isinstance(among, frozenset) else frozenset(among)
    return any(wider in this_redundant for wider in binding.implied_by())


def word(text: str) -> str:
    """A principal or a resource's name, quoted if it is ambiguous."""
    return text if _PLAIN.fullmatch(text) and text.isprintable() else quoted(text)


class AccessRole(StrEnum):
    """A principal's role, from which its rules follow; see ``resources.acls.roles``."""

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
    """One entry of ``access``: a role with its resources, or an ``exact`` rule; never both."""

    number: int
    """Counts entries from 1, in file order; an entry has no name of its own."""
    principal: str
    clusters: tuple[str, ...]
    role: AccessRole | None = None
    exact: ExactRule | None = None
    hosts: tuple[str, ...] = (WILDCARD,)
    topics: tuple[NamePattern, ...] = ()
    """For roles that name one kind of topic; ``reads`` and ``writes`` for those that tell them apart."""
    groups: tuple[NamePattern, ...] = ()
    transactional_ids: tuple[NamePattern, ...] = ()
    reads: tuple[NamePattern, ...] = ()
    """Topics that a Streams application or a connector only reads."""
    writes: tuple[NamePattern, ...] = ()
    """Topics that it only writes."""
    application_id: str = ""
    """Of Kafka Streams: its groups, internal topics and transactional ids begin with it."""
    flows: tuple[str, ...] = ()
    """Names, for role mirror only; empty: all flows of the environment."""
    absent: bool = False
    """These rules must not exist, no matter who made them."""
    where: Where = field(default=NOWHERE, compare=False)


# SCRAM users

LEAST_ITERATIONS = 4096
"""As brokers accept them (ScramMechanism.minIterations)."""
AS_FOUND = 0
"""The version of a user whose password is of others, and stays."""


class Mechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


Credentials = Mapping[Mechanism, int]
"""A user's credentials as the cluster shows them: mechanism -> iterations. Never a password, nor anything derived from
one."""


@dataclass(frozen=True, slots=True)
class ScramUser:
    """One entry of ``users``."""

    number: int
    """Counts entries from 1, in file order."""
    clusters: tuple[str, ...]
    name: str
    version: int = AS_FOUND
    """Counts its passwords: a higher one sets the password again, since Kafka shows none."""
    mechanisms: tuple[Mechanism, ...] = (Mechanism.SHA_512,)
    """Each gets a credential from the same password."""
    iterations: int | None = None
    """None: an existing credential keeps its number, a new one gets the least."""
    password: str = ""
    """A reference such as ``${env:NAME}``."""
    take_over: bool = False
    """The password of a user that no apply made may be replaced."""
    absent: bool = False
    """The user must not exist."""
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user's entry in the ownership record. ``version``: the last one that was certainly set, None without one.
    ``setting``: a version that a run began to set without confirming it, so the password may be the old or the new one.
    ``mechanisms``: those that runs of this environment have set."""

    version: int | None
    mechanisms: tuple[Mechanism, ...] = ()
    setting: int | None = None

    def __str__(self) -> str:
        said = "no version recorded" if self.version is None else f"version {self.version} recorded"
        return said if self.setting is None else f"{said}, version {self.setting} begun and not finished"


def user_words(name: str) -> str:
    """``user orders-app``; a name with other signs in quotes."""
    return f"user {name if _PLAIN_NAME.fullmatch(name) else quoted(name)}"


def credentials_text(credentials: Credentials) -> str:
    """``SCRAM-SHA-512 with 4096 iterations``."""
    return ", ".join(f"{mechanism} with {credentials[mechanism]} iterations" for mechanism in sorted(credentials))


# quotas

QUOTA_KINDS = ("user", "client-id", "ip")
BYTE_RATES = ("producer_byte_rate", "consumer_byte_rate")
CONNECTION_RATE = "connection_creation_rate"
CLIENT_QUOTAS = (*BYTE_RATES, "request_percentage", "controller_mutation_rate")
QUOTA_KEYS = (*CLIENT_QUOTAS, CONNECTION_RATE)

NO_LIMIT = float(1 << 62)
"""In place of infinity and NaN, which brokers before 4.4 take for some limits and never enforce: JSON has neither."""

QuotaLimits = Mapping[str, float]


@dataclass(frozen=True, slots=True, order=True)
class QuotaPart:
    """``name`` None: Kafka's default entity, which holds for everybody without a quota of their own."""

    kind: str
    name: str | None

    def __str__(self) -> str:
        if self.name is None:
            return f"default {self.kind}"
        return f"{self.kind} {self.name if _PLAIN_NAME.fullmatch(self.name) else quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """``parts`` in the order of ``QUOTA_KINDS``: a user, a client id, both, or an IP address."""

    parts: tuple[QuotaPart, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts))


def entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """``parts``: kind -> name."""

    def place(kind: str) -> tuple[int, str]:
        return QUOTA_KINDS.index(kind) if kind in QUOTA_KINDS else len(QUOTA_KINDS), kind

    return QuotaEntity(tuple(QuotaPart(kind, parts[kind]) for kind in sorted(parts, key=place)))


@dataclass(frozen=True, slots=True)
class Quota:
    """One entry of ``quotas``. ``number`` counts entries from 1, in file order."""

    number: int
    clusters: tuple[str, ...]
    entity: QuotaEntity
    limits: QuotaLimits = field(default_factory=lambda: MappingProxyType({}))
    """Key -> the desired value."""
    remove: tuple[str, ...] = ()
    """Keys that must have none."""
    absent: bool = False
    """No key may have one."""
    where: Where = field(default=NOWHERE, compare=False)


def limit_words(key: str, value: float) -> str:
    """``10 MiB/s``, ``200 %``; exact."""
    if value == NO_LIMIT:
        return "without end"
    plain = f"{int(value)}" if value == int(value) else repr(value)
    if key in BYTE_RATES:
        return f"{exact_size(value) or f'{plain} B'}/s"
    return f"{plain} %" if key == "request_percentage" else f"{plain}/s"


def exact_size(value: float) -> str:
    """With the largest unit that divides it; empty for what is no whole number of bytes."""
    if value != int(value) or value <= 0:
        return ""
    unit, size = max((pair for pair in BYTES.items() if int(value) % pair[1] == 0), key=lambda key: key[1])
    return f"{int(value) // size} {unit}"


def limits_text(limits: QuotaLimits) -> str:
    return ", ".join(f"{key} {limit_words(key, value)}" for key, value in sorted(limits.items()))
