"""Guard on changed connections: a plan with a base sends no credentials to a cluster with another connection than in
the base.

An edit can change the address and its settings. The machine at that address would receive the credentials of the
planning user before the cluster's id can be compared.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from reconciler.kafka.address import HostPort, host_port, url_address
from reconciler.kafka.client.auth.supported_settings import DECIDES, TOKEN_ENDPOINT
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.replication.allowed import Allowed, word_for
from reconciler.replication.secret_references import REFERENCE, is_from_outside
from reconciler.text import first_of

_SHOWN, _LONGEST = 4, 80
_WEAK = {
    "security.protocol": ("plaintext", "sasl_plaintext"),
    "enable.ssl.certificate.verification": ("false",),
    "ssl.endpoint.identification.algorithm": ("none", ""),
}
"""Settings and values that send credentials to other machines than the bootstrap servers."""


@dataclass(frozen=True, slots=True)
class _Change:
    """``words``: with both values. ``listable``: words of RECONCILER_ALLOW that together allow the change; empty if
    none can."""

    words: str
    listable: tuple[str, ...] = ()


def held_to_base(topology: Topology, base: Mapping[str, Cluster], listed: Allowed) -> Topology:
    """``topology`` with clusters marked that must not be contacted. ``listed``: addresses and references that this
    machine allows, independently of the edit."""
    clusters = {}
    for name, cluster in topology.clusters.items():
        changes = list(_changes(cluster, base.get(name), listed))
        words = first_of([change.words for change in changes], _SHOWN)
        listable = dict.fromkeys(word for change in changes for word in change.listable)
        every = all(change.listable for change in changes)  # allowing only a part would still block the connection
        clusters[name] = replace(cluster, not_contacted=words, listable=tuple(listable) if every else ())
    return replace(topology, clusters=MappingProxyType(clusters))


def _changes(now: Cluster, before: Cluster | None, listed: Allowed) -> Iterator[_Change]:
    """Changes of a connection; empty if it sends no credentials."""
    mine = now.client_for(Principal.PLAN)
    theirs = before.client_for(Principal.PLAN) if before is not None else {}
    plaintext = mine.get("security.protocol", "plaintext").lower() == "plaintext"
    if plaintext and not any(map(REFERENCE.search, mine.values())):
        return
    known = before.bootstrap_servers if before is not None else ()
    for server in now.bootstrap_servers:
        if server not in known and not listed.lists("host", server):
            words = f"bootstrap_servers has {server}, had {', '.join(known) or 'no such cluster'}"
            yield _Change(words, _words(_host(host_port, server)))
    for name in sorted(mine.keys() | theirs.keys()):
        value, was = mine.get(name), theirs.get(name)
        references = REFERENCE.findall(value or "")
        if value == was or not (references or name.startswith(DECIDES)):
            continue
        # Words that RECONCILER_ALLOW must contain to allow the value, each with its kind; empty if none can.
        to_list: tuple[tuple[str, str], ...] = ()
        if references:
            to_list = tuple(references) if is_from_outside(value or "") else ()
        elif name == TOKEN_ENDPOINT and (value or "").startswith("https://"):
            to_list = _host(url_address, value or "")
        if to_list and all(listed.lists(kind, named) for kind, named in to_list):
            continue
        if before is None and not references and (value or "").lower() not in _WEAK.get(name, ()):
            continue  # for a new cluster, addresses and references decide
        says = "refers to" if references else "is"
        yield _Change(f"{name} {says} {_short(value)}, was {_short(was)}", _words(to_list))


def _host(read: Callable[[str], HostPort], text: str) -> tuple[tuple[str, str], ...]:
    try:
        return (("host", str(read(text))),)
    except ValueError:
        return ()


def _words(to_list: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    words = tuple(word_for(kind, named) for kind, named in to_list)
    return words if all(words) else ()


def _short(value: str | None) -> str:
    if value is None:
        return "not set"
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
