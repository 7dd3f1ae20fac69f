"""The order in which changes are applied over all clusters, and what each has to wait for.

Target topics, deepest hop first; then source topics; then mirror jobs; then replicas, which may take hours and for
which nothing else has to wait; then removals. So nothing can flow before the place it flows to exists, and nothing is
removed that a job of this plan still uses, nor a remote topic before its source.
"""

from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import assert_never

from reconciler.engine.kinds import kind_of
from reconciler.model import changes
from reconciler.model.config_values import number
from reconciler.model.environment.topology import Principal, TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.model.plan import Planned
from reconciler.resources.acls.kind import access_links, used_by_a_job
from reconciler.resources.flows.routes import Routing, kept_less_by, sources_among
from reconciler.resources.kind import world_of
from reconciler.resources.topics.internal import written_by
from reconciler.resources.users.diff import logs_in_as
from reconciler.text import grouped

_STAGES = {stage: place for place, stage in enumerate(changes.Stage)}
_IN_A_STAGE = (
    changes.FinishReassignment,
    changes.ReassignReplicas,
    changes.CreateTopic,
    changes.AddPartitions,
    changes.AlterConfigs,
    changes.AlterUser,
    changes.CreateAcl,
    changes.AlterQuota,
    changes.StopMirror,
    changes.RestartMirror,
    changes.StartMirror,
    changes.DeleteTopic,
    changes.DeleteAcl,
    changes.DeleteUser,
)
_BY_NAME = attrgetter("cluster", "name")
"""Sorts topics in their own order, ten times as fast."""
_CLASSES = {change: place for place, change in enumerate(_IN_A_STAGE)}


def after_replicas(planned: Iterable[changes.Change]) -> frozenset[TopicRef]:
    """Topics whose configs need the replicas first: min.insync.replicas above what some partition has now."""
    everything = tuple(planned)
    least = {
        change.ref: min(len(placement.before) for placement in change.placements)
        for change in everything
        if isinstance(change, changes.ReassignReplicas) and change.placements
    }
    return frozenset(
        change.ref
        for change in everything
        if isinstance(change, changes.AlterConfigs) and change.ref in least
        for config in change.configs
        if config.key == "min.insync.replicas" and (number(config.after) or 0) > least[change.ref]
    )


def stage_of(change: changes.Change, later: Collection[TopicRef] = ()) -> changes.Stage:
    """``later``: topics whose configs wait for their replicas."""
    return changes.Stage.REPLICAS if isinstance(change, changes.AlterConfigs) and change.ref in later else change.stage


def place_of(change: changes.Change, later: Collection[TopicRef]) -> tuple[int, int, str, int, str]:
    """Raises TypeError for a change that no kind knows."""
    stage = stage_of(change, later)
    offset, name = kind_of(change).place(change)
    if stage is changes.Stage.REPLICAS:
        offset, name = 0, str(change.subject)
    return _STAGES[stage], offset, change.cluster, _CLASSES[type(change)], name


class _Links:
    """Ids of changes that later changes may have to wait for, looked up once for the whole plan.

    A remote topic's new partitions come before its source's: a record for a missing partition could not be copied. A
    lower min.insync.replicas comes before fewer replicas, and a higher one after more.
    """

    def __init__(
        self, ordered: Sequence[changes.Change], later: Collection[TopicRef], routing: Routing, topology: Topology
    ) -> None:
        """``later``: topics whose configs wait for their replicas."""
        self.later = later
        # Topic -> its creation, or the change of its number of partitions; and the latter alone, for which a source's
        # new partition waits.
        self.made = {it.ref: it.id for it in ordered if isinstance(it, changes.CreateTopic | changes.AddPartitions)}
        self.grown = {change.ref: change.id for change in ordered if isinstance(change, changes.AddPartitions)}
        # Topic -> its reassignment, and what comes before that: new partitions, and a lower min.insync.replicas.
        self.replicas = {it.ref: it.id for it in ordered if isinstance(it, changes.ReassignReplicas)}
        lowered = {
            change.ref: change.id
            for change in ordered
            if isinstance(change, changes.AlterConfigs)
            for config in change.configs
            if config.key == "min.insync.replicas" and (number(config.after) or 0) < (number(config.before) or 0)
        }
        self.before_replicas = {ref: [ids[ref] for ids in (self.grown, lowered) if ref in ids] for ref in self.replicas}

        # Source topic -> its remote topics. If the same name flows both ways, each side would wait for the other.
        self.remotes = grouped((route.source, route.remote) for route in routing.routes if not route.two_way)
        gone = {change.ref for change in ordered if isinstance(change, changes.DeleteTopic)}
        self.doomed = sources_among(topology, gone)  # deleted topic -> its deleted sources
        # Restarts and stops: until they are done, jobs with former definitions may use what is removed.
        self.jobs = [it.id for it in ordered if isinstance(it, changes.RestartMirror | changes.StopMirror)]

        # Mirror -> topics that its job writes, and changes of users and rights that it needs before it starts.
        self.access = access_links(ordered, topology)
        self.places: dict[str, list[TopicRef]] = {}
        self.rights: dict[str, tuple[str, ...]] = {}
        users = [change for change in ordered if isinstance(change, changes.AlterUser)]
        for name, mirror in topology.mirrors.items():
            flows, place = topology.flows_of(mirror), topology.clusters[topology.status_cluster(mirror)]
            own = place.own_topics
            kept = (own.status, own.control) if mirror.hosted else (own.status,)
            written = {route.remote for route in routing.routes if route.flow in mirror.flows}
            written |= {topic.ref for flow in flows for topic in written_by(topology, flow)}
            written |= {TopicRef(place.name, topic) for topic in kept}
            self.places[name] = sorted(written, key=_BY_NAME)
            sides = {side for flow in flows for side in (flow.source, flow.target)}
            logins = {side: logs_in_as(topology.clusters[side], Principal.MIRROR) for side in sides} if users else {}
            own_users = (user.id for user in users if user.cluster in logins and logins[user.cluster] == user.user)
            self.rights[name] = (*own_users, *self.access.before_job(mirror, topology))


