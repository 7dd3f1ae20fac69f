"""``access``, ``quotas`` and ``users``: the entries for principals.

The fields that each role of ``access`` takes, and rules that contradict each other.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong, is_reference
from reconciler.environment.yaml.locations import Places, unknown_clusters, unknown_name
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, Sequence
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import (
    AS_FOUND,
    CLIENT_QUOTAS,
    CLUSTER_NAME,
    CONNECTION_RATE,
    QUOTA_KEYS,
    WILDCARD,
    AccessRole,
    AccessRule,
    AclBinding,
    ExactRule,
    Mechanism,
    NamePattern,
    Operation,
    PatternType,
    Permission,
    Quota,
    QuotaEntity,
    ResourceType,
    ScramUser,
    entity,
    user_words,
)
from reconciler.resources.acls.roles import expand_stable
from reconciler.text import grouped, nearest, sentence, size_bytes

EXACT = "resource"
_ALWAYS = frozenset({"principal", "clusters", "hosts", "absent"})
REQUIRED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        AccessRole.PRODUCER: ("clusters", "topics"),
        AccessRole.CONSUMER: ("clusters", "topics", "groups"),
        AccessRole.STREAMS: ("clusters", "application_id"),
        AccessRole.CONNECT: ("clusters", "groups", "topics"),
        AccessRole.MIRROR: (),
        AccessRole.RECONCILER_PLAN: ("clusters",),
        AccessRole.RECONCILER_APPLY: ("clusters",),
        EXACT: ("clusters", "resource", "operations"),
    }
)
OPTIONAL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        AccessRole.PRODUCER: ("transactional_ids",),
        AccessRole.STREAMS: ("reads", "writes"),
        AccessRole.CONNECT: ("reads", "writes", "transactional_ids"),
        AccessRole.MIRROR: ("flows",),
        EXACT: ("names", "permission"),
    }
)
MEANT_FOR: Mapping[ResourceType, frozenset[Operation]] = MappingProxyType(
    {
        ResourceType.TOPIC: frozenset(
            {Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
             Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
        ),
        ResourceType.GROUP: frozenset(
            {Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
        ),
        ResourceType.CLUSTER: frozenset(
            {Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
             Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE}
        ),
        ResourceType.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT}),
        ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
        ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
    }
)  # fmt: skip
"""``org.apache.kafka.security.authorizer.AclEntry.supportedOperations``. ALL fits everywhere."""

_PRINCIPAL = re.compile(r"[A-Z][A-Za-z]*:.+")


def build_access(reading: Reading) -> AccessRule:
    """``reading.name`` is the entry's number, from 1."""
    word = reading.value("role", default=None)
    role = None if word is None else AccessRole(word)
    _check_fields(reading, role)

    principal = str(reading.value("principal", default=""))
    kind, _, name = principal.partition(":")
    if not is_principal(principal):
        why = "Kafka compares principals letter by letter, so the rule would apply to no client"
        todo = f"Write User:{name if name and nearest(kind, ['User']) else principal}"
        reading.wrong(("principal",), Wrong("bad-principal", f'the principal is "{principal}"', why, todo))

    # A name or a network is accepted by brokers as well, and then matches no connection: a deny rule would deny
    # nothing.
    hosts = reading.texts("hosts", default=(WILDCARD,))
    for index, host in enumerate(hosts):
        if host != WILDCARD and not is_address(host):
            problem, why = f'hosts has "{host}"', "Kafka compares addresses, never names or networks"
            reading.wrong(("hosts", index), Wrong("bad-host", problem, why, 'Write an IP address, or "*" for all'))

    names = {field: _patterns(reading, field) for field in ("topics", "groups", "transactional_ids", "reads", "writes")}
    return AccessRule(
        number=int(reading.name),
        principal=principal,
        clusters=reading.texts("clusters"),
        role=role,
        exact=_exact(reading) if role is None and reading.node(EXACT) is not None else None,
        hosts=hosts,
        application_id=reading.value("application_id", default=""),
        flows=reading.texts("flows"),
        absent=reading.value("absent", default=False),
        where=reading.place.where,
        **names,
    )


