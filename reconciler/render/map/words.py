"""What the map says of clusters, flows and waves, for every format."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.reports.topology_map import MapCluster, MapFlow, MapWave, PlannedCounts, State, TopologyMap
from reconciler.render.plan.impact import size
from reconciler.render.plan.waves import duration
from reconciler.text import counted

UNKNOWN = "unknown"


def cluster_facts(cluster: MapCluster) -> str:
    """``3 brokers, 120 topics``; where it was not asked, what git declares there."""
    if cluster.brokers is None or cluster.topics is None:
        return f"{counted(cluster.declared, 'topic')} declared"
    return f"{counted(cluster.brokers, 'broker')}, {counted(cluster.topics, 'topic')}"


def planned_words(cluster: MapCluster) -> str:
    """``+3 ~2 -1, 1 HIGH, 1 blocked``; ``no change``; empty where no plan is drawn."""
    if cluster.planned is None:
        return ""
    return ", ".join([*_planned(cluster.planned)]) or "no change"


def _planned(planned: PlannedCounts) -> Iterator[str]:
    signs = {"+": planned.added, "~": planned.changed, "-": planned.removed}
    if any(signs.values()):
        yield " ".join(f"{sign}{count:,}" for sign, count in signs.items() if count)
    words = {"HIGH risk": planned.high_risk, "blocked": planned.blocked, "unknown": planned.unknown}
    yield from (f"{count:,} {word}" for word, count in words.items() if count)


def flow_rate(flow: MapFlow) -> str:
    """``1,200/s (9.4 MiB/s)``."""
    if flow.records_per_second is None:
        return UNKNOWN
    volume = f" ({size(flow.bytes_per_second)}/s)" if flow.bytes_per_second else ""
    return f"{flow.records_per_second:,.0f}/s{volume}"


def flow_lag(flow: MapFlow) -> str:
    """``1,234 (0.5 s)``."""
    if flow.records_lag is None:
        return f"at least {flow.lag_at_least:,}" if flow.lag_at_least else UNKNOWN
    return f"{flow.records_lag:,}" + (f" ({flow.seconds_lag:,.1f} s)" if flow.seconds_lag is not None else "")


def flow_delivery(flow: MapFlow) -> str:
    """``exactly_once``; ``exactly_once, same offsets`` where copies keep the source's."""
    return f"{flow.delivery}, same offsets" if flow.offsets == "same" else flow.delivery


def flow_state(flow: MapFlow) -> str:
    conditions = f", {counted(flow.conditions, 'condition')}" if flow.conditions else ""
    return f"{flow.said}{conditions}"


def wave_lines(wave: MapWave) -> Iterator[str]:
    """Its clusters; then changes, soak and state."""
    yield ", ".join(wave.clusters)
    parts = [counted(wave.changes, "change")] if wave.changes is not None else []
    parts.append(f"soak {duration(wave.soak_ms)}" if wave.soak_ms else "no soak")
    yield ", ".join([*parts, wave.state] if wave.state else parts)


def headline(drawn: TopologyMap) -> str:
    """The verdict of the plan; else clusters, flows, and what is wrong or not known with them."""
    if drawn.planned:
        return drawn.verdict
    head = f"{counted(len(drawn.clusters), 'cluster')}, {counted(len(drawn.flows), 'flow')}"
    if not drawn.live:
        return f"{head}, as git declares them; no cluster was asked"
    states = [*(cluster.state for cluster in drawn.clusters), *(flow.state for flow in drawn.flows)]
    problems, unknown = states.count(State.PROBLEM), states.count(State.UNKNOWN)
    idle = [flow.state for flow in drawn.flows].count(State.IDLE)
    words = f"{counted(problems, 'problem')}, {unknown:,} unknown"
    return f"{head}: {words}" + (f", {counted(idle, 'flow')} not copying" if idle else "")


def legend(drawn: TopologyMap) -> str:
    lines = "Lines: solid copies, dotted does not copy, dashed unknown; thicker is more bytes per second."
    return f"{lines} Colours and words on them: the plan." if drawn.planned else lines
