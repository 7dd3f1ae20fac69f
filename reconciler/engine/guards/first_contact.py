"""Guard on first contact: a cluster this environment has never changed is not changed until confirmed.

A tunnel or a wrong address shows a cluster full of topics under a familiar alias; nothing else tells it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reconciler.model.changes import About, Change, MirrorChange, Reason, Refused, StopMirror, Subject, Why
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.model.live import LiveCluster, LiveState
from reconciler.model.state.last_apply import Applied
from reconciler.text import counted, first_of

SHOWN = 3


def first_contacts(
    topology: Topology, live: LiveState, applied: Applied | None, changes: Iterable[Change]
) -> Iterator[Refused]:
    """One refusal for each cluster that ``changes`` would touch and nobody has met."""
    touched = {name for change in changes for name in clusters_of(change, topology)}
    for name in sorted(touched & topology.clusters.keys()):
        cluster = live.known(name)
        if cluster is not None and (description := unmet(topology.clusters[name], cluster, applied)):
            yield Refused(
                Subject(About.CLUSTER, name), Reason(Why.FIRST_CONTACT, description), todo(name, cluster.cluster_id)
            )


def unmet(declared: Cluster, cluster: LiveCluster, applied: Applied | None) -> str:
    """Why the cluster that answered must not be changed yet, or empty."""
    before = applied.clusters.get(declared.name) if applied else None
    if declared.cluster_id is not None or before == cluster.cluster_id:
        return ""
    held = sorted(name for name, topic in cluster.topics.items() if not (topic.internal or name.startswith("__")))
    there = f"it holds {counted(len(held), 'topic')} ({first_of(held, SHOWN)})" if held else "it hides its topics"
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
    """Clusters a change writes to. A mirror job that starts writes to the targets of its flows."""
    if not isinstance(change, MirrorChange):
        return frozenset({change.cluster})
    mirror = topology.mirrors.get(change.mirror)
    if isinstance(change, StopMirror) or mirror is None:
        return frozenset()
    return frozenset(flow.target for flow in topology.flows_of(mirror))
