"""Which gates do not hold, with figures. What could not be read does not hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import assert_never

from reconciler.changes import MirrorChange
from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.healths import ClusterHealth, Fault, Short, Sight
from reconciler.live import FlowStatus, JobState, LiveCluster, LiveMirror
from reconciler.plans import Planned
from reconciler.rollout.assigning import own_clusters
from reconciler.rollouts import Gates, MirrorGate
from reconciler.sizes import time_words
from reconciler.topology import Topology

SHOWN = 3


@dataclass(frozen=True, slots=True)
class Scope:
    """What gates look at. ``flows``: mirror -> its flows that are asked for. Mirrors in ``pending`` are about to be
    started, restarted or stopped by the same plan, so nothing is asked of them yet."""

    clusters: tuple[str, ...]
    flows: Mapping[str, tuple[str, ...]]
    pending: frozenset[str] = frozenset()


def scope_of(topology: Topology, touched: Collection[str], left: Iterable[Planned]) -> Scope:
    """Clusters of ``touched`` and those that exchange records with them: whoever reads there, and what a region would
    be replaced by. ``left``: changes that are still to come."""
    flows = [one for one in topology.flows.values() if {one.source, one.target} & set(touched)]
    clusters = {*touched, *(side for one in flows for side in (one.source, one.target))}
    names = {one.name for one in flows}
    carried = {
        mirror.name: mine
        for mirror in topology.mirrors.values()
        if (mine := tuple(name for name in mirror.flows if name in names))
    }
    pending = frozenset(one.change.mirror for one in left if isinstance(one.change, MirrorChange))
    return Scope(tuple(sorted(clusters & topology.clusters.keys())), carried, pending)


def touched_by(changes: Iterable[Planned], topology: Topology) -> frozenset[str]:
    return frozenset(name for one in changes for name in own_clusters(one.change, topology))


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


def faults(gates: Gates, scope: Scope, sight: Sight) -> tuple[Fault, ...]:
    """Empty: all gates hold."""
    found: list[Fault] = []
    for name in scope.clusters:
        found += _of_cluster(gates, name, sight.clusters.get(name))
    for name, flows in scope.flows.items():
        if name not in scope.pending:
            found += _of_mirror(gates, name, flows, sight.mirrors.get(name))
    return tuple(found)


def _of_cluster(gates: Gates, name: str, health: ClusterHealth | Unknown | None) -> Iterator[Fault]:
    subject = f"cluster {name}"
    if not isinstance(health, ClusterHealth):
        why = health.error if health is not None else "nobody looked"
        yield Fault("unknown", subject, f"its health could not be read: {why}")
        return
    if len(health.offline) > gates.offline_partitions:
        count, most = counted(len(health.offline), "offline partition"), gates.offline_partitions
        yield Fault("offline_partitions", subject, f"{count}, at most {most} allowed: {_listed(health.offline)}")
    if len(health.short) > gates.under_replicated_partitions:
        count = counted(len(health.short), "under-replicated partition")
        named = [f"{one.topic}-{one.index} ({len(one.isr)} of {len(one.replicas)} in sync)" for one in health.short]
        allowed = f"at most {gates.under_replicated_partitions} allowed"
        yield Fault("under_replicated_partitions", subject, f"{count}, {allowed}: {_listed(named)}")


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
        told = mirror.flows.get(name)
        stopping = [one for one in told.conditions if one.get("stops")] if told else []
        if stopping:
            first = stopping[0]
            text = f"{counted(len(stopping), 'condition')} stop copying, such as {first['code']}: {first['text']}"
            yield Fault("mirrors", f"flow {name}", text)


def _behind(most_ms: int, name: str, flow: FlowStatus | None, late_ms: int) -> Iterator[Fault]:
    if flow is not None and flow.pauses:
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


def _listed(names: Collection[str]) -> str:
    shown = list(names)[:SHOWN]
    return ", ".join(shown) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
