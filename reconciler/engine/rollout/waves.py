"""Waves of a rollout: the wave of each change, a run that ends after one, and the resulting exit code.

A change is in the wave of its cluster, or in a later one because of a change that it waits for. The order within a wave
is that of the plan without waves, so that all waves together keep every dependency.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.engine.guards.first_contact import clusters_of
from reconciler.engine.plan.select import Narrowed, without
from reconciler.errors import ExitCode, ReconcilerError
from reconciler.model.changes import AddPartitions, AlterConfigs, Change, CreateTopic, Stage, StopMirror
from reconciler.model.config_values import number
from reconciler.model.environment.rollout import Course, CourseWave
from reconciler.model.environment.topology import TopicRef, Topology, clusters_in
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.resources.flows.routes import Route
from reconciler.text import grouped, suggestion

RECORD_SIZE = "max.message.bytes"
REMOTE_FIRST = "a running job would find no topic to copy its records to"
LARGER_FIRST = "records that are larger must fit into the remote topic first"
REMOVALS_LAST = "removals come last on their cluster"


def course_of(topology: Topology) -> Course | None:
    """The waves with their clusters. None: the environment has no rollout."""
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
    """The changes wave by wave, each with its wave; unchanged without a rollout."""
    ordered, course = tuple(planned), course_of(topology)
    if course is None:
        return ordered
    ways = tuple(routes)
    ordered = _with_remotes_first(ordered, ways)

    # Two flows may create a topic of one name on both sides: each is the remote topic of the other.
    made = {planned.change.ref: planned.id for planned in ordered if isinstance(planned.change, CreateTopic)}
    pairs = {(route.source, route.remote) for route in ways if route.source in made and route.remote in made}
    together = {made[a]: (made[b], REMOTE_FIRST) for a, b in sorted(pairs) if (b, a) in pairs}

    placed = _placed(ordered, together, course, topology)
    entries: list[Planned] = []
    for change in ordered:
        place, why = placed[change.id], ""
        own, later = course.names[place.own], course.names[place.wave]
        if place.waits_for:
            why = f"not in wave {own} with its cluster: it waits for {place.waits_for} in wave {later}: {place.why}"
        entries.append(replace(change, wave=later, wave_why=why))
    return tuple(sorted(entries, key=lambda entry: placed[entry.id].wave))


def own_clusters(change: Change, topology: Topology) -> frozenset[str]:
    """Clusters of a change. A job belongs to its targets; one that git no longer has, to the cluster of its name."""
    if not isinstance(change, StopMirror):
        return clusters_of(change, topology)
    mirror = topology.mirrors.get(change.mirror)
    if mirror is not None:
        return frozenset(flow.target for flow in topology.flows_of(mirror))
    return frozenset({change.mirror} & topology.clusters.keys())


Wait = tuple[str, str]
"""Id of the awaited change, and why it is awaited."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one change comes among the waves."""

    own: int
    """The wave of its cluster."""
    wave: int
    """Its actual wave, because of ``waits_for``."""
    waits_for: str = ""
    why: str = ""


def _placed(
    ordered: Sequence[Planned], together: Mapping[str, Wait], course: Course, topology: Topology
) -> Mapping[str, _Place]:
    """The earliest waves that keep all waits. ``together``: changes that share a wave with another."""
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
            # A change comes no earlier than its needs, than the changes that belong with it, and, if it removes
            # something, than the last change of its cluster that does not.
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


def _with_remotes_first(ordered: Sequence[Planned], routes: Sequence[Route]) -> tuple[Planned, ...]:
    """Waits that matter only between waves, hours apart: within one run the order of stages is enough."""
    remotes = grouped((route.source, route.remote) for route in routes)
    creations: dict[TopicRef, str] = {}
    raised: dict[TopicRef, str] = {}
    entries = []
    for planned in ordered:  # a change waits only for earlier ones, so there is no circle
        change = planned.change
        waits: list[Wait] = []
        if isinstance(change, CreateTopic | AddPartitions):
            waits = [(creations[ref], REMOTE_FIRST) for ref in remotes.get(change.ref, ()) if ref in creations]
        if isinstance(change, CreateTopic):
            creations[change.ref] = planned.id
        if isinstance(change, AlterConfigs) and _raises_record_size(change):
            waits = [(raised[ref], LARGER_FIRST) for ref in remotes.get(change.ref, ()) if ref in raised]
            raised[change.ref] = planned.id
        more = [wait for wait in waits if wait[0] not in planned.needs]
        if more:
            whys = dict.fromkeys((planned.needs_why, *(reason for _, reason in more)))
            needs = (*planned.needs, *(need for need, _ in more))
            planned = replace(planned, needs=needs, needs_why="; ".join(filter(None, whys)))
        entries.append(planned)
    return tuple(entries)


def _raises_record_size(change: AlterConfigs) -> bool:
    limits = ((number(it.before), number(it.after)) for it in change.configs if it.key == RECORD_SIZE)
    return any(before is not None and after is not None and after > before for before, after in limits)


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """One run: ``outcomes`` of the whole ``plan``."""

    plan: Plan
    outcomes: Sequence[Outcome]
    until: str
    """The wave after which it should end, or empty."""
    halted: str
    """Why its rollout is not over, or empty."""


def require_wave(plan: Plan, name: str) -> None:
    """Raises ReconcilerError for an unknown wave."""
    if not name:
        return
    environment = plan.basis.environment
    if plan.rollout is None:
        raise ReconcilerError(
            f"--until-wave is {name}, and environment {environment} has no rollout",
            "Nothing was applied: without waves there is nothing to end after.",
            "Declare rollout in the topology, or leave --until-wave out.",
        )
    if name not in plan.rollout.names:
        raise ReconcilerError(
            f"--until-wave is {name}, and environment {environment} has no such wave",
            "Nothing was applied.",
            f"{suggestion(name, plan.rollout.names, 'Name one of its waves')}.",
        )


def ending(chosen: Narrowed, until: str) -> Narrowed:
    """``chosen`` without the waves after ``until``; empty: all of it."""
    plan = chosen.plan
    if not until:
        return chosen
    assert plan.rollout is not None
    last = plan.rollout.index(until)
    later = {planned.id: planned.wave for planned in plan.changes if plan.rollout.index(planned.wave) > last}
    cut = without(plan, {id_: f"wave {wave} comes after {until}, where this run ends" for id_, wave in later.items()})
    return Narrowed(cut.plan, (*chosen.held, *cut.held))


def code_of(code: ExitCode, ended: RolloutResult) -> ExitCode:
    """``code``: by the outcomes alone. 5 if the rollout halted after changes of this run or an earlier one; 2 if all
    changes that were due are done, and later waves remain."""
    if ended.halted:
        failed = any(outcome.result is Result.FAILED for outcome in ended.outcomes)
        return code if code is ExitCode.ERROR and failed else ExitCode.PARTIAL
    course = ended.plan.rollout
    if not ended.until or course is None or ended.plan.unknown or ended.plan.refused:
        return code
    last = course.index(ended.until)
    later = {planned.id for planned in ended.plan.changes if course.index(planned.wave) > last}
    now_done = all(outcome.result is Result.DONE for outcome in ended.outcomes if outcome.id not in later)
    return ExitCode.CHANGES if later and now_done else code
