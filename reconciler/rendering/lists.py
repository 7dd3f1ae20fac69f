"""What a plan will not do: blocked, unknown, unmanaged, ignored, and notes. Long lists are folded with their count."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from reconciler.plans import Plan
from reconciler.rendering.style import SHOWN, Style


def left_lists(plan: Plan, style: Style) -> Iterator[str]:
    yield from _refused(plan, style)
    yield from _unknown(plan, style)
    yield from _unmanaged(plan, style)
    yield from _ignored(plan, style)
    if plan.notes:
        yield from ("", "Notes")
        yield from _cut([f"  {note}" for note in plan.notes], style)


def _refused(plan: Plan, style: Style) -> Iterator[str]:
    if plan.refused:
        yield from (
            "",
            style.paint("alarm", f"Blocked ({len(plan.refused)}): nothing is applied until these are resolved"),
        )
    for one in plan.refused:
        yield f"  {one.reason.text}"
        yield f"    {one.todo}  [{one.reason.code}]"


def _unknown(plan: Plan, style: Style) -> Iterator[str]:
    if plan.unknown:
        title = f"Unknown ({len(plan.unknown)}): could not be read, so nothing is concluded from it"
        yield from ("", style.paint("alarm", title))
    for one in plan.unknown:
        yield f"  {one.subject}: {one.error}"
        if one.todo:
            yield f"    {one.todo}"
        if one.detail:
            yield f"    not decided: {style.listed(one.detail)}"


def _unmanaged(plan: Plan, style: Style) -> Iterator[str]:
    if plan.unmanaged:
        yield from ("", f"Unmanaged ({len(plan.unmanaged)}): neither declared nor made by a flow, never touched")
    for cluster, found in groupby(plan.unmanaged, key=lambda one: one.ref.cluster):
        names = [f"{one.ref.name} ({one.partitions}p)" for one in found]
        yield f"  {cluster}: {style.listed(names)}"


def _ignored(plan: Plan, style: Style) -> Iterator[str]:
    if plan.ignored:
        yield from ("", f"Ignored ({len(plan.ignored)}): left as it is, by rule")
    for rule, found in groupby(sorted(plan.ignored, key=lambda one: one.rule), key=lambda one: one.rule):
        yield f"  {rule}"
        yield from _cut([f"    {one.subject}: {one.text}" for one in found], style)


def _cut(lines: list[str], style: Style) -> Iterator[str]:
    if style.full or len(lines) <= SHOWN + 1:
        yield from lines
    else:
        yield from lines[:SHOWN]
        indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
        yield f"{indent}and {len(lines) - SHOWN} more"
