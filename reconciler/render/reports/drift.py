"""The reports of ``drift``, differences from git with their causes, and of ``parity``, differences between clusters."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from reconciler.engine.drift.causes import NOTHING, differences, drift_exit_code
from reconciler.model.plan import Plan
from reconciler.model.reports.drift import Disparity, History, Parity
from reconciler.render.markup import PLAIN, Format, Style, lines_of, report_json
from reconciler.render.plan import sections
from reconciler.render.plan.formats import report_in
from reconciler.render.plan.text import left_lists
from reconciler.text import counted, grouped


def drift_in(plan: Plan, form: Format, style: Style = PLAIN, history: History = NOTHING) -> str:
    text, page = partial(drift_text, plan, style, history), partial(drift_page, plan, form, history)
    return report_in(form, text, partial(drift_json, plan, history), page)


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
    lines += sections.outside_lines(plan, style, _shown_subjects(plan))
    return lines_of([*lines, *left_lists(plan, style, unmanaged=True)], style)


def _shown_subjects(plan: Plan) -> frozenset[str]:
    """What a difference shows, by itself or by its cause."""
    return frozenset(difference.subject for difference in differences(plan))


def drift_page(plan: Plan, form: Format, history: History = NOTHING) -> sections.ReportPage:
    drift = differences(plan, history)
    items = []
    for item in drift:
        values, cause = (f"live: {item.found}", item.aim), f"{item.cause}: {item.why}"
        if form is Format.MARKDOWN:  # a comment has no table, so the line itself needs the values
            items.append(sections.SectionItem(f"{item.subject} {', '.join(values)}", (cause,), sign="~"))
        else:
            items.append(sections.SectionItem(item.subject, (*values, cause), sign="~"))
    alike = grouped(
        ((item.found, item.wished, item.origin or "declared", item.cause, item.why), item.subject) for item in drift
    )
    rows = (
        (tuple(subjects), live, desired, origin, f"{cause}: {why}")
        for (live, desired, origin, cause, why), subjects in alike.items()
    )
    table = sections.SectionTable(("what", "live", "desired", "by", "cause"), tuple(rows))
    why = "the clusters are not as git declares"
    drifted = sections.Section("Differences", why, tuple(items), urgent=True, table=table)
    left = sections.left_sections(plan, unmanaged=True)
    shown = (*([drifted] if items else ()), *sections.outside_sections(plan, _shown_subjects(plan)), *left)
    return sections.ReportPage("drift", plan.basis.environment, drift_verdict(plan), shown, plan.basis)


def drift_json(plan: Plan, history: History = NOTHING) -> str:
    """As schemas/drift.schema.json."""
    outside = []
    for change in plan.outside:
        fields = {**asdict(change), "subject": str(change.subject)}
        if (copied := change.copied_again) is None:
            del fields["copied_again"]
        else:
            fields["copied_again"] = {**asdict(copied), "source": str(copied.source)}
        outside.append(fields)
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


# parity between clusters


def parity_in(parity: Parity, form: Format, style: Style = PLAIN) -> str:
    text, json = partial(parity_text, parity, style), partial(parity_json, parity)
    return report_in(form, text, json, partial(parity_page, parity))


def parity_verdict(parity: Parity) -> str:
    wrong, unknown = len(parity.those(allowed=False)), f"{len(parity.unknown)} unknown"
    if wrong:
        parts = [f"{counted(wrong, 'difference')} that no rule allows"]
    elif parity.unknown:
        parts = [f"Not fully known: {unknown}", "no difference that no rule allows in what was read"]
    else:
        parts = ["No difference that no rule allows"]
    if allowed := len(parity.disparities) - wrong:
        parts.append(f"{allowed} allowed")
    if parity.unknown and wrong:
        parts.append(unknown)
    return f"{'; '.join(parts)}; {counted(parity.compared, 'pair')} of topics compared"


def parity_text(parity: Parity, style: Style = PLAIN) -> str:
    """Violations, then unknown parts, then allowed differences."""
    lines = [style.paint("bold", parity_verdict(parity)), f"environment {parity.environment}"]
    for title, disparities in (("Not allowed", parity.those(allowed=False)), ("Allowed", parity.those(allowed=True))):
        if title == "Allowed":
            lines += [f"  unknown: {unknown.words}" for unknown in parity.unknown]
        lines += ["", f"{title} ({len(disparities)})"] if disparities else []
        for words, pairs in _alike(disparities).items():
            lines += [f"  {words}", f"    {style.listed(pairs)}"]
    return lines_of(lines, style)


def parity_page(parity: Parity) -> sections.ReportPage:
    """Each section only if there is something in it."""
    wrong, allowed = (parity.those(allowed=side) for side in (False, True))
    every = (
        _disparities("Not allowed", "the sides differ, and no rule lets them", wrong),
        sections.unknown_section(parity.unknown),
        _disparities("Allowed", "the sides differ, each time by a rule", allowed),
    )
    shown, said = tuple(section for section in every if section.items), parity_verdict(parity)
    return sections.ReportPage("parity", parity.environment, said, shown, whole="the same with --format json")


def _disparities(title: str, why: str, some: Sequence[Disparity]) -> sections.Section:
    """Equal differences share an item and a row, with all their pairs."""
    items = tuple(sections.SectionItem(words, tuple(pairs), "~") for words, pairs in _alike(some).items())
    alike = grouped(((_whose(item), item.field, item.here, item.there, item.why), _pair(item)) for item in some)
    rows = (
        (tuple(pairs), (field,), f"{here} on {sides[0]}", f"{there} on {sides[1]}", f"{whose}: {why}")
        for ((whose, sides), field, here, there, why), pairs in alike.items()
    )
    table = sections.SectionTable(("what", "field", "here", "there", "why"), tuple(rows))
    return sections.Section(title, why, items, not all(item.allowed for item in some), len(some), table)


def _alike(disparities: Sequence[Disparity]) -> dict[str, list[str]]:
    """Words of a difference -> the pairs of topics with it."""
    pairs: dict[str, list[str]] = {}
    for each in disparities:
        whose, (here, there) = _whose(each)
        words = f"{whose}, {each.field}: {each.here} on {here}, {each.there} on {there}: {each.why}"
        pairs.setdefault(words, []).append(_pair(each))
    return pairs


def _pair(disparity: Disparity) -> str:
    if disparity.flow:
        return f"{disparity.source} -> {disparity.remote}"
    return disparity.source.partition("/")[2]


def _whose(disparity: Disparity) -> tuple[str, tuple[str, str]]:
    """Why the sides are a pair, and their names."""
    if disparity.flow:
        return f"flow {disparity.flow}", ("the source", "the target")
    here, there = (ref.partition("/")[0] for ref in (disparity.source, disparity.remote))
    return f"declared on {here} and {there}", (here, there)


def parity_json(parity: Parity) -> str:
    """As schemas/parity.schema.json."""
    return report_json(
        "parity",
        parity.environment,
        verdict=parity_verdict(parity),
        exit_code=parity.exit_code,
        compared=parity.compared,
        disparities=parity.disparities,
        unknown=parity.unknown,
    )
