"""Which wave each change of a plan belongs to: that of its cluster, or the later one of something it has to wait for.

The order within a wave is that of the plan without waves, so all waves together are the same changes in an order that
keeps each dependency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.changes import AddPartitions, AlterConfigs, Change, CreateTopic, Stage, StopMirror, cluster_of
from reconciler.guarding import clusters_of
from reconciler.narrowing import Narrowed, without
from reconciler.plans import Plan, Planned
from reconciler.rollouts import Course, CourseWave, RolloutWave
from reconciler.routing import Route
from reconciler.topic_configs import number
from reconciler.topology import TopicRef, Topology

RECORD_SIZE = "max.message.bytes"
REMOTE_FIRST = "a running job would find no topic to copy its records to"
LARGER_FIRST = "records that are larger must fit into the remote topic first"
REMOVALS_LAST = "removals come last on their cluster"


def clusters_in(wave: RolloutWave, topology: Topology) -> list[str]:
    """With repetitions, where a cluster is named by its region and by itself."""
    of_regions = [one.name for one in topology.clusters.values() if one.region in wave.regions]
    return [*of_regions, *wave.clusters]


def course_of(topology: Topology) -> Course | None:
    """The waves with the clusters they come to. None: the environment has no rollout."""
    rollout = topology.rollout
    if rollout is None:
        return None
    waves = (
        CourseWave(
            wave.name,
            tuple(sorted(set(clusters_in(wave, topology)))),
            rollout.soak_ms if wave.soak_ms is None else wave.soak_ms,
        )
        for wave in rollout.waves
    )
    return Course(tuple(waves), rollout.gates)


def in_waves(planned: Iterable[Planned], topology: Topology, routes: Iterable[Route]) -> tuple[Planned, ...]:
    """The changes wave by wave, each with its wave; as they are when there is no rollout."""
    ordered, course = tuple(planned), course_of(topology)
    if course is None:
        return ordered
    ways = tuple(routes)
    ordered = _with_remotes_first(ordered, ways)
    placed = _placed(ordered, _two_way(ordered, ways), course, topology)
    told = (
        replace(one, wave=course.names[placed[one.id].wave], wave_why=_why(placed[one.id], course)) for one in ordered
    )
    return tuple(sorted(told, key=lambda one: placed[one.id].wave))


def until_wave(plan: Plan, name: str) -> Narrowed:
    """``plan`` without the waves that come after ``name``."""
    assert plan.rollout is not None
    last = plan.rollout.index(name)
    later = {one.id: one.wave for one in plan.changes if plan.rollout.index(one.wave) > last}
    return without(plan, {id_: f"wave {wave} comes after {name}, where this run ends" for id_, wave in later.items()})


def own_clusters(change: Change, topology: Topology) -> frozenset[str]:
    """Clusters that a change is for. A job belongs to its targets; one that left git, to the cluster of its name."""
    if not isinstance(change, StopMirror):
        return clusters_of(change, topology)
    mirror = topology.mirrors.get(change.mirror)
    if mirror is not None:
        return frozenset(flow.target for flow in topology.flows_of(mirror))
    return frozenset({change.mirror} & topology.clusters.keys())


Wait = tuple[str, str]
"""Id of the change that is waited for, and why."""


@dataclass(frozen=True, slots=True)
class _Place:
    """``own``: the wave of its cluster; ``wave``: the one it comes in, because of ``waits_for``."""

    own: int
    wave: int
    waits_for: str = ""
    why: str = ""


def _placed(
    ordered: Sequence[Planned], together: Mapping[str, Wait], course: Course, topology: Topology
) -> Mapping[str, _Place]:
    """The least waves that keep all waits. ``together``: changes that come in one wave with another."""
    wave_of = {name: index for index, wave in enumerate(course.waves) for name in wave.clusters}
    placed: dict[str, _Place] = {}
    for one in ordered:
        own = max((wave_of[at] for at in own_clusters(one.change, topology)), default=len(course.waves) - 1)
        placed[one.id] = _Place(own, own)
    before: Mapping[str, _Place] = {}
    while before != placed:  # each round only moves changes to later waves
        before = dict(placed)
        latest: dict[str, str] = {}  # cluster -> the change of its last wave so far
        for one in ordered:
            cluster = cluster_of(one.change)
            waits = [(need, one.needs_why) for need in one.needs]
            waits += [together[one.id]] if one.id in together else []
            if one.stage == Stage.REMOVALS:
                waits += [(latest[cluster], REMOVALS_LAST)] if cluster in latest else []
            for need, why in waits:
                if placed[need].wave > placed[one.id].wave:
                    placed[one.id] = _Place(placed[one.id].own, placed[need].wave, need, why)
            if one.stage != Stage.REMOVALS:
                last = latest.get(cluster)
                if last is None or placed[one.id].wave > placed[last].wave:
                    latest[cluster] = one.id
    return placed


def _why(place: _Place, course: Course) -> str:
    if not place.waits_for:
        return ""
    own, later = course.names[place.own], course.names[place.wave]
    return f"not in wave {own} with its cluster: it waits for {place.waits_for} in wave {later}: {place.why}"


def _two_way(ordered: Sequence[Planned], routes: Sequence[Route]) -> Mapping[str, Wait]:
    """Topics of one name that are made on both sides of two flows: each is the other's remote topic."""
    made = {one.change.ref: one.id for one in ordered if isinstance(one.change, CreateTopic)}
    ways = {(route.source, route.remote) for route in routes if route.source in made and route.remote in made}
    return {made[a]: (made[b], REMOTE_FIRST) for a, b in sorted(ways) if (b, a) in ways}


def _with_remotes_first(ordered: Sequence[Planned], routes: Sequence[Route]) -> tuple[Planned, ...]:
    """Within one run the order of stages is enough for these; between waves hours may lie."""
    remotes: dict[TopicRef, list[TopicRef]] = {}
    for route in routes:
        remotes.setdefault(route.source, []).append(route.remote)
    made: dict[TopicRef, str] = {}
    raised: dict[TopicRef, str] = {}
    found = []
    for one in ordered:  # only what stands before it: nothing waits in a circle
        change = one.change
        waits: list[Wait] = []
        if isinstance(change, CreateTopic | AddPartitions):
            waits = [(made[ref], REMOTE_FIRST) for ref in remotes.get(change.ref, ()) if ref in made]
        if isinstance(change, CreateTopic):
            made[change.ref] = one.id
        if isinstance(change, AlterConfigs) and _raises_record_size(change):
            waits = [(raised[ref], LARGER_FIRST) for ref in remotes.get(change.ref, ()) if ref in raised]
            raised[change.ref] = one.id
        found.append(_joined(one, waits))
    return tuple(found)


def _joined(one: Planned, found: Sequence[Wait]) -> Planned:
    more = [wait for wait in found if wait[0] not in one.needs]
    if not more:
        return one
    why = "; ".join(dict.fromkeys(part for part in (one.needs_why, *(reason for _, reason in more)) if part))
    return replace(one, needs=(*one.needs, *(need for need, _ in more)), needs_why=why)


def _raises_record_size(change: AlterConfigs) -> bool:
    found = ((number(one.before), number(one.after)) for one in change.configs if one.key == RECORD_SIZE)
    return any(before is not None and after is not None and after > before for before, after in found)
