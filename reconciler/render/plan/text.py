"""A plan as text: verdict, basis, changes by stage and cluster, then what will not be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from reconciler.engine.plan.amounts import Amount
from reconciler.engine.plan.summary import verdict
from reconciler.model.changes import Risk
from reconciler.model.plan import Plan
from reconciler.render.escape import lines_of
from reconciler.render.plan.impact import amounts_lines, amounts_sentence
from reconciler.render.plan.outline import PlanEntry, basis_words, outline, risk_words, seen
from reconciler.render.plan.sections import (
    UNMANAGED_ACCESS,
    ignored_by_rule,
    left_sections,
    load_sections,
    outside_lines,
    refusals,
    shift_sections,
    unmanaged_rules,
)
from reconciler.render.plan.waves import gates_words, ignored_words
from reconciler.render.style import PLAIN, SHOWN, Style
from reconciler.text import by_prefix, counted


@dataclass(frozen=True, slots=True)
class AboutEdit:
    """``lead``: what a headline begins with; ``lines``: what the edit means, as text."""

    lead: str = ""
    lines: tuple[str, ...] = ()


NO_EDIT = AboutEdit()


def plan_text(
    plan: Plan,
    style: Style = PLAIN,
    ignoring: str = "",
    amounts: Sequence[Amount] = (),
    about: AboutEdit = NO_EDIT,
) -> str:
    """``ignoring``: why gates are left out when it is carried out, or empty. ``amounts``: what it copies, loses and
    moves. ``about``: the edit that it is the plan of."""
    lines = [style.paint("alarm" if about.lead else "bold", f"{about.lead}{verdict(plan)}")]
    lines += [style.paint("bold", amounts_sentence(amounts))] if amounts else []
    lines += [basis_words(plan.basis)]
    lines += [f"  {cluster.name}: {seen(cluster)}" for cluster in plan.basis.clusters]
    lines += ["", "How much", *_cut([f"  {line}" for line in amounts_lines(amounts)], style)] if amounts else []
    lines += [*about.lines, *outside_lines(plan, style)]
    if plan.rollout and plan.changes:
        lines.append(ignored_words(ignoring) if ignoring else gates_words(plan.rollout.gates))
    for step in outline(plan, bool(ignoring)):
        lines += ["", style.paint("bold", step.opens)] if step.opens else []
        lines += ["", f"{step.number}. {step.title}, {step.why}"]
        for place in step.places:
            lines += [f"  {place.cluster}"] if place.cluster else []
            indent = "    " if place.cluster else "  "
            plain = [] if style.full else _plain(place.entries)
            for entry in place.entries:
                lines += [] if entry in plain else _entry(entry, style, indent)
            lines += _folded(plain, indent)
    for section in load_sections(plan):
        lines += ["", section.heading, *(f"  {item.text}" for item in section.items)]
    for section in shift_sections(plan):
        names = [f"  {item.sign} {item.text}{''.join(f'; {name}' for name in item.more)}" for item in section.items]
        lines += ["", section.heading, *_cut(names, style)]
    return lines_of([*lines, *left_lists(plan, style, unmanaged=style.full)], style)


MANY = 12
"""New topics of several shapes on one cluster: of more entries nobody reads each."""


def _plain(entries: Sequence[PlanEntry]) -> list[PlanEntry]:
    """Entries that are told together: new topics without a risk, where they are many."""
    plain = [each for each in entries if each.sign == "+" and each.noun == "topic" and each.risk is Risk.LOW]
    return plain if len(plain) > MANY else []


def _folded(plain: Sequence[PlanEntry], indent: str) -> Iterator[str]:
    names = [name for each in plain for name in each.names]
    if names:
        yield f"{indent}+ {counted(len(names), 'topic')}, {counted(len(plain), 'shape')}: {by_prefix(names)}"
        yield f"{indent}    each with its values: --format html or json"


def _entry(entry: PlanEntry, style: Style, indent: str) -> Iterator[str]:
    yield f"{indent}{style.paint(entry.sign, entry.sign)} {entry.title}: {entry.headline}"
    inner = f"{indent}    "
    if len(entry.names) > 1:
        yield f"{inner}{style.listed(entry.names)}"
        yield f"{inner}why: {entry.why}"
    lines = [f"{inner}{line}" for line in entry.lines]
    yield from _cut(lines, style) if entry.folds else lines
    yield from (f"{inner}{line}" for line in entry.stakes)
    if words := risk_words(entry):
        yield f"{inner}{style.paint('alarm', words) if entry.risk is Risk.HIGH else words}"
    if entry.needs:
        yield f"{inner}after {style.listed(entry.needs)}: {entry.needs_why}"
    if entry.later:
        yield f"{inner}{entry.later}"


def left_lists(plan: Plan, style: Style, unmanaged: bool = False) -> Iterator[str]:
    """``left_sections`` as lines. Long lists are folded."""
    listing = {"Blocked": _refused, "Unknown": _unknown, "Unmanaged": _unmanaged, "Ignored": _ignored}
    listing[UNMANAGED_ACCESS] = _access
    for section in left_sections(plan, unmanaged):
        if listed := listing.get(section.title):
            yield from ("", style.paint("alarm", section.heading) if section.urgent else section.heading)
            yield from listed(plan, style)
    if plan.notes:
        yield from ("", "Notes")
        yield from _cut([f"  {note}" for note in plan.notes], style)


def _refused(plan: Plan, _: Style) -> Iterator[str]:
    return (line for problem, todo in refusals(plan) for line in (f"  {problem}", f"    {todo}"))


def _unknown(plan: Plan, style: Style) -> Iterator[str]:
    for unknown in plan.unknown:
        yield f"  {unknown.subject}: {unknown.error}"
        if unknown.todo:
            yield f"    {unknown.todo}"
        if unknown.detail:
            yield f"    not decided: {style.listed(unknown.detail)}"


def _unmanaged(plan: Plan, style: Style) -> Iterator[str]:
    for cluster, topics in groupby(plan.unmanaged, key=lambda topic: topic.ref.cluster):
        names = [f"{topic.ref.name} ({topic.partitions}p)" for topic in topics]
        yield f"  {cluster}: {style.listed(names)}"


def _access(plan: Plan, style: Style) -> Iterator[str]:
    lines = []
    for cluster, principal, rules in unmanaged_rules(plan):
        shown = style.listed(rules) if style.full or len(rules) <= SHOWN // 2 else f"{len(rules)} rules"
        lines.append(f"  {cluster}: {principal}: {shown}")
    yield from _cut(lines, style)


def _ignored(plan: Plan, style: Style) -> Iterator[str]:
    for rule, texts in ignored_by_rule(plan).items():
        yield f"  {rule}"
        yield from _cut([f"    {style.listed(whom)}: {text}" for text, whom in texts.items()], style)


def _cut(lines: Sequence[str], style: Style) -> Sequence[str]:
    """One more costs no more than to say so."""
    return lines if len(lines) == SHOWN + 1 else style.cut(lines)