def _check_fields(reading: Reading, role: AccessRole | None) -> None:
    """The fields of an entry fit its role: each role has fields that it requires and others that it reads."""
    written = reading.place.entry.value
    assert isinstance(written, YamlMapping)
    if role is None and EXACT not in written.entries:
        why = "Without either it is unknown what the principal may do"
        todo = f"Write role: {' or '.join(AccessRole)}; or resource, names and operations"
        reading.wrong((), Wrong("access-without-role", "it has neither role nor resource", why, todo))
        return
    # The schema allows the fields of all roles; one that this role ignores would seem to take effect.
    kind, word = (EXACT, "a rule by resource") if role is None else (str(role), f"the role {role}")
    known = {*_ALWAYS, *REQUIRED[kind], *OPTIONAL.get(kind, ()), *(("role",) if role else ())}
    for field in written.entries.keys() - known:
        problem = f"{word} has no field {field}"
        why = "A field that nothing reads would look as if it took effect"
        todo = f"Remove it; {word} has {', '.join(sorted(known - _ALWAYS - {'role'})) or 'no fields of its own'}"
        reading.wrong((field,), Wrong("access-field", problem, why, todo))
    for field in REQUIRED[kind]:
        if field not in written.entries:
            todo = f"Add {field}" + (", or [] for clients without a group" if field == "groups" else "")
            why = "It has no default"
            reading.wrong((), Wrong("missing-field", f"{word} lacks the field {field}", why, todo))


def is_principal(text: str) -> bool:
    """``User:`` and a name, or another type that a principal builder may make; no misspelt User."""
    kind = text.partition(":")[0]
    return bool(_PRINCIPAL.fullmatch(text)) and (kind == "User" or nearest(kind, ["User"]) is None)


def is_address(text: str) -> bool:
    """An IP address, which is all that Kafka compares."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _patterns(reading: Reading, field: str) -> tuple[NamePattern, ...]:
    """Each item is a name, or ``{prefix: ...}``."""
    node = reading.node(field)
    patterns = []
    for item in node.items if isinstance(node, Sequence) else ():
        name, kind = item, PatternType.LITERAL
        if isinstance(item, YamlMapping):
            name, kind = item.entries["prefix"].value, PatternType.PREFIXED
        patterns.append(NamePattern(name.text if isinstance(name, Scalar) else "", kind))
    return tuple(patterns)


def _exact(reading: Reading) -> ExactRule:
    """A rule by resource, names and operations. Operations that a resource does not have are refused: brokers take such
    a rule, and it never decides anything."""
    resource = ResourceType(reading.value(EXACT, default="topic"))
    names = _patterns(reading, "names")
    if resource is ResourceType.CLUSTER:
        if names not in ((), (NamePattern(CLUSTER_NAME),)):
            why = f"A cluster has one resource of this kind, {CLUSTER_NAME}"
            reading.wrong(("names",), Wrong("access-field", "the resource cluster is given names", why, "Remove names"))
        names = (NamePattern(CLUSTER_NAME),)
    elif not names:
        todo = 'Add names, such as [orders, {prefix: "pay."}] or ["*"] for all'
        reading.wrong((), Wrong("missing-field", f"a rule about {resource} lacks names", "It has no default", todo))
    operations = tuple(map(Operation, reading.texts("operations")))
    for index, operation in enumerate(operations):
        if operation not in MEANT_FOR[resource] and operation is not Operation.ALL:
            problem = f"the operation {operation} does not exist on {resource}"
            todo = f"Write one of: {', '.join(sorted(MEANT_FOR[resource]))}, all"
            wrong = Wrong("bad-operation", problem, "No request asks for it, so the rule would say nothing", todo)
            reading.wrong(("operations", index), wrong)
    return ExactRule(resource, names, operations, Permission(reading.value("permission", default="allow")))


def check_access(topology: Topology, places: Places) -> Iterator[Problem]:
    """Names that are unknown, entries that contradict each other, and principals that no client can have."""
    granted_by: dict[tuple[str, AclBinding], AccessRule] = {}
    for rule in topology.access:
        subject = f"access rule {rule.number}"
        yield from unknown_clusters(places, topology.clusters, rule, subject)
        for index, name in enumerate(rule.flows):
            where = places.of(rule, "flows", index)
            yield from unknown_name(places, topology.flows, name, subject, where, "flows")
        if rule.role is AccessRole.MIRROR and rule.absent:
            problem = f"{subject}: the role mirror is declared absent"
            why = "What it comes to depends on live topics"
            yield Problem("access-field", places.of(rule, "absent"), problem, why, "Name the rules by resource")
        if not rule.absent:
            for cluster in rule.clusters:
                granted_by |= {(cluster, acl): rule for acl in expand_stable(rule)}

    # A binding that is declared and declared absent. One a rule is reported: its others have the same cause.
    for rule in (rule for rule in topology.access if rule.absent):
        bindings = ((cluster, acl) for cluster in rule.clusters for acl in expand_stable(rule))
        if (clash := next((binding for binding in bindings if binding in granted_by), None)) is not None:
            problem = f"access rule {rule.number} removes: {clash[1]}. {granted_by[clash].where} declares it"
            why, todo = "One asks for the rule, the other removes it", "Remove one of the two"
            yield Problem("access-contradiction", places.of(rule, "absent"), problem, why, todo)

    for flow in topology.flows.values():
        for name, other in flow.access.principals.items():
            if ":" not in name or ":" not in other:
                bad = name if ":" not in name else other
                where = places.of(flow, "access", "principals", name)
                problem = f'flow {flow.name}: access.principals has "{bad}"'
                why = "Kafka compares principals letter by letter, so no rule would be about it"
                yield Problem("bad-principal", where, problem, why, f"Write User:{bad}")


# `quotas`: which keys fit which entity, and no entity twice on one cluster.

FIELDS = {"user": "user", "client_id": "client-id", "ip": "ip"}
"""The YAML's fields -> Kafka's words for the parts of an entity."""


def build_quota(reading: Reading) -> Quota:
    """``reading.name`` is the entry's number, from 1."""
    nodes = {kind: node for field, kind in FIELDS.items() if (node := reading.node(field)) is not None}
    # ``{default: true}``, a mapping, is the default entity of its kind, which has no name.
    parts = {kind: None if isinstance(node, YamlMapping) else str(node.data) for kind, node in nodes.items()}
    _check_parts(reading, parts)

    # Byte rates may have a unit; all other limits are plain numbers.
    written = {key: node.data for key in QUOTA_KEYS if (node := reading.node(key)) is not None}
    limits: dict[str, float] = {}
    for key, data in written.items():
        if isinstance(data, int | float):
            limits[key] = float(data)
            continue
        try:
            if not (size := size_bytes(str(data))):
                raise ValueError("write a size above 0, or absent or remove for the end of a limit")
            limits[key] = float(size)
        except ValueError as error:
            problem, why = f'{key} is "{data}"', "Kafka expects bytes per second here"
            reading.wrong((key,), Wrong("bad-size", problem, why, sentence(error)))

    # An entry whose parts contradict each other is refused here: which of them counts would be a guess.
    remove = reading.texts("remove")
    absent = reading.value("absent", default=False)
    fitting = (CONNECTION_RATE,) if "ip" in parts else CLIENT_QUOTAS
    for path, key in [*(((name,), name) for name in limits), *((("remove", n), name) for n, name in enumerate(remove))]:
        if key not in fitting and parts:
            problem = f"{key} does not fit {entity(parts)}"
            why = "Kafka limits connections by address, and everything else by user and client id"
            reading.wrong(path, Wrong("quota-key", problem, why, f"It has {', '.join(fitting)}"))
    for index, key in enumerate(remove):
        if key in limits:
            reading.wrong(("remove", index), _both(f"{key} is set and removed"))
    if absent and (written or remove):
        reading.wrong(("absent",), _both("it is absent and has limits"))
    if not (absent or written or remove):
        problem, why = "it limits nothing", "An entry without a key says nothing"
        reading.wrong((), Wrong("quota-empty", problem, why, f"Add one of {', '.join(fitting)}, or absent: true"))
    return Quota(
        number=int(reading.name),
        clusters=reading.texts("clusters"),
        entity=entity(parts),
        limits=MappingProxyType(limits),
        remove=remove,
        absent=absent,
        where=reading.place.where,
    )


