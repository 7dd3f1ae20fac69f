"""The last drill of each flow that declares objectives, in ``status`` and on the live page."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Objectives, Topology
from reconciler.model.reports.drill import ObjectiveSeen
from reconciler.model.state.last_drill import LastDrill
from reconciler.render.drill import figure
from reconciler.text import moment, time_words

Drills = Mapping[str, LastDrill] | Unknown


def drill_lines(topology: Topology, drills: Drills, now_ms: int) -> list[str]:
    """A line for each of these flows."""
    return [f"drill of {flow}: {drill_words(flow, goals, drills, now_ms)}" for flow, goals in _goals(topology)]


def drill_words(flow: str, goals: Objectives, drills: Drills, now_ms: int) -> str:
    if isinstance(drills, Unknown):
        return f"unknown: {drills.error}. {drills.todo}"
    last = drills.get(flow)
    if last is None:
        return f"none yet, although objectives are declared: reconciler drill ENV {flow}"
    measured = ("rto", goals.rto_ms, last.recovery_s), ("rpo", goals.rpo_ms, last.point_s)
    figures = [figure(ObjectiveSeen(name, _s(declared), seen)) for name, declared, seen in measured]
    words = [f"{last.verdict} at {moment(last.at_ms)} by {last.who}", *figures]
    if overdue(goals, last, now_ms):
        when = f"at {moment(last.met_ms)}" if last.met_ms else "never"
        every = time_words((goals.drill_every_ms or 0) / 1000)
        words.append(f"OVERDUE: met {when}, to be met every {every}: reconciler drill ENV {flow}")
    return ", ".join(words)


def drill_values(topology: Topology, drills: Drills, now_ms: int) -> dict[str, dict[str, Any]]:
    """As ``drills`` of schemas/status-report.schema.json."""
    return {flow: _value(flow, goals, drills, now_ms) for flow, goals in _goals(topology)}


def overdue(goals: Objectives, last: LastDrill | None, now_ms: int) -> bool | None:
    """None: how often is not declared."""
    if goals.drill_every_ms is None:
        return None
    return now_ms - (0 if last is None else last.met_ms) > goals.drill_every_ms


def _value(flow: str, goals: Objectives, drills: Drills, now_ms: int) -> dict[str, Any]:
    declared = {"rto_s": _s(goals.rto_ms), "rpo_s": _s(goals.rpo_ms), "every_s": _s(goals.drill_every_ms)}
    if isinstance(drills, Unknown):
        return {"state": "unknown", "error": drills.error, "todo": drills.todo, **declared}
    last = drills.get(flow)
    late = {"overdue": overdue(goals, last, now_ms), **declared}
    if last is None:
        return {"state": "never", **late}
    seen = {"at_ms": last.at_ms, "met_ms": last.met_ms, "who": last.who}
    return {"state": last.verdict, **seen, "recovery_s": last.recovery_s, "point_s": last.point_s, **late}


def _goals(topology: Topology) -> Iterator[tuple[str, Objectives]]:
    return ((flow.name, flow.objectives) for flow in topology.flows.values() if flow.objectives is not None)


def _s(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
