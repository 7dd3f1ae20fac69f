"""Flows between the same two clusters, folded into one edge, and what an edge says (decision 126)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.model.reports.topology_map import MapFlow, PlanMark, State, worst_mark
from reconciler.render.plan.impact import size
from reconciler.text import counted, grouped, total

_WORST = (State.PROBLEM, State.UNKNOWN, State.IDLE, State.OK)


@dataclass(frozen=True, slots=True)
class Edge:
    """All flows from ``source`` to ``target``, at least one, by name."""

    source: str
    target: str
    flows: tuple[MapFlow, ...]

    @property
    def ends(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def name(self) -> str:
        return self.flows[0].name if len(self.flows) == 1 else counted(len(self.flows), "flow")

    @property
    def state(self) -> State:
        """The worst of its flows."""
        states = {flow.state for flow in self.flows}
        return next(state for state in _WORST if state in states)

    @property
    def mark(self) -> PlanMark | None:
        return worst_mark(frozenset(flow.mark for flow in self.flows if flow.mark is not None))

    @property
    def bytes_per_second(self) -> float | None:
        """None when that of one is not known."""
        rates = [flow.bytes_per_second for flow in self.flows]
        return None if None in rates else sum(rate or 0.0 for rate in rates)

    @property
    def figures(self) -> str:
        """Rate and lag; empty where no flow was looked at."""
        if all(flow.said == "not looked at" for flow in self.flows):
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
        """``restarting`` of one flow, ``2 added, 1 restarting`` of several; empty where the plan leaves all alone."""
        marks = [flow.mark.value for flow in self.flows if flow.mark is not None]
        if len(self.flows) == 1:
            return marks[0] if marks else ""
        return ", ".join(f"{marks.count(mark)} {mark}" for mark in dict.fromkeys(sorted(marks)))


def edges_of(flows: Iterable[MapFlow]) -> tuple[Edge, ...]:
    pairs = grouped(((flow.source, flow.target), flow) for flow in sorted(flows, key=lambda flow: flow.name))
    return tuple(Edge(*ends, tuple(some)) for ends, some in sorted(pairs.items()))
