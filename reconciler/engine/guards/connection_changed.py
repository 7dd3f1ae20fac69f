"""Guard on changed connections: beside a base, no credentials go to a cluster that is reached otherwise than there.

An edit chooses the address and the settings beside it. Whoever answers there would be shown the credentials of whoever
plans, before the cluster's id can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from reconciler.kafka.address import url_address
from reconciler.kafka.client.auth.supported_settings import DECIDES, TOKEN_ENDPOINT
from reconciler.model.environment.topology import REFERS, Cluster, Principal, Topology
from reconciler.replication.allowed import Allowed
from reconciler.replication.secret_references import REFERENCE
from reconciler.text import first_of

_SHOWN, _LONGEST = 4, 80
_WEAK = {
    "security.protocol": ("plaintext", "sasl_plaintext"),
    "enable.ssl.certificate.verification": ("false",),
    "ssl.endpoint.identification.algorithm": ("none", ""),
}
"""Settings and values that show credentials to others than the address names."""


def held_to_base(topology: Topology, base: Mapping[str, Cluster], listed: Allowed) -> Topology:
    """``topology``, its clusters marked that are not to be contacted. ``listed``: addresses and references that
    somebody has allowed outside of the edit; to them credentials may go."""
    clusters = {
        name: replace(cluster, not_contacted=first_of(list(_changes(cluster, base.get(name), listed)), _SHOWN))
        for name, cluster in topology.clusters.items()
    }
    return replace(topology, clusters=MappingProxyType(clusters))


def _changes(now: Cluster, before: Cluster | None, listed: Allowed) -> Iterator[str]:
    """In words, with both values; nothing where no credential would be sent."""
    mine = now.client_for(Principal.PLAN)
    theirs = before.client_for(Principal.PLAN) if before is not None else {}
    if mine.get("security.protocol", "plaintext").lower() == "plaintext" and not any(map(_reference, mine.values())):
        return
    known = before.bootstrap_servers if before is not None else ()
    for server in now.bootstrap_servers:
        if server not in known and not listed.lists("host", server):
            yield f"bootstrap_servers has {server}, had {', '.join(known) or 'no such cluster'}"
    for name in sorted(mine.keys() | theirs.keys()):
        value, was = mine.get(name), theirs.get(name)
        decides = name.startswith(DECIDES) or _reference(value or "") is not None
        if value == was or not decides or _listed(name, value, listed):
            continue
        if before is None and not _reference(value or "") and (value or "").lower() not in _WEAK.get(name, ()):
            continue  # of a new cluster: the addresses and references decide
        if _reference(value or "") is not None:
            yield f"{name} {REFERS} {_short(value)}, was {_short(was)}"
        else:
            yield f"{name} is {_short(value)}, was {_short(was)}"


def _reference(value: str) -> tuple[str, str] | None:
    match = REFERENCE.search(value)
    return None if match is None else (match[1], match[2])


def _listed(name: str, value: str | None, listed: Allowed) -> bool:
    if value is not None and (reference := _reference(value)) is not None:
        return listed.lists(*reference)
    if value is None or name != TOKEN_ENDPOINT or not value.startswith("https://"):
        return False
    try:
        return listed.lists("host", str(url_address(value)))
    except ValueError:
        return False


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
