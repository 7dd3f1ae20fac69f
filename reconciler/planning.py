"""Findings -> one ordered plan over all clusters, frozen together with the ground it stands on.

The order: target topics, deepest hop first; then source topics; then mirror jobs; then removals. So nothing can flow
before the place it flows to exists, and nothing is removed that a job of this plan still uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from reconciler.access.ordering import AccessLinks, access_links, used_by_a_job
from reconciler.acls import Permission
from reconciler.changes import (
    AddPartitions,
    AlterConfigs,
    Change,
    CreateAcl,
    CreateTopic,
    DeleteAcl,
    DeleteTopic,
    Reason,
    Refused,
    RestartMirror,
    Role,
    Stage,
    StartMirror,
    StopMirror,
    TopicChange,
)
from reconciler.diffing import Previous, diff
from reconciler.diffing.findings import Findings
from reconciler.errors import Moved
from reconciler.internal_topics import written_by
from reconciler.live import LiveCluster, LiveState
from reconciler.observations import observe_again, subjects, topology_digest
from reconciler.plans import Basis, Plan, Planned, SeenCluster
from reconciler.risks import assess
from reconciler.routing import Routing
from reconciler.topology import Mirror, TopicRef, Topology
from replication.names import STATUS_TOPIC

_STAGES = tuple(Stage)
_KINDS = (
    CreateTopic,
    AddPartitions,
    AlterConfigs,
    CreateAcl,
    StopMirror,
    RestartMirror,
    StartMirror,
    DeleteTopic,
    DeleteAcl,
)


def plan(
    topology: Topology,
    live: LiveState,
    previous: Previous | None = None,
    revision: str = "",
    dirty: bool = False,
    prune: bool = False,
) -> Plan:
    """``previous``: mirror -> the hand-over its running job was started with; lets the plan name fields and topics.
    ``prune``: unmanaged topics that a prune list owns are deleted.
    """
    found, routing = diff(topology, live, previous, prune)
    ordered = sorted(found.changes, key=_place)
    basis = Basis(
        environment=topology.environment,
        topology_digest=topology_digest(topology),
        revision=revision,
        dirty=dirty,
        clusters=_seen(topology, live),
        observed=observe_again(subjects(ordered, routing.routes), live),
    )
    return Plan(
        basis=basis,
        changes=tuple(_planned(ordered, routing, topology, live)),
        refused=found.refused,
        unknown=found.unknown,
        unmanaged=found.unmanaged,
        unmanaged_acls=found.unmanaged_acls,
        ignored=found.ignored,
        notes=(*found.notes, *_undisturbed(topology, found, routing)),
        unchanged=_unchanged(found),
    )


def change_id(change: Change) -> str:
    """Stable over plans: what is done to what."""
    match change:
        case CreateTopic():
            return f"create:{change.ref}"
        case AddPartitions():
            return f"partitions:{change.ref}"
        case AlterConfigs():
            return f"configs:{change.ref}"
        case StartMirror():
            return f"start:{change.mirror}"
        case RestartMirror():
            return f"restart:{change.mirror}"
        case StopMirror():
            return f"stop:{change.mirror}"
        case DeleteTopic():
            return f"delete:{change.ref}"
        case CreateAcl():
            return f"create-acl:{change.cluster}: {change.acl}"
        case DeleteAcl():
            return f"delete-acl:{change.cluster}: {change.acl}"
        case _:
            assert_never(change)


def stage_of(change: Change) -> Stage:
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs():
            return Stage.SOURCE_TOPICS if change.role is Role.DECLARED and change.depth == 0 else Stage.TARGET_TOPICS
        case StartMirror() | RestartMirror() | StopMirror():
            return Stage.MIRROR
        case CreateAcl():
            return Stage.ACCESS if change.acl.permission is Permission.ALLOW else Stage.DENIALS
        case DeleteTopic() | DeleteAcl():
            return Stage.REMOVALS
        case _:
            assert_never(change)


def basis_now(planned: Plan, topology: Topology, live: LiveState) -> Basis:
    """What ``planned`` rests on, as it is now: the same subjects, nothing else."""
    return replace(
        planned.basis,
        topology_digest=topology_digest(topology),
        clusters=_seen(topology, live),
        observed=observe_again((one.subject for one in planned.basis.observed), live),
    )


def still_true(planned: Plan, now: Basis) -> tuple[Moved, ...]:
    """What moved since the plan was made; empty when it may be applied. ``now`` comes from ``basis_now``."""
    before = planned.basis
    moved: list[Moved] = []
    if before.environment != now.environment:
        moved.append(Moved("environment", before.environment, now.environment))
    if before.topology_digest != now.topology_digest:
        moved.append(
            Moved("topology files", f"digest {before.topology_digest[:16]}", f"digest {now.topology_digest[:16]}")
        )
    current = {one.subject: one for one in now.observed}
    for one in before.observed:
        found = current.get(one.subject)
        if found is None:
            moved.append(Moved(one.subject, one.text, "not looked at"))
        elif found.fingerprint != one.fingerprint:
            moved.append(Moved(one.subject, one.text, found.text))
    return tuple(moved)


def with_broker_refusals(planned: Plan, refusals: Mapping[str, str]) -> Plan:
    """Adds what brokers answered to validate-only requests (``ClusterReader.validate``): str(ref) -> refusal."""
    refused = tuple(
        Refused(
            subject,
            Reason("broker-refuses", f"the brokers refuse the change of {subject}: {answer}"),
            "Correct what it names; this is the brokers' own check, nothing was changed",
        )
        for subject, answer in sorted(refusals.items())
    )
    return replace(planned, refused=planned.refused + refused)


def _place(change: Change) -> tuple[int, int, str, int, str]:
    kind = _KINDS.index(type(change))
    stage = _STAGES.index(stage_of(change))
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs():
            hop = max(change.depth, 1)  # internal topics go with the first hop
            return stage, -hop, change.ref.cluster, kind, change.ref.name
        case StartMirror() | RestartMirror() | StopMirror():
            return stage, 0, "", kind, change.mirror
        case DeleteTopic():
            return stage, 0, change.ref.cluster, kind, change.ref.name
        case CreateAcl() | DeleteAcl():
            return stage, isinstance(change, DeleteAcl), change.cluster, kind, f"{change.grant.title} {change.acl}"
        case _:
            assert_never(change)


@dataclass(frozen=True, slots=True)
class _Links:
    """What later changes may have to wait for. ``remotes``: source topic -> its remote topics."""

    made: Mapping[TopicRef, tuple[str, ...]]
    grown: Mapping[TopicRef, str]
    remotes: Mapping[TopicRef, tuple[TopicRef, ...]]
    places: Mapping[str, tuple[TopicRef, ...]]
    jobs: tuple[str, ...]
    access: AccessLinks
    rights: Mapping[str, tuple[str, ...]]


def _links(ordered: list[Change], routing: Routing, topology: Topology) -> _Links:
    made: dict[TopicRef, tuple[str, ...]] = {}
    grown: dict[TopicRef, str] = {}
    remotes: dict[TopicRef, tuple[TopicRef, ...]] = {}
    for change in ordered:
        if isinstance(change, CreateTopic | AddPartitions):
            made[change.ref] = (*made.get(change.ref, ()), change_id(change))
        if isinstance(change, AddPartitions):
            grown[change.ref] = change_id(change)
    for route in routing.routes:
        if route.two_way:
            continue  # each would wait for the other
        remotes[route.source] = (*remotes.get(route.source, ()), route.remote)
    places = {name: tuple(sorted(_written(mirror, routing, topology))) for name, mirror in topology.mirrors.items()}
    jobs = tuple(change_id(change) for change in ordered if isinstance(change, RestartMirror | StopMirror))
    access = access_links({change_id(change): change for change in ordered}, topology)
    rights = {name: access.before_job(mirror, topology) for name, mirror in topology.mirrors.items()}
    return _Links(made, grown, remotes, places, jobs, access, rights)


def _written(mirror: Mirror, routing: Routing, topology: Topology) -> set[TopicRef]:
    remotes = {route.remote for route in routing.routes if route.flow in mirror.flows}
    flows = [topology.flows[name] for name in mirror.flows]
    internal = {topic.ref for flow in flows for topic in written_by(flow)}
    return remotes | internal | ({TopicRef(topology.status_cluster(mirror), STATUS_TOPIC)} if flows else set())


def _needs(change: Change, links: _Links) -> tuple[tuple[str, ...], str]:
    match change:
        case AddPartitions():
            wanted = [links.grown[ref] for ref in links.remotes.get(change.ref, ()) if ref in links.grown]
            why = "records of a new partition need that partition on the target first"
        case StartMirror() | RestartMirror():
            wanted = [one for ref in links.places[change.mirror] for one in links.made.get(ref, ())]
            why = "the job writes to these topics"
            if rights := links.rights.get(change.mirror, ()):
                wanted, why = (
                    [*wanted, *rights],
                    f"{why} and needs these rights" if wanted else "the job needs these rights",
                )
        case DeleteTopic():
            wanted = list(links.jobs)
            why = "a job with an older definition may still use the topic"
        case DeleteAcl():
            wanted = list(links.jobs) if used_by_a_job(change) else []
            why = "a job with an older definition may still use the right"
        case CreateTopic():
            wanted = list(links.access.before_topic(change))
            why = "what is denied must be denied before there is anything to read"
        case CreateAcl():
            wanted = list(links.access.before_grant(change))
            why = "what is denied must be denied before more is allowed"
        case AlterConfigs() | StopMirror():
            return (), ""
        case _:
            assert_never(change)
    return tuple(wanted), why if wanted else ""


def _planned(ordered: list[Change], routing: Routing, topology: Topology, live: LiveState) -> Iterable[Planned]:
    links = _links(ordered, routing, topology)
    for change in ordered:
        found = assess(change, topology, live)
        needs, why = _needs(change, links)
        yield Planned(
            change_id(change), change, stage_of(change), found.risk, found.why, found.reversibility, needs, why
        )


def _seen(topology: Topology, live: LiveState) -> tuple[SeenCluster, ...]:
    found: list[SeenCluster] = []
    for name in sorted(topology.clusters):
        cluster = live.clusters.get(name)
        if isinstance(cluster, LiveCluster):
            rules = len(cluster.acls) if isinstance(cluster.acls, frozenset) else None
            found.append(SeenCluster(name, cluster.cluster_id, len(cluster.brokers), len(cluster.topics), rules))
        else:
            found.append(SeenCluster(name, None, 0, 0))
    return tuple(found)


def _undisturbed(topology: Topology, found: Findings, routing: Routing) -> list[str]:
    """What changes for a running job without a restart."""
    touched = {change.ref for change in found.changes if isinstance(change, TopicChange)}
    kept = {one.subject for one in found.settled if one.subject.startswith("mirror ")}
    notes: list[str] = []
    for name, mirror in topology.mirrors.items():
        remotes = [r.remote for r in routing.routes if r.flow in mirror.flows and r.remote in touched]
        if f"mirror {name}" in kept and remotes:
            count = f"{len(remotes)} of its topics change" if len(remotes) > 1 else "one of its topics changes"
            notes.append(f"mirror {name} keeps running: {count}, its definition does not")
    return notes


def _unchanged(found: Findings) -> int:
    moved = {str(change.ref) for change in found.changes if isinstance(change, TopicChange)}
    moved |= {one.subject.split(" ")[0] for one in found.refused}
    same = {one.subject for one in found.settled if not one.subject.startswith("cluster ")}
    return len(same - moved)
