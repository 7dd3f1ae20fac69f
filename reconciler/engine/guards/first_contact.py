"""Guards on first contact: a plan does not change a cluster that no apply of this environment has met until a user
confirms it, nor one that another repository changes under the same environment's name.

Through a tunnel or a wrong address, another cluster full of topics answers under a familiar alias; only its id differs.
Two repositories with the same environment name would share one lock and one record.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from reconciler.kafka.address import HostPort, host_port, url_address
from reconciler.kafka.client.auth.supported_settings import DECIDES, TOKEN_ENDPOINT
from reconciler.model.changes import About, Change, MirrorChange, Reason, Refused, StopMirror, Subject, Why
from reconciler.model.environment.topology import Cluster, Principal, Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.state.last_apply import Applied
from reconciler.model.state.lock import lock_cluster
from reconciler.replication.allowed import Allowed, word_for
from reconciler.replication.names import is_reserved
from reconciler.replication.secret_references import REFERENCE, is_from_outside
from reconciler.text import BRIEF, counted, first_of, moment


def first_contacts(
    topology: Topology, live: LiveState, applied: Applied | None, changes: Iterable[Change]
) -> Iterator[Refused]:
    """One refusal for each cluster that ``changes`` would touch and no apply has confirmed."""
    touched = {name for change in changes for name in clusters_of(change, topology)}
    for name in sorted(touched & topology.clusters.keys()):
        cluster = live.known(name)
        if cluster is not None and (description := unmet(topology.clusters[name], cluster, applied)):
            yield Refused(
                Subject(About.CLUSTER, name), Reason(Why.FIRST_CONTACT, description), todo(name, cluster.cluster_id)
            )


def unmet(declared: Cluster, cluster: LiveCluster, applied: Applied | None) -> str:
    """Why the answering cluster must not be changed yet, or empty."""
    before = applied.clusters.get(declared.name) if applied else None
    if declared.cluster_id is not None or before == cluster.cluster_id:
        return ""
    held = sorted(name for name, topic in cluster.topics.items() if not (topic.internal or is_reserved(name)))
    there = f"it holds {counted(len(held), 'topic')} ({first_of(held, BRIEF)})" if held else "it hides its topics"
    if before is not None:
        there = "it holds no topic" if cluster.sees_all and not held else there
        return f"cluster {declared.name} was {before} until now, and {cluster.cluster_id} answers: {there}"
    if cluster.sees_all and not held:
        return ""
    return (
        f"cluster {declared.name} has never been changed from this environment: {cluster.cluster_id} answers, {there}"
    )


def todo(name: str, cluster_id: str) -> str:
    return (
        f"If it is the right one, declare it: clusters.{name}.cluster_id: {cluster_id}; or accept once with"
        " apply --first-contact. If not, look for a tunnel or a wrong address"
    )


def clusters_of(change: Change, topology: Topology) -> frozenset[str]:
    """Clusters that a change writes to; for a starting mirror job, the targets of its flows."""
    if not isinstance(change, MirrorChange):
        return frozenset({change.cluster})
    mirror = topology.mirrors.get(change.mirror)
    if isinstance(change, StopMirror) or mirror is None:
        return frozenset()
    return frozenset(flow.target for flow in topology.flows_of(mirror))


def other_repository(applied: Applied | None, origin: str) -> Iterator[Refused]:
    """``origin``: the repository of this folder. Empty: unknown to git, and nothing is refused."""
    if applied is None or not applied.origin or not origin or applied.origin == origin:
        return
    problem = (
        f"environment {applied.environment} was applied last by {applied.who} from {applied.origin}, and this is"
        f" {origin}: with one name they share lock and records, and each takes what the other made for its own"
    )
    todo = (
        "Give one of them another name, which is that of its folder. If the environment moved here, accept once with"
        " apply --first-contact"
    )
    yield Refused(Subject(About.ENVIRONMENT, name=applied.environment), Reason(Why.OTHER_REPOSITORY, problem), todo)


def newer_apply(applied: Applied, revision: str) -> str:
    return (
        f"the last apply, by {applied.who} at {moment(applied.at_ms)}, was of commit {applied.commit[:12]}, which"
        f" this checkout at {revision[:12]} lacks: this plan may take back what that commit brought. Pull or merge it,"
        " then plan again"
    )


def forgotten(topology: Topology, live: LiveState, applied: Applied | None) -> Iterator[str]:
    """Signs of earlier applies without their record, so that the met clusters are unknown."""
    if applied is not None:
        return
    there: set[str] = set()

    # Clusters with ownership records of this environment.
    for name in live.clusters:
        if (cluster := live.known(name)) is not None:
            owned = cluster.access.owned if cluster.access else {}
            recorded = cluster.users.recorded if cluster.users else {}
            if any(isinstance(part, Mapping) and part for part in (owned, cluster.quota_keys, recorded)):
                there.add(name)

    # Clusters with status records of this environment's jobs.
    for mirror in topology.mirrors.values():
        seen = live.mirrors.get(mirror.name)
        if isinstance(seen, LiveMirror) and seen.updated_at_ms is not None:
            there.add(topology.status_cluster(mirror))

    place = lock_cluster(topology).name
    undeclared = ", ".join(name for name in sorted(there - {place}) if topology.clusters[name].cluster_id is None)
    if undeclared:
        yield (
            f"it is not known which clusters this environment changed: cluster {place}, which keeps the record, has"
            f" none, although something of this environment is on {undeclared}. If {place} is a new cluster, check"
            f" that the others are the right ones, and declare their cluster_id: then no record is needed"
        )


# Guard on changed connections: a plan with a base sends no credentials to a cluster with another connection than in the
# base.
#
# An edit can change the address and its settings. The machine at that address would receive the credentials of the
# planning user before the cluster's id can be compared.

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
