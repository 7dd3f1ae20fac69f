"""Findings -> one ordered plan over all clusters, frozen together with the ground it stands on.

The order itself is ``ordering``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reconciler.authorizing.outlook import judged, outlook
from reconciler.changes import (
    Reason,
    ReassignReplicas,
    Refused,
    TopicChange,
    touched,
)
from reconciler.diffing import Previous, diff
from reconciler.diffing.findings import Findings
from reconciler.errors import Moved
from reconciler.live import LiveCluster, LiveState
from reconciler.observations import observe_again, shown, subjects, topology_digest
from reconciler.ordering import after_replicas, place_of, planned
from reconciler.placing.loads import loads_of
from reconciler.plans import NO_EDITION, Basis, Edition, Plan, SeenCluster
from reconciler.rollout import course_of, in_waves
from reconciler.routing import Routing
from reconciler.topology import Topology


def plan(
    topology: Topology,
    live: LiveState,
    previous: Previous | None = None,
    edition: Edition = NO_EDITION,
    prune: bool = False,
) -> Plan:
    """``previous``: mirror -> the hand-over its running job was started with; lets the plan name fields and topics.
    ``prune``: unmanaged topics that a prune list owns are deleted.
    """
    found, routing = diff(topology, live, previous, prune)
    later = after_replicas(found.changes)
    ordered = sorted(found.changes, key=lambda change: place_of(change, later))
    access = outlook(topology, live, routing.routes, ordered)
    rests_on = sorted({*subjects(ordered, routing.routes), *access.rests_on})
    basis = Basis(
        environment=topology.environment,
        topology_digest=edition.digest or topology_digest(topology),
        revision=edition.revision,
        dirty=edition.dirty,
        clusters=_seen(topology, live),
        observed=observe_again(rests_on, live),
    )
    return Plan(
        basis=basis,
        changes=in_waves(judged(planned(ordered, later, routing, topology, live), access), topology, routing.routes),
        refused=(*found.refused, *access.refused),
        unknown=found.unknown,
        unmanaged=found.unmanaged,
        unmanaged_acls=found.unmanaged_acls,
        ignored=found.ignored,
        notes=(*found.notes, *_undisturbed(topology, found, routing), *access.notes),
        unchanged=_unchanged(found),
        loads=loads_of(ordered, live),
        shifts=access.shifts,
        rollout=course_of(topology),
    )


def basis_now(planned: Plan, topology: Topology, live: LiveState) -> Basis:
    """What ``planned`` rests on, as it is now: the same subjects, nothing else."""
    return replace(
        planned.basis,
        environment=topology.environment,
        topology_digest=topology_digest(topology),
        clusters=_seen(topology, live),
        observed=observe_again((one.subject for one in planned.basis.observed), live),
    )


def still_true(planned: Plan, now: Basis) -> tuple[Moved, ...]:
    """What moved since the plan was made; empty when it may be applied. ``now`` comes from ``basis_now``."""
    before = planned.basis
    moved: list[Moved] = []
    if before.environment != now.environment:
        return (Moved("environment", before.environment, now.environment),)
    if before.topology_digest != now.topology_digest:
        moved.append(
            Moved("topology files", f"digest {before.topology_digest[:16]}", f"digest {now.topology_digest[:16]}")
        )
    current = {one.subject: one for one in now.observed}
    for one in before.observed:
        found = current.get(one.subject)
        if found is None:
            moved.append(Moved(one.subject, shown(one.text), "not looked at"))
        elif found.fingerprint != one.fingerprint:
            moved.append(Moved(one.subject, shown(one.text), shown(found.text)))
    return tuple(moved)


def with_broker_refusals(planned: Plan, refusals: Mapping[str, str], unasked: Mapping[str, str]) -> Plan:
    """Adds what brokers answered to validate-only requests (``ClusterReader.validate``): subject -> refusal.

    ``unasked``: cluster -> why its brokers could not be asked; that is noted, and blocks nothing.
    """
    refused = tuple(
        Refused(
            subject,
            Reason("broker-refuses", f"the brokers refuse the change of {subject}: {answer}"),
            "Correct what it names; this is the brokers' own check, nothing was changed",
        )
        for subject, answer in sorted(refusals.items())
    )
    notes = tuple(f"not checked beforehand by the brokers of {name}: {why}" for name, why in sorted(unasked.items()))
    return replace(planned, refused=planned.refused + refused, notes=planned.notes + notes)


def _seen(topology: Topology, live: LiveState) -> tuple[SeenCluster, ...]:
    found: list[SeenCluster] = []
    for name in sorted(topology.clusters):
        cluster = live.clusters.get(name)
        if isinstance(cluster, LiveCluster):
            rules = len(cluster.acls) if isinstance(cluster.acls, frozenset) else None
            brokers, topics = len(cluster.brokers), len(cluster.topics)
            quotas = len(cluster.quotas) if isinstance(cluster.quotas, Mapping) else None
            seen = SeenCluster(name, cluster.cluster_id, brokers, topics, rules, cluster.sees_all, quotas=quotas)
            found.append(replace(seen, users=_users(cluster)))
        else:
            found.append(SeenCluster(name, None, 0, 0))
    return tuple(found)


def _users(cluster: LiveCluster) -> int | None:
    there = cluster.users.credentials if cluster.users is not None else None
    return len(there) if isinstance(there, Mapping) else None


def _undisturbed(topology: Topology, found: Findings, routing: Routing) -> list[str]:
    """What changes for a running job without a restart."""
    changed = {change.ref for change in found.changes if isinstance(change, TopicChange | ReassignReplicas)}
    kept = {one.subject for one in found.settled if one.subject.startswith("mirror ")}
    notes: list[str] = []
    for name, mirror in topology.mirrors.items():
        remotes = [r.remote for r in routing.routes if r.flow in mirror.flows and r.remote in changed]
        if f"mirror {name}" in kept and remotes:
            count = f"{len(remotes)} of its topics change" if len(remotes) > 1 else "one of its topics changes"
            notes.append(f"mirror {name} keeps running: {count}, its definition does not")
    return notes


def _unchanged(found: Findings) -> int:
    moved = {touched(change) for change in found.changes}
    moved |= {one.subject.split(" ")[0] for one in found.refused}
    same = {one.subject for one in found.settled if not one.subject.startswith("cluster ")}
    return len(same.union(found.as_wished) - moved)
