"""A plan as Markdown for a pull-request comment: the verdict and what is dangerous first, the rest folded.

A comment of GitHub may hold 65,536 characters. A longer one is given with less detail, in the steps of ``Detail``, and
says so.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum

from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.amounts import AmountKind
from reconciler.engine.plan.summary import verdict
from reconciler.model.changes import Risk
from reconciler.model.plan import Basis, Plan
from reconciler.render.map.formats import map_mermaid
from reconciler.render.markup import SHOWN, code, fence, markdown
from reconciler.render.plan.impact import amounts_lines, amounts_sentence
from reconciler.render.plan.outline import PlanEntry, PlanStep, basis_words, gates_words, outline, risk_words, seen
from reconciler.render.plan.sections import (
    NO_HANDOFF,
    NOTHING_ABOUT,
    AboutPlan,
    Handoff,
    ReportPage,
    Section,
    SectionItem,
    left_sections,
    load_sections,
    outside_sections,
    shift_sections,
)
from reconciler.text import counted

GITHUB_LIMIT = 65_536
_AND_MORE = "- and more than fits here\n"
_MARKER = "<!-- reconciler-"
_LONGEST = 400
MOST_OF_MAP = 16_384
"""Characters of a chart: it must not push its subject out of a comment."""
_NAMES = 60
"""Of each list, at the first step down: a report that shows 8 of 50 lines is no report."""


class Detail(IntEnum):
    """Levels of detail. The first that fits is used; each lower level drops the least needed part."""

    ALL = 0
    SHORT_LISTS = 1
    """Folded lists end after 60 lines; what is urgent stays whole."""
    NO_VALUES = 2
    """Each change has its headline, stakes, risk and needs; its values are in the saved plan."""
    NAMES = 3
    """A line for each sign and cluster, with the names."""
    COUNTS = 4

    @property
    def values(self) -> bool:
        """Changes have their values before and after."""
        return self <= Detail.SHORT_LISTS


_LESS = {
    Detail.SHORT_LISTS: "This comment would be too long: folded lists are cut after 60 lines.",
    Detail.NO_VALUES: "This comment would be too long: values before and after are left out, long lists are cut.",
    Detail.NAMES: "This comment would be too long: changes are listed by name only, long lists are cut.",
    Detail.COUNTS: "This comment would be too long: only counts are shown.",
}


def plan_markdown(
    plan: Plan,
    handoff: Handoff = NO_HANDOFF,
    limit: int = GITHUB_LIMIT,
    about: AboutPlan = NOTHING_ABOUT,
) -> str:
    """``limit``: in UTF-16 code units."""
    # Everything independent of the detail is made once: with ten thousand topics each part takes a while, and up to
    # five levels of detail are tried.
    digest, environment = planfile.digest(plan), plan.basis.environment
    head = [
        hidden("plan", environment, {"digest": digest, "apply": handoff.apply}),
        _heading(environment, f"{about.lead}{verdict(plan)}"),
        "",
        *_basis(plan.basis),
        "",
    ]
    steps, sections = outline(plan), left_sections(plan)
    after = (*load_sections(plan), *shift_sections(plan))
    amount_items = tuple(SectionItem(line) for line in amounts_lines(about.amounts))
    loses = any(amount.kind is AmountKind.LOSE for amount in about.amounts)
    how_much = (
        (Section("How much", amounts_sentence(about.amounts), amount_items, urgent=loses),) if amount_items else ()
    )
    chart = map_mermaid(about.drawn) if about.drawn is not None else ""

    def render(detail: Detail) -> Iterator[str]:
        yield from head
        yield from less(detail, handoff.artifact)
        yield from _sections(how_much, detail)
        yield from _sections(outside_sections(plan), detail)
        yield from _dangers(steps, detail)
        yield from _sections([section for section in (*about.before, *sections) if section.urgent], detail)
        if chart and detail.values and len(chart) <= MOST_OF_MAP:
            yield from ("<details>", "<summary>Map</summary>", "")
            yield from (fence(chart.rstrip("\n"), "mermaid"), "", "</details>", "")
        yield from _sections([section for section in about.before if not section.urgent], detail)
        if plan.rollout and plan.changes:
            yield from (markdown(gates_words(plan.rollout.gates)), "")
        for step in steps:
            yield from (f"**{markdown(step.opens)}**", "") if step.opens else ()
            yield from _step(step, detail)
        yield from _sections(after, detail)
        yield from _sections([section for section in sections if not section.urgent], detail)
        yield ""
        if handoff.apply and plan.changes and not plan.refused and not plan.unknown:
            yield from ("Apply exactly this:", fence(handoff.apply, "sh"))
        yield f"plan {code(digest[:16])}"

    return fitting(render, limit)


def offline_markdown(environment: str, sections: Sequence[Section], limit: int = GITHUB_LIMIT) -> str:
    """The comment without any cluster's answers, in the form of a plan's."""
    first, *rest = sections

    def render(detail: Detail) -> Iterator[str]:
        yield hidden("plan", environment, {})
        yield from (_heading(environment, first.why), "")
        yield from ("No cluster was asked: this is the edit alone, not a plan.", "")
        yield from less(detail, "")
        yield from (*_items(first, detail), "") if detail is not Detail.COUNTS else ()
        yield from _sections(rest, detail)

    return fitting(render, limit)


def report_markdown(report: ReportPage, limit: int = GITHUB_LIMIT) -> str:
    """For a comment, or the body of an issue."""

    def render(detail: Detail) -> Iterator[str]:
        yield hidden(report.kind, report.environment, report.facts)
        yield from (_heading(report.environment, report.verdict), "")
        yield from (*_basis(report.basis), "") if report.basis else ()
        yield from less(detail, report.whole)
        yield from _sections(report.sections, detail)

    return fitting(render, limit)


# what a comment may hold


def fitting(render: Callable[[Detail], Iterator[str]], limit: int) -> str:
    """The text with the most detail that fits ``limit``; if even counts are too long, they are cut."""
    for detail in Detail:
        kept, whole = _within(render(detail), limit)
        if whole:
            return kept
    kept, _ = _within(render(Detail.COUNTS), limit - _units(_AND_MORE))
    return kept + _AND_MORE


def _within(lines: Iterator[str], limit: int) -> tuple[str, bool]:
    """The first lines, as many as ``limit`` holds, and whether these are all. Rendering stops at the first line that
    does not fit."""
    kept: list[str] = []
    room = limit
    for line in lines:
        room -= _units(line) + 1
        if room < 0 and line:  # empty lines at the end are left out
            text = "\n".join(kept).rstrip("\n")
            return f"{text}\n" if text else "", False
        kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n", True


def _units(text: str) -> int:
    """UTF-16 code units: never fewer than the characters that GitHub or GitLab counts, however they count."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def marker(kind: str, environment: str) -> str:
    """The beginning of the hidden first line, by which a workflow finds the one comment it keeps up to date."""
    return f"{_MARKER}{kind} {_json({'environment': environment})[:-1]}"