def _needs(change: changes.Change, links: _Links) -> tuple[tuple[str, ...], str]:
    """(ids of changes that must precede this one, why). Otherwise the order within a stage is free. A change whose
    needs fail is skipped, so only what prevents harm is a need."""
    # Each need prevents a concrete harm: a record without its partition on the target, a job without a topic or right,
    # a reader before a denial, a deletion under a running job.
    match change:
        case changes.AddPartitions():
            wanted = [links.grown[ref] for ref in links.remotes.get(change.ref, ()) if ref in links.grown]
            why = "records of a new partition need that partition on the target first"
        case changes.StartMirror() | changes.RestartMirror():
            wanted = [links.made[ref] for ref in links.places[change.mirror] if ref in links.made]
            why = "the job writes to these topics"
            if rights := links.rights.get(change.mirror, ()):
                wanted, why = (
                    [*wanted, *rights],
                    f"{why} and needs these users and rights" if wanted else "the job needs these users and rights",
                )
        case changes.DeleteTopic():
            sources = [f"delete:{ref}" for ref in links.doomed.get(change.ref, ())]
            wanted, why = [*links.jobs, *sources], "a job with an older definition may still use the topic"
            if sources:
                why = f"{why}, and" if links.jobs else ""
                why = f"{why} its source goes first: while it exists, the flow writes to it".lstrip()
        case changes.DeleteAcl():
            wanted = list(links.jobs) if used_by_a_job(change) else []
            why = "a job with an older definition may still use the right"
        case changes.DeleteUser():
            wanted = list(links.jobs)
            why = "a job with an older definition may still log in as this user"
        case changes.AlterConfigs():
            wanted = [links.replicas[change.ref]] if change.ref in links.later else []
            why = "min.insync.replicas may not exceed the existing replicas"
        case changes.ReassignReplicas():
            wanted = list(links.before_replicas[change.ref])
            why = "its partitions and min.insync.replicas come first"
        case changes.CreateTopic():
            wanted = list(links.access.before_topic(change))
            why = "what is denied must be denied before there is anything to read"
        case changes.CreateAcl():
            wanted = list(links.access.before_grant(change))
            why = "what is denied must be denied before more is allowed"
        case changes.StopMirror() | changes.FinishReassignment() | changes.AlterQuota() | changes.AlterUser():
            return (), ""
        case _:
            assert_never(change)
    return tuple(wanted), why if wanted else ""


def planned(
    ordered: Sequence[changes.Change],
    later: Collection[TopicRef],
    routing: Routing,
    topology: Topology,
    live: LiveState,
) -> Iterable[Planned]:
    """Each change with its risk, and with the changes that it needs."""
    links, world = _Links(ordered, later, routing, topology), world_of(topology, live, kept_less_by(routing))
    for change in ordered:
        assessment = kind_of(change).assess(change, world)
        needs, why = _needs(change, links)
        yield Planned(
            change.id,
            change,
            stage_of(change, later),
            assessment.risk,
            assessment.why,
            assessment.reversibility,
            needs,
            why,
        )
