"""Waves of a rollout and their gates: the wave of each change, a run that ends after one, and the resulting exit code.

A change is in the wave of its cluster, or in a later one because of a change that it waits for. The order within a wave
is that of the plan without waves, so that all waves together keep every dependency.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from reconciler.engine.guards.first_contact import clusters_of
from reconciler.engine.plan.select import Narrowed, without
from reconciler.errors import ExitCode, ReconcilerError, Unknown
from reconciler.model.changes import AddPartitions, AlterConfigs, Change, CreateTopic, MirrorChange, Stage, StopMirror
from reconciler.model.config_values import number
from reconciler.model.environment.rollout import Course, CourseWave, Gates, MirrorGate
from reconciler.model.environment.topology import TopicRef, Topology, clusters_in
from reconciler.model.live import JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.model.reports.health import ClusterHealth, Fault, Short, Sight
from reconciler.model.state.lock import LockRecord
from reconciler.model.state.rollout_progress import Promotion
from reconciler.resources.flows.routes import Route
from reconciler.text import BRIEF, counted, first_of, grouped, suggestion, time_words

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


def code_of(code: ExitCode, plan: Plan, outcomes: Sequence[Outcome], halted: str, until: str = "") -> ExitCode:
    """``code``: by the outcomes alone, of the whole plan. 5 if the rollout ``halted`` after changes of this run or an
    earlier one; 2 if all changes up to the wave ``until`` are done, and later waves remain."""
    if halted:
        failed = any(outcome.result is Result.FAILED for outcome in outcomes)
        return code if code is ExitCode.ERROR and failed else ExitCode.PARTIAL
    course = plan.rollout
    if not until or course is None or plan.unknown or plan.refused:
        return code
    last = course.index(until)
    later = {planned.id for planned in plan.changes if course.index(planned.wave) > last}
    now_done = all(outcome.result is Result.DONE for outcome in outcomes if outcome.id not in later)
    return ExitCode.CHANGES if later and now_done else code


# Gates of a rollout: the unmet ones with figures, and the progress of its waves. An unreadable gate counts as unmet.


@dataclass(frozen=True, slots=True)
class GateScope:
    """The subjects of gates. ``flows``: mirror -> its flows to check. The plan is about to start, restart or stop
    mirrors in ``pending``, so they are not checked yet."""

    clusters: tuple[str, ...]
    flows: Mapping[str, tuple[str, ...]]
    pending: frozenset[str] = frozenset()


def scope_of(topology: Topology, touched: Collection[str], remaining: Iterable[Planned]) -> GateScope:
    """Clusters of ``touched``, and those that exchange records with them: their readers, and the replacements of a lost
    region. ``remaining``: changes still to come."""
    flows = [flow for flow in topology.flows.values() if {flow.source, flow.target} & set(touched)]
    clusters = {*touched, *(side for flow in flows for side in (flow.source, flow.target))}
    names = {flow.name for flow in flows}
    carried = {
        mirror.name: mine
        for mirror in topology.mirrors.values()
        if (mine := tuple(name for name in mirror.flows if name in names))
    }
    pending = frozenset(planned.change.mirror for planned in remaining if isinstance(planned.change, MirrorChange))
    return GateScope(tuple(sorted(clusters & topology.clusters.keys())), carried, pending)


def touched_by(changes: Iterable[Planned], topology: Topology) -> frozenset[str]:
    return frozenset(name for planned in changes for name in own_clusters(planned.change, topology))


def health_of(cluster: LiveCluster) -> ClusterHealth:
    """From a whole look at a cluster."""
    parts = [(name, part) for name, topic in cluster.topics.items() for part in topic.partitions]
    return ClusterHealth(
        cluster.name,
        len(cluster.brokers),
        tuple(f"{name}-{part.index}" for name, part in parts if part.leader < 0),
        tuple(
            Short(name, part.index, part.replicas, part.isr)
            for name, part in parts
            if not set(part.replicas) <= set(part.isr)
        ),
    )


def faults(gates: Gates, scope: GateScope, sight: Sight) -> tuple[Fault, ...]:
    """Empty: all gates hold."""
    all_faults: list[Fault] = []
    for name in scope.clusters:
        all_faults += _of_cluster(gates, name, sight.clusters.get(name))
    for name, flows in scope.flows.items():
        if name not in scope.pending:
            all_faults += _of_mirror(gates, name, flows, sight.mirrors.get(name))
    return tuple(all_faults)


def _of_cluster(gates: Gates, name: str, health: ClusterHealth | Unknown | None) -> Iterator[Fault]:
    """A cluster with unknown health fails its gates: a wave must not continue without seeing it."""
    subject = f"cluster {name}"
    if not isinstance(health, ClusterHealth):
        why = health.error if health is not None else "it was not read"
        yield Fault("unknown", subject, f"its health could not be read: {why}")
        return
    if len(health.offline) > gates.offline_partitions:
        count, most = counted(len(health.offline), "offline partition"), gates.offline_partitions
        text = f"{count}, at most {most} allowed: {first_of(health.offline, BRIEF)}"
        yield Fault("offline_partitions", subject, text)
    if len(health.short) > gates.under_replicated_partitions:
        count, most = counted(len(health.short), "under-replicated partition"), gates.under_replicated_partitions
        named = [f"{it.topic}-{it.index} ({len(it.isr)} of {len(it.replicas)} in sync)" for it in health.short]
        text = f"{count}, at most {most} allowed: {first_of(named, BRIEF)}"
        yield Fault("under_replicated_partitions", subject, text)


def _of_mirror(gates: Gates, name: str, flows: tuple[str, ...], mirror: LiveMirror | Unknown | None) -> Iterator[Fault]:
    """Faults of one mirror and its flows. What is not known is a fault: a gate must not open because nothing was
    read."""
    if gates.mirrors is MirrorGate.IGNORED and gates.lag_ms is None:
        return
    if not isinstance(mirror, LiveMirror):
        why = mirror.error if mirror is not None else "it was not read"
        yield Fault("unknown", f"mirror {name}", f"its state could not be read: {why}")
        return
    runs = mirror.state is JobState.RUNNING
    match gates.mirrors:
        case MirrorGate.IGNORED:
            pass
        case MirrorGate.RUNNING | MirrorGate.HEALTHY:
            if not runs:
                more = f" ({mirror.detail})" if mirror.detail else ""
                yield Fault("mirrors", f"mirror {name}", f"its job is {mirror.state}{more}, not running")
        case _:
            assert_never(gates.mirrors)
    for flow_name in flows if runs else ():
        flow, subject = mirror.flows.get(flow_name), f"flow {flow_name}"
        stopping = sum(n for (_, stops), n in flow.counted_conditions.items() if stops) if flow else 0
        if flow and stopping and gates.mirrors is MirrorGate.HEALTHY:
            examples = (f", such as {each.code}: {each.text}" for each in flow.conditions if each.stops)
            text = f"{counted(stopping, 'condition')} stop copying{next(examples, '')}"
            yield Fault("mirrors", subject, text)
    # A job that does not run is its own fault, unless mirrors are ignored: its last lag is no present one.
    for flow_name in flows if gates.lag_ms is not None and (runs or gates.mirrors is MirrorGate.IGNORED) else ():
        flow, subject = mirror.flows.get(flow_name), f"flow {flow_name}"
        if flow is not None and (flow.pauses or flow.pause_counts):
            continue  # paused on purpose
        seconds, most_ms = flow.seconds_lag if flow is not None else None, gates.lag_ms or 0
        allowed = f"at most {time_words(most_ms / 1000)} allowed"
        if not runs:
            yield Fault("lag", subject, f"its lag is not known: its job is {mirror.state}, {allowed}")
        elif seconds is None:
            yield Fault("lag", subject, f"its lag is not known yet, {allowed}")
        elif mirror.late_ms > most_ms:  # a job that hangs would keep its last good figure
            late = time_words(mirror.late_ms / 1000)
            yield Fault("lag", subject, f"its lag is not known: the report of its job is {late} late, {allowed}")
        elif seconds * 1000 > most_ms:
            records = f" ({counted(flow.records_lag, 'record')})" if flow is not None and flow.records_lag else ""
            yield Fault("lag", subject, f"{time_words(seconds)} behind{records}, {allowed}")


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """The environment's rollout, as its records and its gates show it now."""

    course: Course
    """Waves and gates, as declared now."""
    promotion: Promotion | Unknown | None
    """None: no rollout has begun yet."""
    lock: LockRecord | None
    """None: free, or unreadable."""
    found: tuple[Fault, ...]
    """Unmet gates now, over all clusters."""

    @property
    def under_way(self) -> bool:
        kept = self.promotion
        return isinstance(kept, Promotion) and any(kept.pending(wave.clusters) for wave in self.course.waves)


def rollout_now(
    topology: Topology, live: LiveState, course: Course, kept: Promotion | Unknown | None, lock: LockRecord | None
) -> RolloutStatus:
    clusters = {n: health_of(it) if isinstance(it, LiveCluster) else it for n, it in live.clusters.items()}
    scope = scope_of(topology, frozenset(topology.clusters), ())
    return RolloutStatus(course, kept, lock, faults(course.gates, scope, Sight(clusters, live.mirrors)))


def wave_state(wave: CourseWave, kept: Promotion | Unknown | None) -> str:
    """``not begun``, ``begun``, ``soaking``, ``passed`` or ``unknown``."""
    if isinstance(kept, Unknown):
        return "unknown"
    if kept is None or not any(name in kept.clusters for name in wave.clusters):
        return "not begun"
    pending = kept.pending(wave.clusters)
    return "passed" if not pending else "begun" if kept.begun(pending) else "soaking"
