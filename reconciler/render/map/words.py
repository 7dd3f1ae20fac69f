"""Words of the map for clusters, flows and waves in every format; flows between two clusters, folded into one edge
(decision 126)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.model.config_values import duration
from reconciler.model.reports import topology_map
from reconciler.render.plan.impact import size
from reconciler.text import counted, grouped, total

_WORST = (topology_map.State.PROBLEM, topology_map.State.UNKNOWN, topology_map.State.IDLE, topology_map.State.OK)


@dataclass(frozen=True, slots=True)
class Edge:
    """All flows from ``source`` to ``target``, at least one, by name."""

    source: str
    target: str
    flows: tuple[topology_map.MapFlow, ...]

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def name(self) -> str:
        return self.flows[0].name if len(self.flows) == 1 else counted(len(self.flows), "flow")

    @property
    def state(self) -> topology_map.State:
        """The worst of its flows."""
        states = {flow.state for flow in self.flows}
        return next(state for state in _WORST if state in states)

    @property
    def mark(self) -> topology_map.PlanMark | None:
        return topology_map.worst_mark(frozenset(flow.mark for flow in self.flows if flow.mark is not None))

    @property
    def bytes_per_second(self) -> float | None:
        """None if that of one is not known."""
        rates = [flow.bytes_per_second for flow in self.flows]
        return None if None in rates else sum(rate or 0.0 for rate in rates)

    @property
    def figures(self) -> str:
        """Rate and lag; empty if no flow was looked at."""
        if all(flow.said == topology_map.NOT_LOOKED_AT for flow in self.flows):
            return ""
        rates = [flow.records_per_second for flow in self.flows]
        rate = "rate unknown" if None in rates else f"{sum(each or 0.0 for each in rates):,.0f}/s"
        if rate != "rate unknown" and self.bytes_per_second:
            rate += f" ({size(self.bytes_per_second)}/s)"
        both = rate == "rate unknown" and self.lag == "lag unknown"
        return "rate and lag unknown" if both else f"{rate}, {self.lag}"

    @property
    def lag(self) -> str:
        lag = total(flow.records_lag for flow in self.flows)
        if lag is not None:
            return f"lag {lag:,}"
        known = sum(flow.lag_at_least if flow.records_lag is None else flow.records_lag for flow in self.flows)
        return f"lag at least {known:,}" if known else "lag unknown"

    @property
    def plan_words(self) -> str:
        """``restarting`` for one flow, ``2 added, 1 restarting`` for several; empty if the plan changes none."""
        marks = [flow.mark.value for flow in self.flows if flow.mark is not None]
        if len(self.flows) == 1:
            return marks[0] if marks else ""
        return ", ".join(f"{marks.count(mark)} {mark}" for mark in dict.fromkeys(sorted(marks)))


def edges_of(flows: Iterable[topology_map.MapFlow]) -> tuple[Edge, ...]:
    pairs = grouped(((flow.source, flow.target), flow) for flow in sorted(flows, key=lambda flow: flow.name))
    return tuple(Edge(*ends, tuple(some)) for ends, some in sorted(pairs.items()))


UNKNOWN = "unknown"


def cluster_facts(cluster: topology_map.MapCluster) -> str:
    """``3 brokers, 120 topics``; of a cluster that was not asked, what git declares there."""
    if cluster.brokers is None or cluster.topics is None:
        return f"{counted(cluster.declared, 'topic')} declared"
    return f"{counted(cluster.brokers, 'broker')}, {counted(cluster.topics, 'topic')}"


def planned_words(cluster: topology_map.MapCluster) -> str:
    """``+3 ~2 -1, 1 HIGH, 1 blocked``; ``no change``; empty if no plan is drawn."""
    if cluster.planned is None:
        return ""
    planned = cluster.planned
    signs = {"+": planned.added, "~": planned.changed, "-": planned.removed}
    parts = [" ".join(f"{sign}{count:,}" for sign, count in signs.items() if count)] if any(signs.values()) else []
    words = {"HIGH risk": planned.high_risk, "blocked": planned.blocked, "unknown": planned.unknown}
    return ", ".join([*parts, *(f"{count:,} {word}" for word, count in words.items() if count)]) or "no change"


def cluster_lines(cluster: topology_map.MapCluster) -> Iterator[str]:
    """Lines of a cluster in a chart."""
    yield cluster.name
    yield cluster_facts(cluster)
    yield from cluster.problems
    if plan := planned_words(cluster):
        yield plan


def flow_rate(flow: topology_map.MapFlow) -> str:
    """``1,200/s (9.4 MiB/s)``."""
    if flow.records_per_second is None:
        return UNKNOWN
    volume = f" ({size(flow.bytes_per_second)}/s)" if flow.bytes_per_second else ""
    return f"{flow.records_per_second:,.0f}/s{volume}"


def flow_lag(flow: topology_map.MapFlow) -> str:
    """``1,234 (0.5 s)``."""
    if flow.records_lag is None:
        return f"at least {flow.lag_at_least:,}" if flow.lag_at_least else UNKNOWN
    return f"{flow.records_lag:,}" + (f" ({flow.seconds_lag:,.1f} s)" if flow.seconds_lag is not None else "")


def flow_delivery(flow: topology_map.MapFlow) -> str:
    """``exactly_once``; ``exactly_once, same offsets`` if copies keep the source's."""
    return f"{flow.delivery}, same offsets" if flow.offsets == "same" else flow.delivery


def flow_state(flow: topology_map.MapFlow) -> str:
    conditions = f", {counted(flow.conditions, 'condition')}" if flow.conditions else ""
    return f"{flow.said}{conditions}"


def wave_lines(wave: topology_map.MapWave) -> Iterator[str]:
    """Its clusters; then changes, soak and state."""
    yield ", ".join(wave.clusters)
    parts = [counted(wave.changes, "change")] if wave.changes is not None else []
    parts.append(f"soak {duration(wave.soak_ms)}" if wave.soak_ms else "no soak")
    yield ", ".join([*parts, wave.state] if wave.state else parts)


def headline(drawn: topology_map.TopologyMap) -> str:
    """The verdict of the plan; else clusters, flows, and their problems and unknowns."""
    if drawn.planned:
        return drawn.verdict
    head = f"{counted(len(drawn.clusters), 'cluster')}, {counted(len(drawn.flows), 'flow')}"
    if not drawn.live:
        return f"{head}, as git declares them; no cluster was asked"
    states = [*(cluster.state for cluster in drawn.clusters), *(flow.state for flow in drawn.flows)]
    problems, unknown = states.count(topology_map.State.PROBLEM), states.count(topology_map.State.UNKNOWN)
    idle = [flow.state for flow in drawn.flows].count(topology_map.State.IDLE)
    words = f"{counted(problems, 'problem')}, {unknown:,} unknown"
    return f"{head}: {words}" + (f", {counted(idle, 'flow')} not copying" if idle else "")


def legend(drawn: topology_map.TopologyMap) -> str:
    lines = "Lines: solid copies, dotted does not copy, dashed unknown; thicker is more bytes per second."
    return f"{lines} Colours and words on them: the plan." if drawn.planned else lines
