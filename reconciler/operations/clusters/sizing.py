"""``size``: estimates what each mirror needs, from its job's reports and the growth of its topics."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from reconciler.backends.clusters.impact import read_stakes
from reconciler.engine.sizing import FlowLoad, MirrorSize, flow_size, growth, mirror_size
from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Flow, Principal, Topology
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.plan import ImpactQuery
from reconciler.operations.session.session import open_session
from reconciler.resources.flows.routes import Route, find_routes
from reconciler.text import total

Bytes = Mapping[tuple[str, str], int | None]
"""(cluster, topic) -> size of one replica; None if it could not be read."""


MOST = 1_000_000


def sizes(env: Path, headroom: float, seconds: float) -> tuple[str, tuple[MirrorSize, ...]]:
    """The environment's name, and sizes of its mirrors. Where a flow's job reports no rate, source topics are read
    twice, ``seconds`` apart. Raises ReconcilerError."""
    for option, number in (("--headroom", headroom), ("--seconds", seconds)):
        if not number <= MOST:  # nor what is no number
            raise ReconcilerError(f"{option} is {number:g}", "No size follows from it.", f"Give at most {MOST:,}.")
    with open_session(env, Principal.PLAN) as session:
        live, topology = session.observe(), session.topology
    routes = find_routes(topology, live).routes
    first, began = _held(topology, live, routes), time.monotonic()
    silent = [flow for flow in topology.flows.values() if _reported(topology, live, flow) is None]
    later = first
    if silent:
        time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        later = _held(topology, live, routes)
    passed = max(time.monotonic() - began, 0.001)
    loads = {
        flow.name: _load(topology, live, flow, [r for r in routes if r.flow == flow.name], (first, later, passed))
        for flow in topology.flows.values()
    }
    sources = {flow.name: flow.source for flow in topology.flows.values()}
    return topology.environment, tuple(
        mirror_size(mirror, [flow_size(loads[name], headroom) for name in mirror.flows], sources)
        for mirror in topology.mirrors.values()
    )


def _reported(topology: Topology, live: LiveState, flow: Flow) -> float | None:
    """Bytes per second of a job that keeps up; None otherwise: the rate of a lagging job is its limit, not the load."""
    for mirror in topology.mirrors.values():
        job = live.mirrors.get(mirror.name)
        if flow.name not in mirror.flows or not isinstance(job, LiveMirror) or job.state is not JobState.RUNNING:
            continue
        status = job.flows.get(flow.name)
        if status is not None and job.lag_is_current and status.seconds_lag is not None and status.seconds_lag < 60:
            return status.bytes_per_second
    return None


def _held(topology: Topology, live: LiveState, routes: Sequence[Route]) -> Bytes:
    """Bytes of one replica of each topic, from DescribeLogDirs; None where they cannot be read."""
    held: dict[tuple[str, str], int | None] = {}
    for name, cluster in topology.clusters.items():
        known = live.known(name)
        names = sorted({route.source.name for route in routes if route.source.cluster == name})
        topics = [] if known is None else [known.topics[each] for each in names if each in known.topics]
        queries = [ImpactQuery.of(topic) for topic in topics]
        stakes = read_stakes(cluster, Principal.PLAN, queries) if queries else {}
        for topic in topics:
            on_disk, factor = stakes[topic.name].bytes, topic.replication_factor
            held[name, topic.name] = None if on_disk is None or not factor else on_disk // factor
    return held


def _load(
    topology: Topology, live: LiveState, flow: Flow, routes: Sequence[Route], looks: tuple[Bytes, Bytes, float]
) -> FlowLoad:
    """``looks``: two readings of the bytes on disk and the seconds between. The rate of a running mirror is preferred
    to the growth on disk, which retention makes too small."""
    rate: float | Unknown | None = _reported(topology, live, flow)
    cluster = live.clusters[flow.source]
    if isinstance(cluster, Unknown):  # no topic of it was seen, which does not mean that it has none
        return FlowLoad(flow, cluster if rate is None else rate, cluster, cluster, cluster)
    first, later, seconds = looks
    sources = {(route.source.cluster, route.source.name) for route in routes}
    before, after = (total(held.get(topic) for topic in sources) for held in (first, later))
    if rate is None:
        rate = growth(before, after, seconds, f"flow {flow.name}")
    counts = [len(cluster.topics[name].partitions) if name in cluster.topics else None for _, name in sources]
    partitions = [count for count in counts if count is not None]
    unread = Unknown(f"flow {flow.name}", "its topics could not be read", "reconciler doctor ENV names missing rights")
    factors = {route.replication_factor for route in routes if route.replication_factor}
    return FlowLoad(
        flow,
        rate,
        sum(partitions) if len(partitions) == len(counts) else unread,
        after if after is not None else unread,
        max(factors) if factors else Unknown(f"flow {flow.name}", "the factor of its remote topics is not known"),
    )
