"""The parity report in four formats: violations first, then allowed differences, folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from reconciler.engine.drift.parity import Disparity, Parity
from reconciler.render.escape import lines_of
from reconciler.render.plan.formats import report_in
from reconciler.render.plan.sections import ReportPage, Section, SectionItem, SectionTable, unknown_section
from reconciler.render.report_json import report_json
from reconciler.render.style import PLAIN, Format, Style
from reconciler.text import counted, grouped


def parity_in(parity: Parity, form: Format, style: Style = PLAIN) -> str:
    text, json = partial(parity_text, parity, style), partial(parity_json, parity)
    return report_in(form, text, json, partial(_page, parity))


def _page(parity: Parity) -> ReportPage:
    """Each section only when there is something in it."""
    wrong, allowed = (parity.those(allowed=side) for side in (False, True))
    every = (
        _section("Not allowed", "the sides differ, and no rule lets them", wrong),
        unknown_section(parity.unknown),
        _section("Allowed", "the sides differ, each time by a rule", allowed),
    )
    sections, said = tuple(section for section in every if section.items), parity_verdict(parity)
    return ReportPage("parity", parity.environment, said, sections, whole="the same with --format json")


def _section(title: str, why: str, disparities: Sequence[Disparity]) -> Section:
    urgent = not all(item.allowed for item in disparities)
    return Section(title, why, _items(disparities), urgent, len(disparities), _table(disparities))


def _table(disparities: Iterable[Disparity]) -> SectionTable:
    """What is alike stands in one row."""
    alike = grouped(((_whose(item), item.field, item.here, item.there, item.why), _pair(item)) for item in disparities)
    rows = (
        (tuple(pairs), (field,), f"{here} on {sides[0]}", f"{there} on {sides[1]}", f"{whose}: {why}")
        for ((whose, sides), field, here, there, why), pairs in alike.items()
    )
    return SectionTable(("what", "field", "here", "there", "why"), tuple(rows))


def _items(disparities: Iterable[Disparity]) -> tuple[SectionItem, ...]:
    """Differences that are alike once, with all their pairs."""
    return tuple(SectionItem(words, tuple(pairs), "~") for words, pairs in _alike(disparities).items())


def _alike(disparities: Iterable[Disparity]) -> dict[str, list[str]]:
    return grouped((_words(item), _pair(item)) for item in disparities)


def _pair(disparity: Disparity) -> str:
    if disparity.flow:
        return f"{disparity.source} -> {disparity.remote}"
    return disparity.source.partition("/")[2]


def _whose(disparity: Disparity) -> tuple[str, tuple[str, str]]:
    """Who makes the sides a pair, and what the sides are called."""
    if disparity.flow:
        return f"flow {disparity.flow}", ("the source", "the target")
    here, there = (ref.partition("/")[0] for ref in (disparity.source, disparity.remote))
    return f"declared on {here} and {there}", (here, there)


def _words(disparity: Disparity) -> str:
    whose, (here, there) = _whose(disparity)
    values = f"{disparity.here} on {here}, {disparity.there} on {there}"
    return f"{whose}, {disparity.field}: {values}: {disparity.why}"


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
    lines = [style.paint("bold", parity_verdict(parity)), f"environment {parity.environment}"]
    lines += _part(parity.those(allowed=False), "Not allowed", style)
    lines += [f"  unknown: {unknown.subject}: {unknown.error}" for unknown in parity.unknown]
    lines += _part(parity.those(allowed=True), "Allowed", style)
    return lines_of(lines, style)


def _part(disparities: Sequence[Disparity], title: str, style: Style) -> Iterator[str]:
    if disparities:
        yield from ("", f"{title} ({len(disparities)})")
    for words, pairs in _alike(disparities).items():
        yield f"  {words}"
        yield f"    {style.listed(pairs)}"


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
