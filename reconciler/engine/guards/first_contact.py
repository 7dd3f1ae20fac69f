"""Guards on first contact: a plan does not change a cluster that no apply of this environment has met until a user
confirms it, nor one that another repository changes under the same environment's name.

Through a tunnel or a wrong address, another cluster full of topics answers under a familiar alias; only its id differs.
Two repositories with the same environment name would share one lock and one record.
"""

from collections.abc import Iterable, Iterator, Mapping

from reconciler.model.changes import About, Change, MirrorChange, Reason, Refused, StopMirror, Subject, Why
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.model.live import LiveCluster, LiveMirror, LiveState
from reconciler.model.state.last_apply import Applied
from reconciler.model.state.lock import lock_cluster
from reconciler.replication.names import is_reserved
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
