"""Evaluates rollout gates: which of them fail, with figures. What could not be read fails."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from reconciler.engine.rollout.waves import own_clusters
from reconciler.errors import Unknown
from reconciler.model.changes import MirrorChange
from reconciler.model.environment.rollout import Gates, MirrorGate
from reconciler.model.environment.topology import Topology
from reconciler.model.live import JobState, LiveCluster, LiveMirror
from reconciler.model.plan import Planned
from reconciler.model.reports.health import ClusterHealth, Fault, Short, Sight
from reconciler.replication.status import FlowStatus
from reconciler.text import counted, first_of, time_words

SHOWN = 3


@dataclass(frozen=True, slots=True)
class GateScope:
    """What gates look at. ``flows``: mirror -> its flows that are asked for. Mirrors in ``pending`` are about to be
    started, restarted or stopped by the same plan, so nothing is asked of them yet."""

    clusters: tuple[str, ...]
    flows: Mapping[str, tuple[str, ...]]
    pending: frozenset[str] = frozenset()


def scope_of(topology: Topology, touched: Collection[str], remaining: Iterable[Planned]) -> GateScope:
    """Clusters of ``touched`` and those that exchange records with them: whoever reads there, and what a region would
    be replaced by. ``remaining``: changes that are still to come."""
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
    subject = f"cluster {name}"
    if not isinstance(health, ClusterHealth):
        why = health.error if health is not None else "nobody looked"
        yield Fault("unknown", subject, f"its health could not be read: {why}")
        return
    if len(health.offline) > gates.offline_partitions:
        count, most = counted(len(health.offline), "offline partition"), gates.offline_partitions
        yield Fault(
            "offline_partitions", subject, f"{count}, at most {most} allowed: {first_of(health.offline, SHOWN)}"
        )
    if len(health.short) > gates.under_replicated_partitions:
        count = counted(len(health.short), "under-replicated partition")
        named = [
            f"{short.topic}-{short.index} ({len(short.isr)} of {len(short.replicas)} in sync)" for short in health.short
        ]
        allowed = f"at most {gates.under_replicated_partitions} allowed"
        yield Fault("under_replicated_partitions", subject, f"{count}, {allowed}: {first_of(named, SHOWN)}")


def _of_mirror(gates: Gates, name: str, flows: tuple[str, ...], mirror: LiveMirror | Unknown | None) -> Iterator[Fault]:
    asked = gates.mirrors is not MirrorGate.IGNORED or gates.lag_ms is not None
    if not asked:
        return
    if not isinstance(mirror, LiveMirror):
        why = mirror.error if mirror is not None else "nobody looked"
        yield Fault("unknown", f"mirror {name}", f"its state could not be read: {why}")
        return
    runs = mirror.state is JobState.RUNNING
    match gates.mirrors:
        case MirrorGate.IGNORED:
            pass
        case MirrorGate.RUNNING | MirrorGate.HEALTHY:
            if not runs:
                more = f" ({mirror.detail})" if mirror.detail else ""
                yield Fault("mirrors", f"mirror {name}", f"its job is {mirror.state}{more}, running is wanted")
            elif gates.mirrors is MirrorGate.HEALTHY:
                yield from _stopped(flows, mirror)
        case _:
            assert_never(gates.mirrors)
    if gates.lag_ms is not None and runs:
        for flow in flows:
            yield from _behind(gates.lag_ms, flow, mirror.flows.get(flow), mirror.late_ms)


def _stopped(flows: tuple[str, ...], mirror: LiveMirror) -> Iterator[Fault]:
    for name in flows:
        flow = mirror.flows.get(name)
        count = sum(n for (_, stops), n in flow.counted_conditions.items() if stops) if flow else 0
        if flow and count:
            examples = (f", such as {each.code}: {each.text}" for each in flow.conditions if each.stops)
            text = f"{counted(count, 'condition')} stop copying{next(examples, '')}"
            yield Fault("mirrors", f"flow {name}", text)


def _behind(most_ms: int, name: str, flow: FlowStatus | None, late_ms: int) -> Iterator[Fault]:
    if flow is not None and (flow.pauses or flow.pause_counts):
        return  # somebody holds it still on purpose
    seconds = flow.seconds_lag if flow is not None else None
    allowed = f"at most {time_words(most_ms / 1000)} allowed"
    if seconds is None:
        yield Fault("lag", f"flow {name}", f"its lag is not known yet, {allowed}")
    elif late_ms > most_ms:  # a job that hangs would keep its last good figure
        late = time_words(late_ms / 1000)
        yield Fault("lag", f"flow {name}", f"its lag is not known: the report of its job is {late} late, {allowed}")
    elif seconds * 1000 > most_ms:
        records = f" ({counted(flow.records_lag, 'record')})" if flow is not None and flow.records_lag else ""
        yield Fault("lag", f"flow {name}", f"{time_words(seconds)} behind{records}, {allowed}")