def _both(subject: str) -> Wrong:
    return Wrong("quota-contradiction", subject, "One asks for a limit, the other removes it", "Remove one of the two")


def _check_parts(reading: Reading, parts: dict[str, str | None]) -> None:
    """Kafka has quotas for a user, a client id, both, or an IP address, and for no other combination."""
    todo = "Write user, client_id, both of them, or ip; {default: true} is everyone without a quota of their own"
    if not parts:
        why = "Kafka keeps a quota for a user, a client id, both, or an IP address"
        reading.wrong((), Wrong("quota-entity", "it names no entity", why, todo))
    if "ip" in parts and len(parts) > 1:
        problem = "ip is combined with user or client_id"
        why = "Kafka has no such quota: an address is limited by itself"
        reading.wrong(("ip",), Wrong("quota-entity", problem, why, "Make two entries of it"))
    address = parts.get("ip")
    if address is not None and not is_address(address):
        problem, why = f'ip is "{address}"', "Kafka counts connections by address, never by name or network"
        reading.wrong(("ip",), Wrong("quota-entity", problem, why, "Write an IP address, or {default: true}"))
    user = parts.get("user")
    if user is not None and user.startswith("User:"):
        problem, why = f'user is "{user}"', "A quota is for the name alone, so this one would limit no client"
        reading.wrong(("user",), Wrong("quota-entity", problem, why, f"Write {user.removeprefix('User:')}"))


