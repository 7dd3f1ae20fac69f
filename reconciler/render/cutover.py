"""The plan of a cut-over and the report of its run: text, Markdown, HTML, JSON. ``page_in`` also shows other reports of
titled lists, such as a drill's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, assert_never

from reconciler.engine.plan.file import SavedKind
from reconciler.model.reports.cutover import CutoverPlan, CutoverReport, GroupSeen, TopicSeen
from reconciler.model.reports.failover import FailoverStep, Level, StepResult
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
