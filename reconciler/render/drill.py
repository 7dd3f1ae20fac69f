"""Reports of drills: text, Markdown, JSON, a page that an auditor reads; and the last drill of a flow in a line."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import Objectives
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.drill import DrillReport, DrillVerdict, ObjectiveSeen
from reconciler.model.reports.failover import FailoverStep
from reconciler.model.state.last_drill import LastDrill
from reconciler.render.cutover import group_item, listed, step_item
from reconciler.render.markup import report_json
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.text import counted, moment, time_words

_WORDS = {"rto": "recovery time", "rpo": "recovery point"}


def drill_verdict(report: DrillReport) -> str:
    way = f"{report.flow} from {report.origin} to {report.destination}"
    if report.verdict is DrillVerdict.FAILED:
        return f"Failed: drill of {way}: {report.failure.splitlines()[0]}"
    figures = ", ".join(figure(each) for each in report.objectives)
    if report.verdict is DrillVerdict.MET:
        return f"Met: drill of {way}: {figures}; every record read once"
    return f"Missed: drill of {way}: {'; '.join(_misses(report))}"


def _misses(report: DrillReport) -> Iterator[str]:
    for objective in report.objectives:
        if objective.missed:
            yield figure(objective)
    records = report.records
    if not records.proved:
        text = f"{records.missing:,} records missing, {records.doubled:,} doubled, {records.different:,} different"
        yield f"{text} of {records.written:,}"
    if not report.exact:
        yield "positions of its group were not exact"


def figure(objective: ObjectiveSeen) -> str:
    """``recovery time 41.0 s (at most 300 s)``."""
    measured = "not measured" if objective.measured_s is None else f"{objective.measured_s:.1f} s"
    declared = "" if objective.declared_s is None else f" (at most {objective.declared_s:g} s)"
    return f"{_WORDS[objective.name]} {measured}{declared}"


def _sections(report: DrillReport) -> Iterator[Section]:
    failure = tuple(SectionItem(each) for each in report.failure.splitlines())
    yield Section("Failed", "the drill did not end", failure, urgent=True)
    yield Section("Left", "not taken back: run the drill again, it begins with that", _lines(report.left), urgent=True)
    yield Section("To know", "", _lines(report.findings), urgent=True)
    yield Section("Objectives", "", tuple(map(_objective, report.objectives)))
    yield Section("What was measured", "", tuple(map(SectionItem, _measured(report))))
    yield Section("Failover", "", tuple(map(step_item, report.steps)))
    yield Section("Way back", "", tuple(map(step_item, report.back_steps)))
    yield Section("Positions", "there, and back", tuple(map(group_item, report.positions)))
    yield Section("Who, when, what", "", tuple(map(SectionItem, _about(report))))


def _lines(texts: tuple[str, ...]) -> tuple[SectionItem, ...]:
    return tuple(SectionItem(head, tuple(more)) for head, *more in (text.splitlines() or [""] for text in texts))


def _objective(objective: ObjectiveSeen) -> SectionItem:
    if objective.declared_s is None:
        return SectionItem(f"none     {figure(objective)}: no {objective.name} is declared for the flow")
    return SectionItem(f"{'MISSED' if objective.missed else 'met':9}{figure(objective)}")


def _measured(report: DrillReport) -> Iterator[str]:
    records = report.records
    if report.recovery_s is not None:
        yield f"recovery time: {report.recovery_s:.1f} s until its group read on {report.destination}"
    if report.back_s is not None:
        yield f"way back: {report.back_s:.1f} s until its group read on {report.origin} again"
    if report.point is not None:
        text = f"recovery point: {counted(report.point.records, 'record')} would have been lost with {report.origin}"
        yield f"{text} at the worst moment, the oldest accepted {report.point.age_s:.1f} s before"
    yield (
        f"records: {records.written:,} written, {records.read_once:,} read once, {records.doubled:,} twice or more, "
        + (f"{records.missing:,} not at all")
    )
    yield f"equality: {records.compared:,} compared on both sides, {records.different:,} different"


def _about(report: DrillReport) -> Iterator[str]:
    form = "%Y-%m-%d %H:%M:%S UTC"
    yield f"from {moment(report.began_ms, form)} to {moment(report.ended_ms, form)}"
    yield f"by {report.who} on {report.host}"
    changed = ", with changes that are not committed" if report.dirty else ""
    yield f"commit {report.commit or 'none'}{changed}"
    places = report.places
    yield f"canary {places.topic} on {report.origin}, copied as {places.copy} to {report.destination}"
    yield f"group {report.group}"
    if places.back:
        yield f"way back {places.back}: {places.written} on {report.destination}, copied as {places.returned}"
    yield f"drill {report.drill}"


def drill_page(report: DrillReport, seal: str = "") -> ReportPage:
    """``seal``: digest of the JSON report in the audit record; the page shows it as evidence."""
    sections = list(_sections(report))
    if seal:
        text = f"{seal} is the digest of this report in JSON, and the audit record of {report.environment} has it"
        ask = "reconciler audit verify ENV --report FILE says whether both are as they were written"
        sections.append(Section("Evidence", "", (SectionItem(text, (ask,)),)))
    return listed("drill", report.environment, drill_verdict(report), sections)


def drill_json(report: DrillReport) -> str:
    """As schemas/reports/drill.schema.json."""
    fields: dict[str, Any] = asdict(report)
    del fields["environment"]
    objectives = [{**asdict(each), "missed": each.missed} for each in report.objectives]
    fields |= {"objectives": objectives, "steps": _rounded(report.steps), "back_steps": _rounded(report.back_steps)}
    for name in ("recovery_s", "back_s"):
        fields[name] = None if fields[name] is None else round(fields[name], 3)
    head = {"verdict": report.verdict.value, "exit_code": int(report.exit_code), "exact": report.exact}
    return report_json("drill", report.environment, **head, **fields)


def _rounded(steps: tuple[FailoverStep, ...]) -> list[FailoverStep]:
    return [replace(step, seconds=round(step.seconds, 3)) for step in steps]


# the last drill of each flow that declares objectives, in status and on the live page

Drills = Mapping[str, LastDrill] | Unknown


def drill_lines(topology: Topology, drills: Drills, now_ms: int) -> list[str]:
    """A line for each of these flows."""
    return [f"drill of {flow}: {drill_words(flow, goals, drills, now_ms)}" for flow, goals in _goals(topology)]


def drill_words(flow: str, goals: Objectives, drills: Drills, now_ms: int) -> str:
    if isinstance(drills, Unknown):
        return f"unknown: {drills.with_todo}"
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
