"""Assigns each change of a plan to a wave: its cluster's, or the later one of what it waits for.

The order within a wave is that of the plan without waves, so all waves together are the same changes in an order that
keeps each dependency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.engine.guards.first_contact import clusters_of
from reconciler.engine.plan.select import Narrowed, without
from reconciler.model.changes import AddPartitions, AlterConfigs, Change, CreateTopic, Stage, StopMirror
from reconciler.model.config_values import number
from reconciler.model.environment.rollout import Course, CourseWave
from reconciler.model.environment.topology import TopicRef, Topology, clusters_in
from reconciler.model.plan import Plan, Planned
from reconciler.resources.flows.routes import Route
from reconciler.text import grouped

RECORD_SIZE = "max.message.bytes"
REMOTE_FIRST = "a running job would find no topic to copy its records to"
LARGER_FIRST = "records that are larger must fit into the remote topic first"
REMOVALS_LAST = "removals come last on their cluster"


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
    entries = (
        replace(planned, wave=course.names[placed[planned.id].wave], wave_why=_why(placed[planned.id], course))
        for planned in ordered
    )
    return tuple(sorted(entries, key=lambda planned: placed[planned.id].wave))


def until_wave(plan: Plan, name: str) -> Narrowed:
    """``plan`` without the waves that come after ``name``."""
    assert plan.rollout is not None
    last = plan.rollout.index(name)
    later = {planned.id: planned.wave for planned in plan.changes if plan.rollout.index(planned.wave) > last}
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
    for planned in ordered:
        own = max((wave_of[at] for at in own_clusters(planned.change, topology)), default=len(course.waves) - 1)
        placed[planned.id] = _Place(own, own)
    before: Mapping[str, _Place] = {}
    while before != placed:  # each round only moves changes to later waves
        before = dict(placed)
        latest: dict[str, str] = {}  # cluster -> the change of its last wave so far
        for planned in ordered:
            cluster = planned.change.cluster
            waits = [(need, planned.needs_why) for need in planned.needs]
            waits += [together[planned.id]] if planned.id in together else []
            if planned.stage == Stage.REMOVALS:
                waits += [(latest[cluster], REMOVALS_LAST)] if cluster in latest else []
            for need, why in waits:
                if placed[need].wave > placed[planned.id].wave:
                    placed[planned.id] = _Place(placed[planned.id].own, placed[need].wave, need, why)
            if planned.stage != Stage.REMOVALS:
                last = latest.get(cluster)
                if last is None or placed[planned.id].wave > placed[last].wave:
                    latest[cluster] = planned.id
    return placed


def _why(place: _Place, course: Course) -> str:
    if not place.waits_for:
        return ""
    own, later = course.names[place.own], course.names[place.wave]
    return f"not in wave {own} with its cluster: it waits for {place.waits_for} in wave {later}: {place.why}"


def _two_way(ordered: Sequence[Planned], routes: Sequence[Route]) -> Mapping[str, Wait]:
    """Topics of one name that are made on both sides of two flows: each is the other's remote topic."""
    creations = {planned.change.ref: planned.id for planned in ordered if isinstance(planned.change, CreateTopic)}
    ways = {(route.source, route.remote) for route in routes if route.source in creations and route.remote in creations}
    return {creations[a]: (creations[b], REMOTE_FIRST) for a, b in sorted(ways) if (b, a) in ways}


def _with_remotes_first(ordered: Sequence[Planned], routes: Sequence[Route]) -> tuple[Planned, ...]:
    """Within one run the order of stages is enough for these; between waves hours may lie."""
    remotes = grouped((route.source, route.remote) for route in routes)
    creations: dict[TopicRef, str] = {}
    raised: dict[TopicRef, str] = {}
    entries = []
    for planned in ordered:  # only what stands before it: nothing waits in a circle
        change = planned.change
        waits: list[Wait] = []
        if isinstance(change, CreateTopic | AddPartitions):
            waits = [(creations[ref], REMOTE_FIRST) for ref in remotes.get(change.ref, ()) if ref in creations]
        if isinstance(change, CreateTopic):
            creations[change.ref] = planned.id
        if isinstance(change, AlterConfigs) and _raises_record_size(change):
            waits = [(raised[ref], LARGER_FIRST) for ref in remotes.get(change.ref, ()) if ref in raised]
            raised[change.ref] = planned.id
        entries.append(_joined(planned, waits))
    return tuple(entries)


def _joined(planned: Planned, value: Sequence[Wait]) -> Planned:
    more = [wait for wait in value if wait[0] not in planned.needs]
    if not more:
        return planned
    why = "; ".join(dict.fromkeys(part for part in (planned.needs_why, *(reason for _, reason in more)) if part))
    return replace(planned, needs=(*planned.needs, *(need for need, _ in more)), needs_why=why)


def _raises_record_size(change: AlterConfigs) -> bool:
    raises_record_size = (
        (number(config.before), number(config.after)) for config in change.configs if config.key == RECORD_SIZE
    )
    return any(before is not None and after is not None and after > before for before, after in raises_record_size)
