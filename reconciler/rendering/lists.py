"""What a plan will not do: blocked, unknown, unmanaged, ignored, and notes. Long lists are folded with their count."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from reconciler.plans import Plan
from reconciler.rendering.sections import UNMANAGED_ACCESS, alike, left_sections, refusals, unmanaged_rules
from reconciler.rendering.style import SHOWN, Style


def left_lists(plan: Plan, style: Style) -> Iterator[str]:
    listing = {"Blocked": _refused, "Unknown": _unknown, "Unmanaged": _unmanaged, "Ignored": _ignored}
    listing[UNMANAGED_ACCESS] = _access
    for section in left_sections(plan):
        if listed := listing.get(section.title):
            yield from ("", style.paint("alarm", section.heading) if section.urgent else section.heading)
            yield from listed(plan, style)
    if plan.notes:
        yield from ("", "Notes")
        yield from cut([f"  {note}" for note in plan.notes], style)


def _refused(plan: Plan, _: Style) -> Iterator[str]:
    for what, todo in refusals(plan):
        yield from (f"  {what}", f"    {todo}")


def _unknown(plan: Plan, style: Style) -> Iterator[str]:
    for one in plan.unknown:
        yield f"  {one.subject}: {one.error}"
        if one.todo:
            yield f"    {one.todo}"
        if one.detail:
            yield f"    not decided: {style.listed(one.detail)}"


def _unmanaged(plan: Plan, style: Style) -> Iterator[str]:
    for cluster, found in groupby(plan.unmanaged, key=lambda one: one.ref.cluster):
        names = [f"{one.ref.name} ({one.partitions}p)" for one in found]
        yield f"  {cluster}: {style.listed(names)}"


def _access(plan: Plan, style: Style) -> Iterator[str]:
    lines = []
    for cluster, principal, rules in unmanaged_rules(plan):
        shown = style.listed(rules) if style.full or len(rules) <= SHOWN // 2 else f"{len(rules)} rules"
        lines.append(f"  {cluster}: {principal}: {shown}")
    yield from cut(lines, style)


def _ignored(plan: Plan, style: Style) -> Iterator[str]:
    for rule, found in groupby(sorted(plan.ignored, key=lambda one: one.rule), key=lambda one: one.rule):
        yield f"  {rule}"
        yield from cut([f"    {style.listed(whom)}: {text}" for text, whom in alike(found).items()], style)


def cut(lines: list[str], style: Style) -> Iterator[str]:
    """The first ones and how many more, all of them in full style. Indented as the first."""
    if style.full or len(lines) <= SHOWN + 1:
        yield from lines
    else:
        yield from lines[:SHOWN]
        indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
        yield f"{indent}and {len(lines) - SHOWN} more"