def hidden(kind: str, environment: str, facts: Mapping[str, str]) -> str:
    return f"{_MARKER}{kind} {_json({'environment': environment, **facts})} -->"


def _json(value: dict[str, str]) -> str:
    """Cannot end the HTML comment it is put in."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e")


def less(detail: Detail, whole: str) -> Iterator[str]:
    """``whole``: where all of it can be read; empty for the saved plan."""
    if detail in _LESS:
        where = f" All of it: {markdown(whole)}." if whole else " The saved plan has all of it."
        yield from (f"> {_LESS[detail]}{where}", "")


# parts of a comment


def _heading(environment: str, said: str) -> str:
    return f"### {markdown(environment)}: {markdown(_cut(said))}"


def _basis(basis: Basis) -> Iterator[str]:
    yield markdown(basis_words(basis))
    clusters = basis.clusters
    yield from (f"- {code(cluster.name)}: {markdown(seen(cluster))}" for cluster in clusters[:SHOWN])
    if len(clusters) > SHOWN:
        yield f"- and {len(clusters) - SHOWN} more clusters"


def _dangers(steps: Sequence[PlanStep], detail: Detail) -> Iterator[str]:
    """Dangerous changes, never inside a fold."""
    places = [place for step in steps for place in step.places]
    high = [(place.cluster, entry) for place in places for entry in place.entries if entry.risk is Risk.HIGH]
    if not high:
        return
    yield from (f"**HIGH risk ({sum(len(entry.names) for _, entry in high):,})**", "")
    if detail is Detail.COUNTS:
        return
    shown = high if detail.values else high[:_NAMES]
    for cluster, entry in shown:
        where = f"{code(cluster)} " if cluster else ""
        which = f" ({_listed(entry.names, SHOWN)})" if len(entry.names) > 1 else ""
        yield f"- {where}{_titled(entry)}{which}: {markdown(_cut(entry.risk_text))} ({markdown(entry.reversibility)})"
        yield from (f"  - {markdown(line)}" for line in entry.stakes)
    if len(shown) < len(high):
        yield f"- and {len(high) - len(shown)} more"
    yield ""


def _step(step: PlanStep, detail: Detail) -> Iterator[str]:
    """One stage, in as much detail as the comment has room for: entries, names, or only counts."""
    summary = f"<b>{step.number}. {markdown(step.title)}</b>, {markdown(step.why)}: {counted(step.count, 'change')}"
    if detail is Detail.COUNTS:
        clusters = [place.cluster for place in step.places if place.cluster][:SHOWN]
        where = f" on {', '.join(code(name) for name in clusters)}" if clusters else ""
        yield f"- {summary}{where}"
        return
    yield from ("<details>", f"<summary>{summary}</summary>", "")
    for place in step.places:
        yield from (f"**{markdown(place.cluster)}**", "") if place.cluster else ()
        by_sign: dict[str, list[str]] = {}
        for entry in place.entries:
            if detail is Detail.NAMES:
                by_sign.setdefault(entry.sign, []).extend(entry.names)
            else:
                yield from _entry(entry, detail)
        for sign, names in by_sign.items():
            once = list(dict.fromkeys(names))
            count = counted(len(once), "topic or mirror", "topics and mirrors")
            yield f"- {code(sign)} {count}: {_listed(once, _NAMES)}"
        yield ""
    yield from ("</details>", "")


def _entry(entry: PlanEntry, detail: Detail) -> Iterator[str]:
    yield f"- {code(entry.sign)} {_titled(entry)}: {markdown(entry.headline)}"
    shown = len(entry.names) if detail.values else SHOWN
    if len(entry.names) > 1:
        yield f"  - {_listed(entry.names, shown)}"
        yield f"  - why: {markdown(entry.why)}"
    if detail.values:
        yield from (f"  - {code(line)}" for line in entry.lines)
    yield from (f"  - {markdown(line)}" for line in entry.stakes)
    if words := risk_words(entry):
        strong = "**" if entry.risk is Risk.HIGH else ""
        yield f"  - {strong}{markdown(words)}{strong}"
    if entry.needs:
        yield f"  - after {_listed(entry.needs, SHOWN)}: {markdown(entry.needs_why)}"
    if entry.later:
        yield f"  - {markdown(entry.later)}"


def _titled(entry: PlanEntry) -> str:
    return code(entry.title) if len(entry.names) == 1 else markdown(entry.title)


def _sections(sections: Sequence[Section], detail: Detail) -> Iterator[str]:
    for section in sections:
        heading = markdown(section.heading)
        if detail is Detail.COUNTS:
            yield f"- <b>{heading}</b>"
        elif section.urgent:
            yield from (f"**{heading}**", "", *_items(section, detail), "")
        else:
            yield from ("<details>", f"<summary>{heading}</summary>", "")
            yield from (*_items(section, detail), "", "</details>", "")


def _items(section: Section, detail: Detail) -> Iterator[str]:
    # A section that a reader must see before agreeing keeps its items one step longer than folded ones.
    every = detail is Detail.ALL or (detail.values and section.urgent)
    shown = len(section.items) if every else _NAMES if detail <= Detail.NO_VALUES else SHOWN
    most = _NAMES if detail.values else SHOWN
    inner = 2 if detail is Detail.NO_VALUES else 3
    for item in section.items[:shown]:
        sign = f"{code(item.sign)} " if item.sign else ""
        yield f"- {sign}{markdown(item.text if detail.values else _cut(item.text))}"
        if item.names:
            yield f"  - {_listed(item.names, len(item.names) if every else most)}"
        more = item.more if detail.values else item.more[:inner]
        yield from (f"  - {markdown(line if detail.values else _cut(line))}" for line in more)
        if len(more) < len(item.more):
            yield f"  - and {len(item.more) - len(more)} more"
    if shown < len(section.items):
        yield f"- and {len(section.items) - shown:,} more"


def _listed(names: Sequence[str], shown: int) -> str:
    text = ", ".join(code(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
