"""The plan of a cut-over, the report of its run, and reports of drills: text, Markdown, HTML, JSON."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, assert_never

from reconciler.engine.plan.file import SavedKind
from reconciler.errors import Unknown
from reconciler.model.environment.flow_settings import Objectives
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.cutover import CutoverPlan, CutoverReport, GroupSeen, TopicSeen
from reconciler.model.reports.drill import DrillReport, DrillVerdict, ObjectiveSeen
from reconciler.model.reports.failover import FailoverStep, Level, StepResult
from reconciler.model.state.last_drill import LastDrill
from reconciler.render.markup import FORMAT_VERSION, PLAIN, Format, Style, lines_of, markdown, report_json
from reconciler.render.plan.html import report_html
from reconciler.render.plan.sections import ReportPage, Section, SectionItem
from reconciler.render.reports.failover import check_sections
from reconciler.replication.json_codec import Codec
from reconciler.text import counted, first_of, moment, time_words, total

_SHOWN, _ROWS = 5, 40


def plan_verdict(plan: CutoverPlan) -> str:
    if plan.blocked:
        stops = sum(check.level is Level.STOPS for check in plan.checks)
        return f"Blocked: cut-over of {plan.flow}: {counted(stops, 'check')} {'stops' if stops == 1 else 'stop'} it"
    if not plan.topics:
        return f"Nothing to do: no topic of {plan.flow} is chosen"
    again, missed = (total([getattr(group, which) for group in plan.groups]) for which in ("again", "missed"))
    moves = f"Would move {counted(len(plan.topics), 'topic')} and {counted(len(plan.groups), 'group')}"
    stop = "unknown" if plan.stop_s is None else f"about {time_words(round(plan.stop_s))}"
    reads = f"{count_words(again)} records read again, {count_words(missed)} missed"
    return f"{moves} from {plan.origin} to {plan.destination}: {reads}; writes stop for {stop}"


def count_words(count: int | None) -> str:
    return "an unknown number of" if count is None else f"{count:,}"


def _plan_sections(plan: CutoverPlan) -> Iterator[Section]:
    stops, warns, fine = check_sections(plan.checks)
    yield from (stops, warns)
    steps = [SectionItem(f"{step.name}: {step.text}", (f"back by {step.rollback}",)) for step in plan.steps]
    yield Section("Steps", "in this order; each looks first", tuple(steps))
    yield Section("Topics", "what is left to copy, and who writes", tuple(map(_topic, plan.topics)))
    yield Section(
        "Groups", f"who reads, and what each reads again on {plan.destination}", tuple(map(group_item, plan.groups))
    )
    others = tuple(SectionItem(f"{name} {why}") for name, why in sorted(plan.unsupported.items()))
    yield Section("Groups with more than offsets", "", others)
    rules = tuple(SectionItem(str(rule)) for rule in sorted(plan.fence.rules))
    yield Section("Fence", f"rules to create on {plan.origin}", rules)
    yield fine


def _topic(topic: TopicSeen) -> SectionItem:
    left = "an unknown number of offsets" if topic.left is None else counted(topic.left, "offset")
    head = f"{topic.topic} to {topic.copy}, {counted(topic.partitions, 'partition')}: {left} to copy, "
    head += f"{topic.rate:,.1f} written a second"
    lines = [f"may write by rules: {first_of(topic.writers, _SHOWN)}"] if topic.writers else []
    newest = {each.producer_id: each for each in sorted(topic.producers, key=lambda each: each.last_ms)}
    words = [f"{each.words} (last record {moment(each.last_ms)})" for each in newest.values() if each.last_ms >= 0]
    lines += [f"written by: {first_of(words[::-1], _SHOWN)}"] if words else []
    return SectionItem(head, tuple(lines))


def group_item(group: GroupSeen) -> SectionItem:
    bound = "" if group.exact else "at most "
    head = f"{group.group} ({group.kind or 'classic'}): {counted(group.offsets, 'offset')}, "
    head += f"{bound}{count_words(group.again)} records again, {bound}{count_words(group.missed)} missed"
    who = [f"{each.client_id} {each.host}" for each in group.members]
    lines = [f"{counted(len(who), 'member')}: {first_of(who, _SHOWN)}"] if who else []
    return SectionItem(head, (*lines, *((group.note,) if group.note else ())))


def report_verdict(report: CutoverReport) -> str:
    plan = report.plan
    if report.own:
        records = counted(sum(report.own.values()), "record")
        head = f"Blocked: {plan.destination} has {records} of its own in {first_of(list(report.own), _SHOWN)}"
        return f"{head}: this is a failback: reconciler failback ENV {plan.flow} --dry-run"
    if report.failed is not None:
        return f"Stopped: cutover {report.command} of {plan.flow} at step {report.failed.name}"
    if not report.steps and report.command == "apply":
        return f"Nothing to do: the cut-over of {plan.flow} by this plan is done; another one needs a plan of its own"
    if not report.steps:
        return f"Nothing to do: no cut-over of {plan.flow} by this plan is to be taken back"
    if all(step.result in (StepResult.ALREADY, StepResult.SKIPPED) for step in report.steps):
        return f"Nothing to do: cutover {report.command} of {plan.flow} was done already"
    if report.command == "rollback":
        return f"Taken back: clients of {plan.flow} are on {plan.origin}"
    again, missed = (total([getattr(group, which) for group in report.groups]) for which in ("again", "missed"))
    reads = f": {count_words(again)} records read again, {count_words(missed)} missed" if report.groups else ""
    stop = "" if report.stopped_s is None else f"; writes stopped for {report.stopped_s:.1f} s"
    return f"Moved {counted(len(plan.topics), 'topic')} from {plan.origin} to {plan.destination}{reads}{stop}"


def step_item(step: FailoverStep) -> SectionItem:
    word = "FAILED" if step.result is StepResult.FAILED else step.result.value
    head, *more = step.text.split("\n")
    return SectionItem(f"{word:8}{step.name:13}{head} ({step.seconds:.1f} s)", tuple(more))


def report_document(report: CutoverReport, exit_code: int) -> str:
    """As schemas/reports/cutover.schema.json."""
    plan = report.plan
    fields: dict[str, Any] = {"groups": report.groups, "own_records": report.own}
    return report_json(
        "cutover" if report.command == "apply" else report.command,
        plan.environment,
        flow=plan.flow,
        origin=plan.origin,
        destination=plan.destination,
        verdict=report_verdict(report),
        exit_code=exit_code,
        seconds=round(report.seconds, 3),
        writes_stopped_s=None if report.stopped_s is None else round(report.stopped_s, 3),
        steps=[replace(step, seconds=round(step.seconds, 3)) for step in report.steps],
        findings=report.findings,
        **fields,
    )


def plan_page(plan: CutoverPlan) -> ReportPage:
    return listed("cutover plan", plan.environment, plan_verdict(plan), _plan_sections(plan))


def report_page(report: CutoverReport) -> ReportPage:
    findings = tuple(map(SectionItem, report.findings))
    own = tuple(SectionItem(f"{name}: {counted(count, 'record')}") for name, count in report.own.items())
    sections = (
        Section("Records of its own", f"on {report.plan.destination}, so nothing was taken back", own, urgent=True),
        Section("To know", "", findings, urgent=True),
        Section("Steps", "", tuple(map(step_item, report.steps))),
        Section("Groups", "", tuple(map(group_item, report.groups))),
    )
    return listed(f"cutover {report.command}", report.plan.environment, report_verdict(report), sections)


def listed(kind: str, environment: str, verdict: str, sections: Iterable[Section]) -> ReportPage:
    """A page without empty sections."""
    return ReportPage(kind, environment, verdict, tuple(section for section in sections if section.items))


def page_in(form: Format, page: ReportPage, json: Callable[[], str], style: Style = PLAIN) -> str:
    match form:
        case Format.TEXT:
            lines = [style.paint("bold", page.verdict), f"environment {page.environment}"]
            for section in page.sections:
                lines += ["", style.paint("bold", section.heading)]
                for item in section.items[:_ROWS]:
                    lines += [f"  {item.text}", *(f"      {line}" for line in item.more)]
                if len(section.items) > _ROWS:
                    lines.append(f"  and {len(section.items) - _ROWS:,} more; --format json has them all")
            return lines_of(lines, style)
        case Format.JSON:
            return json()
        case Format.MARKDOWN:
            lines = [f"**{markdown(page.verdict)}**"]
            for section in page.sections:
                lines += ["", f"### {markdown(section.heading)}", ""]
                for item in section.items[:_ROWS]:
                    lines += [f"- {markdown(item.text)}", *(f"  - {markdown(line)}" for line in item.more)]
                if len(section.items) > _ROWS:
                    lines.append(f"- and {len(section.items) - _ROWS:,} more")
            return lines_of(lines)
        case Format.HTML:
            return report_html(page)
        case _:
            assert_never(form)


_CODEC, _KIND = Codec(), "cutoverplan"
_DERIVED = ("kind", "format_version", "verdict", "exit_code")


def _document(plan: CutoverPlan) -> dict[str, Any]:
    head = {"format_version": FORMAT_VERSION, "kind": _KIND, "verdict": plan_verdict(plan)}
    return {**head, "exit_code": int(plan.exit_code), **_CODEC.encoded(plan)}


def _plan(document: Mapping[str, Any]) -> CutoverPlan:
    return _CODEC.decoded(CutoverPlan, {key: value for key, value in document.items() if key not in _DERIVED})


PLAN_FILE = SavedKind(
    _KIND,
    "plan of a cut-over",
    "reports/cutover-plan.schema.json",
    "Make a new one with cutover plan --out, and do not edit it.",
    FORMAT_VERSION,
    _document,
    _plan,
)
"""The saved plan, which ``cutover apply`` and ``rollback`` read."""


# Reports of drills: text, Markdown, JSON, a page that an auditor reads; and the last drill of a flow in a line.

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
