"""``quotas``: which keys fit which entity, and no entity twice on one cluster."""

from collections.abc import Iterator
from types import MappingProxyType

from reconciler.environment.declarations.acls import is_address
from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong
from reconciler.environment.yaml.locations import Places, unknown_clusters
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import CLIENT_QUOTAS, CONNECTION_RATE, QUOTA_KEYS, Quota, QuotaEntity, entity
from reconciler.text import sentence, size_bytes

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