def check_quotas(topology: Topology, places: Places) -> Iterator[Problem]:
    """Two entries for one entity on one cluster are refused: which of them counts would depend on their order."""
    first: dict[tuple[str, QuotaEntity], Quota] = {}
    for quota in topology.quotas:
        yield from unknown_clusters(places, topology.clusters, quota, f"quota {quota.number}")
        for index, name in enumerate(quota.clusters):
            if (other := first.setdefault((name, quota.entity), quota)) is not quota:
                problem = f"quota {quota.number} is for {quota.entity} on {name}, as the one at {other.where}"
                why, where = "It would be unclear which of the two counts", places.of(quota, "clusters", index)
                yield Problem("duplicate-quota", where, problem, why, "Put them together")


# `users`: SCRAM users, each once on a cluster. A password is a reference, and no message ever holds it.

_ONLY_DESIRED = ("version", "mechanisms", "iterations", "password", "take_over")
_MIXED = re.compile(r"\$\{(env|file):")


def user_secret(key: str, node: Node) -> str | Wrong:
    """Checks the secret in a user's entry, its ``password``."""
    if key != "password" or not isinstance(node, Scalar) or is_reference(node.text):
        return ""
    if _MIXED.search(node.text):
        problem, why = "password mixes a reference with other text", "Part of the secret would be in git"
        return Wrong("secret-in-git", problem, why, "Let one reference be the whole value")
    problem, why = "password holds a literal value", "Anyone who can read the repository could log in as this user"
    todo = "Write ${env:NAME} or ${file:PATH}, and take another password if this one was ever committed"
    return Wrong("secret-in-git", problem, why, todo)


def build_user(reading: Reading) -> ScramUser:
    """``reading.name`` is the entry's number, from 1."""
    name = str(reading.value("name", default=""))
    absent = reading.value("absent", default=False)
    version = reading.value("version", default=AS_FOUND)
    password = str(reading.value("password", default=""))
    if name.startswith("User:"):
        problem, why = f'name is "{name}"', "A user logs in with the name alone, so this one would be another user"
        reading.wrong(("name",), Wrong("user-name", problem, why, f"Write {name.removeprefix('User:')}"))
    if absent:
        for field in _ONLY_DESIRED:
            if reading.node(field) is not None:
                problem, why = f"it is absent and has {field}", "One asks for the user, the other removes it"
                reading.wrong((field,), Wrong("user-field", problem, why, "Remove one of the two"))
    else:
        # Both are noted where both are missing: the author sees in one go what an entry needs.
        if reading.node("version") is None:
            problem, why = "it has no version", "Passwords are never compared: only the version announces a new one"
            todo = "Write version: 1 and raise it with each new password, or absent: true"
            reading.wrong((), Wrong("user-field", problem, why, todo))
        if reading.node("password") is None:
            if version > AS_FOUND:
                problem, why = f"it has version {version} and no password", "There is nothing to set for this version"
                reading.wrong((), Wrong("user-field", problem, why, "Write password: ${env:NAME} or ${file:PATH}"))
        else:
            reading.mapping(each=user_secret)
    return ScramUser(
        number=int(reading.name),
        clusters=reading.texts("clusters"),
        name=name,
        version=version,
        mechanisms=tuple(Mechanism(text) for text in reading.texts("mechanisms", default=(Mechanism.SHA_512,))),
        iterations=reading.value("iterations", default=None),
        password=password,
        take_over=reading.value("take_over", default=False),
        absent=absent,
        where=reading.place.where,
    )


def check_users(topology: Topology, places: Places) -> Iterator[Problem]:
    # One user may have one password on several clusters; two users with one could each log in as the other.
    """No two users share a password, and no user is declared twice on a cluster."""
    by_reference = grouped((user.password, user) for user in topology.users if user.password and not user.absent)
    for reference, users in by_reference.items():
        first, *others = users
        setting = any(user.version != AS_FOUND for user in users)  # otherwise no apply sets a password
        for user in others:
            if setting and user.name != first.name:
                problem = f"{user_words(user.name)} has the password {reference}, as {user_words(first.name)} at"
                why = "Each of the two could log in as the other"
                todo = "Give each user a variable or file of its own"
                where = places.of(user, "password")
                yield Problem("shared-password", where, f"{problem} {first.where}", why, todo)

    declared: dict[tuple[str, str], ScramUser] = {}
    for user in topology.users:
        yield from unknown_clusters(places, topology.clusters, user, user_words(user.name))
        for index, name in enumerate(user.clusters):
            if (other := declared.setdefault((name, user.name), user)) is not user:
                problem = f"{user_words(user.name)} is declared again on {name}, as at {other.where}"
                why, where = "It would be unclear which of the two counts", places.of(user, "clusters", index)
                yield Problem("duplicate-user", where, problem, why, "Remove one")
