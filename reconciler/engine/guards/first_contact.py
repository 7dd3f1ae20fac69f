"""First contact: a cluster that this environment has never changed is only looked at until somebody says it is meant.

A tunnel or a wrong address shows a cluster full of topics under a familiar alias; nothing else tells it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from reconciler.applied import SANDBOX_PREFIX, Applied
from reconciler.changes import (
    AddPartitions,
    AlterConfigs,
    AlterQuota,
    AlterUser,
    Change,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    DeleteUser,
    FinishReassignment,
    Reason,
    ReassignReplicas,
    Refused,
    RestartMirror,
    StartMirror,
    StopMirror,
)
from reconciler.counts import counted
from reconciler.live import LiveCluster, LiveState
from reconciler.topology import Cluster, Topology

FIRST_CONTACT = "first-contact"
SHOWN = 3


def first_contacts(
    topology: Topology, live: LiveState, applied: Applied | None, changes: Iterable[Change]
) -> Iterator[Refused]:
    """One refusal for each cluster that ``changes`` would touch and nobody has met."""
    touched = {name for change in changes for name in clusters_of(change, topology)}
    for name in sorted(touched & topology.clusters.keys()):
        found = live.known(name)
        if found is not None and (what := unmet(topology.clusters[name], found, applied)):
            yield Refused(f"cluster {name}", Reason(FIRST_CONTACT, what), todo(name, found.cluster_id))


def unmet(wish: Cluster, found: LiveCluster, applied: Applied | None) -> str:
    """Why the cluster that answered must not be changed yet, or empty."""
    return "" if found.cluster_id.startswith(SANDBOX_PREFIX) else _never_changed(wish, found, applied)


def let_through(
    topology: Topology, live: LiveState, applied: Applied | None, changes: Iterable[Change]
) -> Iterator[str]:
    """A note for each cluster of the sandbox that would be refused anywhere else."""
    for name in sorted(
        {name for change in changes for name in clusters_of(change, topology)} & topology.clusters.keys()
    ):
        found, wish = live.known(name), topology.clusters[name]
        if found is None or not found.cluster_id.startswith(SANDBOX_PREFIX):
            continue
        if what := _never_changed(wish, found, applied):
            yield f"{what}; a cluster of `sandbox up`, so it needs no consent (any other: apply --first-contact)"


def _never_changed(wish: Cluster, found: LiveCluster, applied: Applied | None) -> str:
    before = applied.clusters.get(wish.name) if applied else None
    if wish.cluster_id is not None or before == found.cluster_id:
        return ""
    held = sorted(name for name, topic in found.topics.items() if not (topic.internal or name.startswith("__")))
    names = ", ".join(held[:SHOWN]) + (f" and {len(held) - SHOWN} more" if len(held) > SHOWN else "")
    there = f"it holds {counted(len(held), 'topic')} ({names})" if held else "it hides its topics"
    if before is not None:
        there = "it holds no topic" if found.sees_all and not held else there
        return f"cluster {wish.name} was {before} until now, and {found.cluster_id} answers: {there}"
    if found.sees_all and not held:
        return ""
    return f"cluster {wish.name} has never been changed from this environment: {found.cluster_id} answers, {there}"


def todo(name: str, cluster_id: str) -> str:
    return (
        f"If it is the right one, declare it: clusters.{name}.cluster_id: {cluster_id}; or agree once with"
        " apply --first-contact. If not, look for a tunnel or a wrong address"
    )


def clusters_of(change: Change, topology: Topology) -> frozenset[str]:
    """Clusters a change writes to. A mirror job that starts writes to the targets of its flows."""
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs() | DeleteTopic() | ReassignReplicas():
            return frozenset({change.ref.cluster})
        case CreateAcl() | DeleteAcl() | AlterQuota() | AlterUser() | DeleteUser() | FinishReassignment():
            return frozenset({change.cluster})
        case StartMirror() | RestartMirror():
            mirror = topology.mirrors.get(change.mirror)
            return frozenset(flow.target for flow in topology.flows_of(mirror)) if mirror else frozenset()
        case StopMirror():
            return frozenset()
        case _:
            assert_never(change)
