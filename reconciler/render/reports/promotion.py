"""Two environments side by side as text, Markdown, HTML and JSON: a section for each kind of declaration."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import assert_never

from reconciler.model.reports.edit import ItemChange, PromotionReport, Sign
from reconciler.render.markup import PLAIN, Format, Style, lines_of, report_json, table_lines
from reconciler.render.plan.formats import report_in
from reconciler.render.plan.sections import MOST_LINES, ReportPage, Section, SectionItem
from reconciler.render.reports.edit import PLURALS, meaning
from reconciler.text import counted

SECTIONS = {
    "topic": "Topics",
    "flow": "Flows",
    "mirror": "Mirrors",
    "access rule": "Access",
    "user": "Users",
    "quota": "Quotas",
    "cluster": "Clusters",
}
NOT_SET = "(not set)"
OTHERS = "Defaults, classes and rules"


def promotion_in(report: PromotionReport, form: Format, style: Style = PLAIN) -> str:
    text = partial(promotion_text, report, style)
    return report_in(form, text, partial(promotion_json, report), partial(promotion_page, report))


def promotion_verdict(report: PromotionReport) -> str:
    """``staging and prod differ: only in staging 1 topic; only in prod 2 topics, 1 flow; other values 1 mirror``."""
    if report.equal:
        return f"{report.target} declares what {report.source} does"
    sides = (_side(sign, report, short=True) + " " + _counts(report, sign) for sign in Sign if _counts(report, sign))
    return f"{report.source} and {report.target} differ: {'; '.join(sides)}"


def _side(sign: Sign, report: PromotionReport, short: bool = False) -> str:
    match sign:
        case Sign.ADDED:
            return f"only in {report.source}"
        case Sign.REMOVED:
            return f"only in {report.target}"
        case Sign.CHANGED:
            return "in both, with other values" if short else "differs"
        case _:
            assert_never(sign)


def _counts(report: PromotionReport, sign: Sign) -> str:
    counts = Counter(item.kind for item in report.comparison.items if item.sign is sign)
    return ", ".join(counted(count, kind, PLURALS.get(kind, "")) for kind, count in counts.items())


def promotion_text(report: PromotionReport, style: Style = PLAIN) -> str:
    lines = [style.paint("bold", promotion_verdict(report))]
    lines += [f"  {line}" for line in _notes(report)]
    for title, items in _by_section(report).items():
        lines += ["", f"{title} ({len(items):,})"]
        shown = len(items) if style.full else MOST_LINES
        for item in items[:shown]:
            lines.append(f"  {style.paint(item.sign.value, _head(item, report))}")
            if item.sign is not Sign.CHANGED or not item.fields:
                lines += [f"      {field.path} = {field.after or field.before}" for field in item.fields]
                continue
            # A table with a column for each environment, and below it what its rows mean.
            rows = [("field", report.source, report.target)]
            rows += [(field.path, field.after, field.before or NOT_SET) for field in item.fields]
            lines += table_lines(rows, style.width, indent="      ")
            for field in (field for field in item.fields if field.means):
                lines.append(f"      {field.path}: {_follows(meaning(field), report).removeprefix('; ')}")
        if len(items) > shown:
            lines.append(f"  and {len(items) - shown} more; --format html or json has all of them")
    return lines_of(lines, style)


def promotion_page(report: PromotionReport) -> ReportPage:
    sections = []
    for title, items in _by_section(report).items():
        shown = []
        for item in items:
            values = [f"{field.path} = {field.after or field.before}" for field in item.fields]
            if item.sign is Sign.CHANGED:
                values = [
                    f"{field.path}: {field.after} in {report.source}, {field.before or NOT_SET} in {report.target}"
                    + _follows(meaning(field), report)
                    for field in item.fields
                ]
            shown.append(SectionItem(_head(item, report), tuple(values)))
        sections.append(Section(title, "", tuple(shown), count=len(items)))
    sections.append(Section("How they were compared", "", tuple(map(SectionItem, _notes(report)))))
    environment = f"{report.source} and {report.target}"
    return ReportPage("compare", environment, promotion_verdict(report), tuple(sections), title="comparison")


def _by_section(report: PromotionReport) -> dict[str, list[ItemChange]]:
    items: dict[str, list[ItemChange]] = {title: [] for title in (*SECTIONS.values(), OTHERS)}
    for item in report.comparison.items:
        items[SECTIONS.get(item.kind, OTHERS)].append(item)
    return {title: members for title, members in items.items() if members}


def _head(item: ItemChange, report: PromotionReport) -> str:
    place = f", {item.where}" if item.where and item.sign is not Sign.CHANGED else ""
    return f"{item.kind} {item.name}: {_side(item.sign, report)}{place}{_follows(item.means, report)}"


def _follows(means: str, report: PromotionReport) -> str:
    """The effect on the clusters of the second environment if it declares the same as the first."""
    return f"; if {report.target} follows: {means}" if means else ""


def _notes(report: PromotionReport) -> Iterator[str]:
    if not report.equal:
        yield f"to promote, edit the files of {report.target}; nothing is written for you"
    for name, other in report.paired.items():
        yield f"{name} of {report.source} is compared with {other}: nothing else can be meant"
    yield "not compared: addresses, client settings, cluster ids and regions, tombstones"


def promotion_json(report: PromotionReport) -> str:
    """As schemas/reports/comparison.schema.json."""
    return report_json(
        "comparison",
        report.target,
        compared_with=report.source,
        verdict=promotion_verdict(report),
        exit_code=int(report.exit_code),
        equal=report.equal,
        names=dict(report.names),
        paired=dict(report.paired),
        items=report.comparison.items,
    )
