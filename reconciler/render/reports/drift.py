"""The report of ``drift``: what differs from git, and its cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from reconciler.engine.drift.causes import NOTHING, differences, drift_exit_code
from reconciler.model.changes import OutsideChange
from reconciler.model.plan import Plan
from reconciler.model.reports.drift import History
from reconciler.render.escape import lines_of
from reconciler.render.plan.outside import outside_lines, outside_sections
from reconciler.render.plan.sections import ReportPage, Section, SectionItem, SectionTable, left_sections
from reconciler.render.plan.text import left_lists
from reconciler.render.report_json import report_json
from reconciler.render.style import PLAIN, Format, Style
from reconciler.text import counted, grouped


def drift_verdict(plan: Plan) -> str:
    count, unknown = len(differences(plan)), f"{len(plan.unknown)} unknown"
    if count:
        parts = [f"Drift: {counted(count, 'difference')}"]
    elif plan.unknown:
        parts = [f"Not fully known: {unknown}", "no difference in what was read"]
    else:
        parts = ["No drift: everything read is as declared"]
    parts += [f"{len(plan.refused)} that apply cannot fix"] if plan.refused else []
    return "; ".join([*parts, unknown] if plan.unknown and count else parts)


def drift_text(plan: Plan, style: Style = PLAIN, history: History = NOTHING) -> str:
    lines = [style.paint("bold", drift_verdict(plan)), f"environment {plan.basis.environment}"]
    alike = grouped(
        ((item.kind, item.found, item.aim, item.cause, item.why), item.subject) for item in differences(plan, history)
    )
    for (kind, text, aim, cause, why), subjects in alike.items():
        lines.append(f"  {style.paint('~', kind)}: {style.listed(subjects)} live: {text}, {aim}")
        lines.append(f"    {cause}: {why}")
    lines += outside_lines(plan, style, _shown_subjects(plan))
    return lines_of([*lines, *left_lists(plan, style, unmanaged=True)], style)


def _shown_subjects(plan: Plan) -> frozenset[str]:
    """What a difference shows, by itself or by its cause."""
    return frozenset(difference.subject for difference in differences(plan))


def drift_page(plan: Plan, form: Format, history: History = NOTHING) -> ReportPage:
    """A comment has the values in the line of what differs, a page below it."""
    items = []
    for item in differences(plan, history):
        values, cause = (f"live: {item.found}", item.aim), f"{item.cause}: {item.why}"
        if form is Format.MARKDOWN:
            items.append(SectionItem(f"{item.subject} {', '.join(values)}", (cause,), sign="~"))
        else:
            items.append(SectionItem(item.subject, (*values, cause), sign="~"))
    why = "the clusters are not as git declares"
    drifted = Section("Differences", why, tuple(items), urgent=True, table=_table(plan, history))
    left = left_sections(plan, unmanaged=True)
    sections = (*([drifted] if items else ()), *outside_sections(plan, _shown_subjects(plan)), *left)
    return ReportPage("drift", plan.basis.environment, drift_verdict(plan), sections, plan.basis)


def _table(plan: Plan, history: History) -> SectionTable:
    """What is alike stands in one row."""
    alike = grouped(
        ((item.found, item.wished, item.origin or "declared", item.cause, item.why), item.subject)
        for item in differences(plan, history)
    )
    rows = (
        (tuple(subjects), live, desired, origin, f"{cause}: {why}")
        for (live, desired, origin, cause, why), subjects in alike.items()
    )
    return SectionTable(("what", "live", "desired", "by", "cause"), tuple(rows))


def _outside(change: OutsideChange) -> Mapping[str, object]:
    fields = {**asdict(change), "subject": str(change.subject)}
    if (copied := change.copied_again) is None:
        del fields["copied_again"]
    else:
        fields["copied_again"] = {**asdict(copied), "source": str(copied.source)}
    return fields


def drift_json(plan: Plan, history: History = NOTHING) -> str:
    """As schemas/drift.schema.json."""
    outside = [_outside(change) for change in plan.outside]
    return report_json(
        "drift",
        plan.basis.environment,
        revision=plan.basis.revision,
        verdict=drift_verdict(plan),
        exit_code=drift_exit_code(plan),
        complete=not plan.unknown,
        clusters=plan.basis.clusters,
        differences=differences(plan, history),
        refused=[{**asdict(refusal), "subject": str(refusal.subject)} for refusal in plan.refused],
        unknown=plan.unknown,
        unmanaged=plan.unmanaged,
        unmanaged_acls=[{"cluster": acl.cluster, "acl": str(acl.acl)} for acl in plan.unmanaged_acls],
        ignored=[{**asdict(ignored), "subject": str(ignored.subject)} for ignored in plan.ignored],
        **({"outside": outside} if outside else {}),
    )
