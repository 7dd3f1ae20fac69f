"""A review, which is an edit and perhaps its plan, in the four formats. Without a base it is the plan alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from reconciler import planfile
from reconciler.causes import History
from reconciler.comparison import Against, Comparison, Sign
from reconciler.errors import Problem, ReconcilerError
from reconciler.exit_codes import ExitCode
from reconciler.plans import Outcome, Plan
from reconciler.probes import Probe
from reconciler.rendering.comparison import (
    comparison_sections,
    comparison_text,
    review_json,
    untold_section,
)
from reconciler.rendering.drift import NOTHING, drift_json, drift_text
from reconciler.rendering.fitting import Handoff
from reconciler.rendering.html import drift_html, offline_html, outcomes_html, plan_html
from reconciler.rendering.markdown import drift_markdown, offline_markdown, outcomes_markdown, plan_markdown
from reconciler.rendering.outcomes import Rolled, outcomes_json, outcomes_text
from reconciler.rendering.sections import Item, Section
from reconciler.rendering.style import Format, Style
from reconciler.rendering.text import plan_text

_STAYS = {
    "topic": "it stays on its clusters, unmanaged: only a tombstone deletes a topic",
    "deletion": "the topic and its records do not come back",
}
_ENDINGS = {".txt": Format.TEXT, ".json": Format.JSON, ".md": Format.MARKDOWN, ".html": Format.HTML}


@dataclass(frozen=True, slots=True)
class Review:
    """At least one of ``comparison`` (with ``against``) and ``plan`` is there. ``plan`` None: no cluster was asked.

    ``undone``: for a way back, the edit that it takes back; ``comparison`` then leads from now to what was.
    ``untold``: what is wrong with the base, so that there is no ``comparison`` with it.
    """

    plan: Plan | None
    comparison: Comparison | None = None
    against: Against | None = None
    undone: Comparison | None = None
    untold: tuple[Problem, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        if self.plan is not None:
            return self.plan.exit_code
        return ExitCode.DONE if self.comparison is None or self.comparison.empty else ExitCode.CHANGES


def format_of(ending: str) -> Format:
    """``.md`` is Markdown. Raises ReconcilerError for an ending that says nothing."""
    if ending not in _ENDINGS:
        raise ReconcilerError(
            f"nobody knows what to write to a file that ends in {ending or 'nothing'}",
            "The ending decides the format.",
            f"Use one of {', '.join(_ENDINGS)}.",
        )
    return _ENDINGS[ending]


def render(review: Review, form: Format, handoff: Handoff, style: Style | None = None) -> str:
    before = _before(review)
    match form:
        case Format.TEXT:
            return _text(review, before, style or Style())
        case Format.JSON:
            if review.comparison is not None and review.against is not None:
                kept = None if review.undone is None else lasting(review.plan, review.undone)
                return review_json(review.comparison, review.against, review.plan, int(review.exit_code), kept)
            assert review.plan is not None
            return planfile.dumps(review.plan)
        case Format.MARKDOWN:
            if review.plan is not None:
                return plan_markdown(review.plan, handoff, before=before)
            return offline_markdown(_environment(review), before)
        case Format.HTML:
            if review.plan is not None:
                return plan_html(review.plan, handoff, before=before)
            return offline_html(_environment(review), before)
        case _:
            assert_never(form)


def drift_in(plan: Plan, form: Format, style: Style | None = None, seen: History = NOTHING) -> str:
    match form:
        case Format.TEXT:
            return drift_text(plan, style, seen)
        case Format.JSON:
            return drift_json(plan, seen)
        case Format.MARKDOWN:
            return drift_markdown(plan, seen=seen)
        case Format.HTML:
            return drift_html(plan, seen)
        case _:
            assert_never(form)


def outcomes_in(
    plan: Plan,
    outcomes: Sequence[Outcome],
    form: Format,
    style: Style | None = None,
    probes: Sequence[Probe] = (),
    rolled: Rolled | None = None,
) -> str:
    match form:
        case Format.TEXT:
            return outcomes_text(plan, outcomes, style, probes, rolled)
        case Format.JSON:
            return outcomes_json(plan, outcomes, probes, rolled)
        case Format.MARKDOWN:
            return outcomes_markdown(plan, outcomes, probes=probes, rolled=rolled)
        case Format.HTML:
            return outcomes_html(plan, outcomes, probes, rolled)
        case _:
            assert_never(form)


def lasting(plan: Plan | None, undone: Comparison) -> Section:
    """What going back from the edit ``undone`` does not bring back: by its fields, and by the plan of going back."""
    items = [
        Item(
            f"{one.kind} {one.name}: {field.path} {field.before} -> {field.after}, where it was applied", (field.means,)
        )
        for one in undone.items
        for field in one.fields
        if field.irreversible
    ]
    if plan is not None:
        items += [Item(f"{one.id}: {one.reversibility}") for one in plan.changes if _irreversible(one.reversibility)]
        items += [Item(one.reason.text, (one.todo,)) for one in plan.refused]
    for one in undone.items:
        if one.sign is Sign.ADDED and one.kind in _STAYS:
            items.append(Item(f"{one.kind} {one.name}, where it was applied: {_STAYS[one.kind]}"))
    for impact in undone.flows:
        if impact.gained:
            made = ", ".join(str(travel.remote) for travel in impact.gained)
            items.append(Item(f"flow {impact.flow}, where it was applied: what was copied stays on {made}"))
    if not items:
        return Section("Cannot be taken back", "", (Item("nothing: all of it can be"),), count=0)
    return Section("Cannot be taken back", "", tuple(items), urgent=True)


def _before(review: Review) -> tuple[Section, ...]:
    if review.against is not None and review.untold:
        return (untold_section(review.untold, review.against),)
    if review.comparison is None or review.against is None:
        return ()
    sections = comparison_sections(review.comparison, review.against)
    return sections if review.undone is None else (*sections, lasting(review.plan, review.undone))


def _text(review: Review, before: tuple[Section, ...], style: Style) -> str:
    parts = [comparison_text(before, style)] if before else []
    if review.plan is not None:
        parts.append(plan_text(review.plan, style))
    return "\n".join(parts)


def _environment(review: Review) -> str:
    assert review.comparison is not None
    return review.comparison.environment


def _irreversible(text: str) -> bool:
    return text.startswith("irreversible")
