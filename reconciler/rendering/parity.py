"""The parity report in four formats: what differs against the rules first, then what a rule allows, folded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import assert_never

from reconciler.counts import counted
from reconciler.parity import Disparity, Parity
from reconciler.rendering.html import report_html
from reconciler.rendering.markdown import report_markdown
from reconciler.rendering.sections import Item, Section
from reconciler.rendering.style import Format, Style

FORMAT_VERSION = 1


def parity_in(found: Parity, form: Format, style: Style | None = None) -> str:
    said = parity_verdict(found)
    match form:
        case Format.TEXT:
            return parity_text(found, style)
        case Format.JSON:
            return parity_json(found)
        case Format.MARKDOWN:
            return report_markdown("parity", found.environment, said, parity_sections(found))
        case Format.HTML:
            return report_html("parity", found.environment, said, parity_sections(found))
        case _:
            assert_never(form)


def parity_sections(found: Parity) -> tuple[Section, ...]:
    """Each only when there is something in it."""
    wrong, allowed = ([one for one in found.disparities if one.allowed is side] for side in (False, True))
    unknown = tuple(Item(f"{one.subject}: {one.error}", (one.todo,) if one.todo else ()) for one in found.unknown)
    every = (
        Section("Not allowed", "the sides differ, and no rule lets them", _items(wrong), urgent=True, count=len(wrong)),
        Section("Unknown", "could not be read, so nothing is concluded from it", unknown, urgent=True),
        Section("Allowed", "the sides differ, each time by a rule", _items(allowed), count=len(allowed)),
    )
    return tuple(section for section in every if section.items)


def _items(found: Iterable[Disparity]) -> tuple[Item, ...]:
    """Differences that are alike once, with all their pairs."""
    return tuple(Item(words, tuple(pairs), "~") for words, pairs in _alike(found).items())


def _alike(found: Iterable[Disparity]) -> dict[str, list[str]]:
    alike: dict[str, list[str]] = {}
    for one in found:
        alike.setdefault(_words(one), []).append(f"{one.source} -> {one.remote}" if one.flow else _name(one.source))
    return alike


def _words(one: Disparity) -> str:
    if one.flow:
        return f"flow {one.flow}, {one.field}: {one.here} on the source, {one.there} on the target: {one.why}"
    here, there = (ref.partition("/")[0] for ref in (one.source, one.remote))
    return f"declared on {here} and {there}, {one.field}: {one.here} on {here}, {one.there} on {there}: {one.why}"


def _name(ref: str) -> str:
    return ref.partition("/")[2]


def parity_verdict(found: Parity) -> str:
    wrong = sum(1 for one in found.disparities if not one.allowed)
    pairs = f"{counted(found.compared, 'pair')} of topics compared"
    if found.unknown and not wrong:
        parts = [f"Not fully known: {len(found.unknown)} unknown", "no difference that no rule allows in what was read"]
    elif wrong:
        parts = [f"{counted(wrong, 'difference')} that no rule allows"]
    else:
        parts = ["No difference that no rule allows"]
    if allowed := len(found.disparities) - wrong:
        parts.append(f"{allowed} allowed")
    if found.unknown and wrong:
        parts.append(f"{len(found.unknown)} unknown")
    return f"{'; '.join(parts)}; {pairs}"


def parity_text(found: Parity, style: Style | None = None) -> str:
    chosen = style or Style()
    lines = [chosen.paint("bold", parity_verdict(found)), f"environment {found.environment}"]
    lines += _part([one for one in found.disparities if not one.allowed], "Not allowed", chosen)
    lines += [f"  unknown: {one.subject}: {one.error}" for one in found.unknown]
    lines += _part([one for one in found.disparities if one.allowed], "Allowed", chosen)
    return "\n".join(lines) + "\n"


def _part(found: list[Disparity], title: str, style: Style) -> Iterator[str]:
    if found:
        yield from ("", f"{title} ({len(found)})")
    for words, pairs in _alike(found).items():
        yield f"  {words}"
        yield f"    {style.listed(pairs)}"


def parity_json(found: Parity) -> str:
    """As schemas/parity.schema.json."""
    document = {
        "format_version": FORMAT_VERSION,
        "kind": "parity",
        "environment": found.environment,
        "verdict": parity_verdict(found),
        "exit_code": found.exit_code,
        "compared": found.compared,
        "disparities": [asdict(one) for one in found.disparities],
        "unknown": [asdict(one) for one in found.unknown],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
