"""Adopts what principals have on a live cluster, as ``access``, ``quotas`` and ``users`` entries; reports what no entry
can hold.

Roles are not guessed: a rule is written as Kafka stores it. Users keep the passwords they have.
"""

import math
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from reconciler.environment.declarations.principals import MEANT_FOR, is_address, is_principal
from reconciler.environment.yaml.nodes import CONTROL
from reconciler.errors import Unknown
from reconciler.model.live import LiveUsers
from reconciler.model.principals import (
    AS_FOUND,
    BYTE_RATES,
    CLIENT_QUOTAS,
    CLUSTER_NAME,
    CONNECTION_RATE,
    LEAST_ITERATIONS,
    QUOTA_KINDS,
    WILDCARD,
    AccessRule,
    AclBinding,
    ExactRule,
    NamePattern,
    Operation,
    PatternType,
    Quota,
    QuotaEntity,
    QuotaLimits,
    ResourceType,
    ScramUser,
    limit_words,
    user_words,
)
from reconciler.text import grouped

Entry = TypeVar("Entry", AccessRule, Quota, ScramUser)
TODO = "TODO_PASSWORD_OF_"
_HAS_CONTROLS = "it contains characters that are not allowed in a topology"


@dataclass(frozen=True, slots=True)
class Adopted(Generic[Entry]):
    """``left_out``: live objects that no entry can express, with reasons."""

    entries: tuple[Entry, ...] = ()
    left_out: tuple[str, ...] = ()


def adopt_access(cluster: str, bindings: Iterable[AclBinding]) -> Adopted[AccessRule]:
    """Access entries; rules of one principal that differ only in name, operation or host are merged."""
    taken: list[AclBinding] = []
    left_out: list[str] = []
    for acl in sorted(bindings):
        at_cluster = acl.name == CLUSTER_NAME and acl.pattern is PatternType.LITERAL
        # Kafka stores rules that match no client, such as after a typo. Declared, they would look as if they did.
        if not is_principal(acl.principal):
            left_out.append(f"{acl}: its principal is none that a client can be")
        elif acl.host != WILDCARD and not is_address(acl.host):
            left_out.append(f"{acl}: its host is no address")
        elif not acl.name or CONTROL.search(f"{acl.name}{acl.principal}"):
            left_out.append(f"{acl}: {_HAS_CONTROLS}")
        elif acl.operation is not Operation.ALL and acl.operation not in MEANT_FOR[acl.resource]:
            left_out.append(f"{acl}: the operation does not exist on {acl.resource}")
        elif acl.resource is ResourceType.CLUSTER and not at_cluster:
            left_out.append(f"{acl}: a cluster is called {CLUSTER_NAME}")
        else:
            taken.append(acl)

    # First the operations on each name, then the names with the same operations, then the hosts with the same of both.
    operations = grouped(
        (
            ((acl.principal, acl.permission, acl.resource), acl.host, NamePattern(acl.name, acl.pattern)),
            acl.operation,
        )
        for acl in taken
    )
    names = grouped(((subject, host, tuple(each)), name) for (subject, host, name), each in operations.items())
    hosts = grouped(((subject, each, tuple(sorted(some))), host) for (subject, host, each), some in names.items())
    rules: list[AccessRule] = []
    for (subject, its_operations, its_names), its_hosts in sorted(
        hosts.items(), key=lambda item: (item[0][0], item[0][2], item[0][1])
    ):
        principal, permission, resource = subject
        exact = ExactRule(resource, its_names, its_operations, permission)
        rules.append(AccessRule(len(rules) + 1, principal, (cluster,), exact=exact, hosts=tuple(sorted(its_hosts))))
    return Adopted(tuple(rules), tuple(left_out))


def adopt_quotas(cluster: str, live: Mapping[QuotaEntity, QuotaLimits]) -> Adopted[Quota]:
    """One quota entry for each entity, sorted."""
    quotas: list[Quota] = []
    left_out: list[str] = []
    for whom, limits in sorted(live.items(), key=lambda pair: str(pair[0])):
        # Kafka holds some entities and values that its own tools refuse; a plan could never set them again.
        kinds = {part.kind for part in whom.parts}
        if not kinds or not kinds <= set(QUOTA_KINDS) or ("ip" in kinds and len(whom.parts) > 1):
            left_out.append(f"{whom}: no entry can name this entity")
            continue
        if any(part.name is not None and (not part.name or CONTROL.search(part.name)) for part in whom.parts):
            left_out.append(f"{whom}: {_HAS_CONTROLS}")
            continue
        if any(part.kind == "user" and (part.name or "").startswith("User:") for part in whom.parts):
            left_out.append(f"{whom}: a user's name does not begin with User:")
            continue

        fitting = (CONNECTION_RATE,) if "ip" in kinds else CLIENT_QUOTAS
        taken: dict[str, float] = {}
        for key, value in sorted(limits.items()):
            # Exact as an entry of YAML: connections are 32 bits, and whole numbers fit a double up to 53 bits.
            most = (1 << 31) - 1 if key == CONNECTION_RATE else (1 << 53) - 1
            in_range = math.isfinite(value) and 0 < value <= most
            if key in fitting and in_range and (value == int(value) or key not in (*BYTE_RATES, CONNECTION_RATE)):
                taken[key] = value
            else:
                words = limit_words(key, value) if math.isfinite(value) else value
                left_out.append(f"{whom}: {key} {words} cannot be declared")
        if taken:
            quotas.append(Quota(len(quotas) + 1, (cluster,), whom, MappingProxyType(taken)))
    return Adopted(tuple(quotas), tuple(left_out))


def adopt_users(cluster: str, live: LiveUsers | None) -> Adopted[ScramUser]:
    """User entries, sorted by name; none if users or their record could not be read."""
    if live is None or not isinstance(live.credentials, Mapping) or isinstance(live.recorded, Unknown):
        return Adopted()
    users: list[ScramUser] = []
    left_out: list[str] = []
    for name, credentials in sorted(live.credentials.items()):
        record = live.recorded.get(name)
        if not credentials:
            left_out.append(f"{user_words(name)}: a mechanism that no entry can name")
        elif not name or CONTROL.search(name) or name.startswith("User:"):
            left_out.append(f"{user_words(name)}: a name that no entry can hold")
        elif record is not None and record.setting is not None:
            left_out.append(f"{user_words(name)}: {record}")
        else:
            # A hashed password cannot be read back, so the entry keeps the existing one (version 0) until the user sets
            # another.
            version = record.version if record is not None and record.version is not None else AS_FOUND
            # Another variable for each name, on whichever clusters of an environment: variables may only have capitals,
            # digits and underscores, so svc.a, svc_a and SVC-A get a checksum, and svc-a none.
            usual = re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name)
            checksum = "" if usual else f"_{zlib.crc32(name.encode()):08X}"
            variable = f"{TODO}{re.sub('[^A-Z0-9]', '_', name.upper())}{checksum}"
            counts = set(credentials.values())
            iterations = counts.pop() if len(counts) == 1 else None
            user = ScramUser(
                len(users) + 1,
                (cluster,),
                name,
                version,
                tuple(sorted(credentials)),
                None if iterations == LEAST_ITERATIONS else iterations,
                f"${{env:{variable}}}",
                take_over=version == AS_FOUND,
            )
            users.append(user)
    return Adopted(tuple(users), tuple(left_out))
