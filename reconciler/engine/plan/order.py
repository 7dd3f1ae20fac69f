"""The order of changes over all clusters, and what each has to wait for.

Target topics, deepest hop first; then source topics; then mirror jobs; then replicas, which may take hours and for
which nothing else has to wait; then removals. So nothing can flow before the place it flows to exists, and nothing is
removed that a job of this plan still uses, nor a remote topic before its source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from reconciler.access.ordering import AccessLinks, access_links, used_by_a_job
from reconciler.acls import Permission
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
    ReassignReplicas,
    RestartMirror,
    Role,
    Stage,
    StartMirror,
    StopMirror,
    cluster_of,
    touched,
)
from reconciler.enrolling.logins import logs_in_as
from reconciler.guarding.pruning import PRUNE
from reconciler.internal_topics import written_by
from reconciler.live import LiveState
from reconciler.plans import Planned
from reconciler.risks import assess, fallbacks_of
from reconciler.routing import Routing, sources_among
from reconciler.topic_configs import number
from reconciler.topology import Mirror, Principal, TopicRef, Topology
from reconciler.users import user_words
from replication.names import STATUS_TOPIC

_STAGES = tuple(Stage)
_KINDS = (
    FinishReassignment,
    ReassignReplicas,
    CreateTopic,
    AddPartitions,
    AlterConfigs,
    AlterUser,
    CreateAcl,
    AlterQuota,
    StopMirror,
    RestartMirror,
    StartMirror,
    DeleteTopic,
    DeleteAcl,
    DeleteUser,
)


_AFTER_TOPICS, _AFTER_RULES = 1_000, 2_000
"""Places among the removals; no chain of flows is as long."""


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
        case CreateAcl():
            return f"create-acl:{change.cluster}: {change.acl}"
        case DeleteAcl():
            return f"delete-acl:{change.cluster}: {change.acl}"
        case AlterQuota():
            prefix = "prune-quota" if change.reason.code == PRUNE else "quota"
            return f"{prefix}:{change.cluster}: {change.entity}"
        case AlterUser():
            return f"user:{change.cluster}: {user_words(change.user)}"
        case DeleteUser():
            return f"delete-user:{change.cluster}: {user_words(change.user)}"
        case ReassignReplicas():
            return f"replicas:{change.ref}"
        case FinishReassignment():
            return f"finish-reassignment:{change.cluster}"
        case DeleteTopic():
            return f"delete:{change.ref}"
        case _:
            assert_never(change)


def after_replicas(changes: Iterable[Change]) -> frozenset[TopicRef]:
    """Topics whose configs need the replicas first: min.insync.replicas above what some partition has now."""
    everything = tuple(changes)
    least = {
        change.ref: min(len(one.before) for one in change.placements)
        for change in everything
        if isinstance(change, ReassignReplicas) and change.placements
    }
    return frozenset(
        change.ref
        for change in everything
        if isinstance(change, AlterConfigs) and change.ref in least
        for one in change.configs
        if one.key == "min.insync.replicas" and (number(one.after) or 0) > least[change.ref]
    )


def stage_of(change: Change, later: Collection[TopicRef] = ()) -> Stage:
    """``later``: topics whose configs wait for their replicas."""
    if isinstance(change, AlterConfigs) and change.ref in later:
        return Stage.REPLICAS
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs():
            return Stage.SOURCE_TOPICS if change.role is Role.DECLARED and change.depth == 0 else Stage.TARGET_TOPICS
        case StartMirror() | RestartMirror() | StopMirror():
            return Stage.MIRROR
        case ReassignReplicas() | FinishReassignment():
            return Stage.REPLICAS
        case CreateAcl():
            return Stage.ACCESS if change.acl.permission is Permission.ALLOW else Stage.DENIALS
        case AlterQuota():
            return Stage.REMOVALS if change.reason.code == PRUNE else Stage.QUOTAS
        case AlterUser():
            return Stage.USERS
        case DeleteTopic() | DeleteAcl() | DeleteUser():
            return Stage.REMOVALS
        case _:
            assert_never(change)


def place_of(change: Change, later: Collection[TopicRef]) -> tuple[int, int, str, int, str]:
    kind = _KINDS.index(type(change))
    stage = _STAGES.index(stage_of(change, later))
    if stage_of(change, later) is Stage.REPLICAS:
        return stage, 0, cluster_of(change), kind, touched(change)
    match change:
        case CreateTopic() | AddPartitions() | AlterConfigs():
            hop = max(change.depth, 1)  # internal topics go with the first hop
            return stage, -hop, change.ref.cluster, kind, change.ref.name
        case StartMirror() | RestartMirror() | StopMirror():
            return stage, 0, "", kind, change.mirror
        case CreateAcl() | DeleteAcl():
            removal = _AFTER_TOPICS * isinstance(change, DeleteAcl)
            return stage, removal, change.cluster, kind, f"{change.grant.title} {change.acl}"
        case AlterQuota() | DeleteUser():
            return stage, _AFTER_RULES, cluster_of(change), kind, touched(change)
        case DeleteTopic():
            return stage, change.depth, change.ref.cluster, kind, change.ref.name  # a source before its remote topics
        case ReassignReplicas() | FinishReassignment() | AlterUser():
            return stage, 0, cluster_of(change), kind, touched(change)
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
    replicas: Mapping[TopicRef, str]
    before_replicas: Mapping[TopicRef, tuple[str, ...]]
    later: Collection[TopicRef]
    access: AccessLinks
    rights: Mapping[str, tuple[str, ...]]
    doomed: Mapping[TopicRef, tuple[TopicRef, ...]]


def _links(ordered: Sequence[Change], later: Collection[TopicRef], routing: Routing, topology: Topology) -> _Links:
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
    replicas = {change.ref: change_id(change) for change in ordered if isinstance(change, ReassignReplicas)}
    first = {ref: (*_only(grown.get(ref)), *_lowered(ref, ordered)) for ref in replicas}
    access = access_links({change_id(change): change for change in ordered}, topology)
    rights = {
        name: (*_before_login(mirror, ordered, topology), *access.before_job(mirror, topology))
        for name, mirror in topology.mirrors.items()
    }
    doomed = sources_among(topology, {change.ref for change in ordered if isinstance(change, DeleteTopic)})
    return _Links(made, grown, remotes, places, jobs, replicas, first, later, access, rights, doomed)


def _before_login(mirror: Mirror, ordered: Iterable[Change], topology: Topology) -> Iterable[str]:
    """Changes that make or change the user that the job logs in with."""
    sides = {side for flow in topology.flows_of(mirror) for side in (flow.source, flow.target)}
    made = [change for change in ordered if isinstance(change, AlterUser) and change.cluster in sides]
    for change in made:
        if logs_in_as(topology.clusters[change.cluster], Principal.MIRROR) == change.user:
            yield change_id(change)


def _only(found: str | None) -> tuple[str, ...]:
    return () if found is None else (found,)


def _lowered(ref: TopicRef, ordered: Iterable[Change]) -> Iterable[str]:
    """The change that lowers min.insync.replicas of ``ref``."""
    for change in ordered:
        if isinstance(change, AlterConfigs) and change.ref == ref:
            for one in change.configs:
                if one.key == "min.insync.replicas" and (number(one.after) or 0) < (number(one.before) or 0):
                    yield change_id(change)


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
                    f"{why} and needs these users and rights" if wanted else "the job needs these users and rights",
                )
        case DeleteTopic():
            sources = [f"delete:{ref}" for ref in links.doomed.get(change.ref, ())]
            wanted, why = [*links.jobs, *sources], "a job with an older definition may still use the topic"
            if sources:
                why = f"{why}, and" if links.jobs else ""
                why = f"{why} its source goes first: while that is there, the flow writes to it".lstrip()
        case DeleteAcl():
            wanted = list(links.jobs) if used_by_a_job(change) else []
            why = "a job with an older definition may still use the right"
        case DeleteUser():
            wanted = list(links.jobs)
            why = "a job with an older definition may still log in as this user"
        case AlterConfigs():
            wanted = [links.replicas[change.ref]] if change.ref in links.later else []
            why = "min.insync.replicas may not be above the replicas that are there"
        case ReassignReplicas():
            wanted = list(links.before_replicas[change.ref])
            why = "its partitions and min.insync.replicas come first"
        case CreateTopic():
            wanted = list(links.access.before_topic(change))
            why = "what is denied must be denied before there is anything to read"
        case CreateAcl():
            wanted = list(links.access.before_grant(change))
            why = "what is denied must be denied before more is allowed"
        case StopMirror() | FinishReassignment() | AlterQuota() | AlterUser():
            return (), ""
        case _:
            assert_never(change)
    return tuple(wanted), why if wanted else ""


def planned(
    ordered: Sequence[Change], later: Collection[TopicRef], routing: Routing, topology: Topology, live: LiveState
) -> Iterable[Planned]:
    links, fallbacks = _links(ordered, later, routing, topology), fallbacks_of(live)
    for change in ordered:
        found = assess(change, topology, live, fallbacks)
        needs, why = _needs(change, links)
        yield Planned(
            change_id(change), change, stage_of(change, later), found.risk, found.why, found.reversibility, needs, why
        )
