"""A plan as text: verdict, ground, changes by stage and cluster, then everything that will not be done."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.changes import Risk
from reconciler.plans import Plan
from reconciler.rendering.lists import cut, left_lists
from reconciler.rendering.outline import Entry, ground, outline, risk_words, seen
from reconciler.rendering.sections import load_sections
from reconciler.rendering.shifts import shift_sections
from reconciler.rendering.style import Style
from reconciler.rendering.waves import gates_words, ignored_words
from reconciler.summary import verdict


def plan_text(plan: Plan, style: Style | None = None, ignoring: str = "") -> str:
    """``ignoring``: why gates are left out when it is carried out, or empty."""
    chosen = style or Style()
    lines = [chosen.paint("bold", verdict(plan)), ground(plan.basis)]
    lines += [f"  {one.name}: {seen(one)}" for one in plan.basis.clusters]
    if plan.rollout and plan.changes:
        lines.append(ignored_words(ignoring) if ignoring else gates_words(plan.rollout.gates))
    for step in outline(plan, bool(ignoring)):
        lines += ["", chosen.paint("bold", step.opens)] if step.opens else []
        lines += ["", f"{step.number}. {step.title}, {step.why}"]
        for place in step.places:
            lines += [f"  {place.cluster}"] if place.cluster else []
            for entry in place.entries:
                lines += _entry(entry, chosen, "    " if place.cluster else "  ")
    for section in load_sections(plan):
        lines += ["", section.heading, *(f"  {item.text}" for item in section.items)]
    for section in shift_sections(plan):
        told = [f"  {item.sign} {item.text}{''.join(f'; {one}' for one in item.more)}" for item in section.items]
        lines += ["", section.heading, *cut(told, chosen)]
    return "\n".join([*lines, *left_lists(plan, chosen)]) + "\n"


def _entry(entry: Entry, style: Style, indent: str) -> Iterator[str]:
    yield f"{indent}{style.paint(entry.sign, entry.sign)} {entry.title}: {entry.headline}"
    inner = f"{indent}    "
    if len(entry.names) > 1:
        yield f"{inner}{style.listed(entry.names)}"
        yield f"{inner}why: {entry.why}"
    lines = [f"{inner}{line}" for line in entry.lines]
    yield from cut(lines, style) if entry.folds else lines
    yield from (f"{inner}{line}" for line in entry.stakes)
    if words := risk_words(entry):
        yield f"{inner}{style.paint('alarm', words) if entry.risk is Risk.HIGH else words}"
    if entry.needs:
        yield f"{inner}after {style.listed(entry.needs)}: {entry.needs_why}"
    if entry.later:
        yield f"{inner}{entry.later}"
