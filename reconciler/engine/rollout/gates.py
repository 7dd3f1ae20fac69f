"""Gates of a rollout: the unmet ones with figures, and the progress of its waves. An unreadable gate counts as
unmet."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from reconciler.engine.rollout.waves import own_clusters
from reconciler.errors import Unknown
from reconciler.model.changes import MirrorChange
from reconciler.model.environment.rollout import Course, CourseWave, Gates, MirrorGate
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveCluster, LiveMirror, LiveState
from reconciler.model.plan import Planned
from reconciler.model.reports.health import ClusterHealth, Fault, Short, Sight
from reconciler.model.state.lock import LockRecord
from reconciler.model.state.rollout_progress import Promotion
from reconciler.text import BRIEF, counted, first_of, time_words


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
