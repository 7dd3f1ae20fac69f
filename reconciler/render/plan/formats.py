"""A review (an edit and its plan) in the four formats: text, JSON, Markdown, HTML."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from reconciler.engine.edits.effects import lead
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.amounts import Amount
from reconciler.errors import ExitCode, Problem, ReconcilerError
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports.edit import Against, EditComparison, NoEffect, Sign
from reconciler.model.reports.topology_map import TopologyMap
from reconciler.render.markup import PLAIN, Format, Style
from reconciler.render.plan.html import offline_html, plan_html, report_html
from reconciler.render.plan.markdown import offline_markdown, plan_markdown, report_markdown
from reconciler.render.plan.sections import NO_OWNERS, AboutPlan, Handoff, Owners, ReportPage, Section, SectionItem
from reconciler.render.plan.text import plan_text
from reconciler.render.reports import edit

_STAYS = {
    "topic": "it stays on its clusters, unmanaged: only a tombstone deletes a topic",
    "deletion": "the topic and its records do not come back",
}
_ENDINGS = {".txt": Format.TEXT, ".json": Format.JSON, ".md": Format.MARKDOWN, ".html": Format.HTML}


@dataclass(frozen=True, slots=True)
class Review:
    """Has ``comparison`` (with ``against``), ``plan``, or both. ``plan``: None if no cluster was asked."""

    plan: Plan | None
    comparison: EditComparison | None = None
    against: Against | None = None
    undone: EditComparison | None = None
    """For a way back, the edit that it reverts; ``comparison`` then leads from the present to the former state."""
    base_problems: tuple[Problem, ...] = ()
    """Problems of the base, which prevent a ``comparison``."""
    drawn: Callable[[], TopologyMap] | None = None
    """Draws the plan on the map of its environment; a call, since only pages and comments have a picture."""
    owned: Callable[[], Owners] | None = None
    """The owners of topics; a call, since only pages show them."""
    amounts: tuple[Amount, ...] = ()
    """Amounts that the plan copies, loses and moves."""
    effectless: tuple[NoEffect, ...] = ()
    """Entries of the edit without a change in the plan."""
    seen: LiveState | None = None
    """The live state behind the plan."""

    @property
    def exit_code(self) -> ExitCode:
        if self.plan is not None:
            return self.plan.exit_code
        return ExitCode.DONE if self.comparison is None or self.comparison.empty else ExitCode.CHANGES


def format_of(ending: str) -> Format:
    """``.md`` is Markdown. Raises ReconcilerError for an unknown ending."""
    if ending not in _ENDINGS:
        raise ReconcilerError(
            f"unknown output format {ending}" if ending else "the name of the output file has no ending",
            "The ending decides the format.",
            f"Use one of {', '.join(_ENDINGS)}.",
        )
    return _ENDINGS[ending]


def render(review: Review, form: Format, handoff: Handoff, style: Style = PLAIN) -> str:
    """The review in one format. An edit comes before its plan; without a plan the edit has the headline."""
    plan, comparison, against = review.plan, review.comparison, review.against
    kept = None if review.undone is None else lasting(plan, review.undone)
    before: tuple[Section, ...] = ()
    if against is not None and review.base_problems:
        before = (edit.base_problems_section(review.base_problems, against),)
    elif comparison is not None and against is not None:
        edited, renamed = edit.comparison_sections(comparison, against), edit.renames_section(comparison)
        before = (*renamed, *edit.effects_section(review.effectless, comparison), *edited)
        if plan is None:  # then the verdict of the edit is the headline
            before = (*edited, *renamed)
        before = before if kept is None else (*before, kept)

    # Without a plan the edit alone is shown, and says that no cluster was asked.
    if form is Format.JSON:
        if comparison is not None and against is not None:
            return edit.review_json(comparison, against, plan, int(review.exit_code), kept, review.effectless)
        assert plan is not None
        return planfile.dumps(plan)
    if plan is None:
        if form is Format.TEXT:
            return edit.comparison_text(before, style)
        assert comparison is not None
        offline = offline_markdown if form is Format.MARKDOWN else offline_html
        return offline(comparison.environment, before)

    about = AboutPlan(before, amounts=review.amounts, lead=lead(review.effectless, comparison, against))
    if form is Format.TEXT:
        return plan_text(plan, style, about=about)
    about = replace(about, drawn=review.drawn() if review.drawn is not None else None)
    if form is Format.MARKDOWN:
        return plan_markdown(plan, handoff, about=about)
    owners = review.owned() if review.owned is not None else NO_OWNERS
    return plan_html(plan, handoff, replace(about, owners=owners))


def report_in(form: Format, text: Callable[[], str], json: Callable[[], str], page: Callable[[], ReportPage]) -> str:
    """A report that is no plan."""
    match form:
        case Format.TEXT:
            return text()
        case Format.JSON:
            return json()
        case Format.MARKDOWN:
            return report_markdown(page())
        case Format.HTML:
            return report_html(page())
        case _:
            assert_never(form)


def lasting(plan: Plan | None, undone: EditComparison) -> Section:
    """Effects of the edit ``undone`` that going back does not revert: by its fields, and by the plan of going back."""
    items = []
    for item in undone.items:
        for field in (field for field in item.fields if field.irreversible):
            edited = f"{item.kind} {item.name}: {field.path} {field.before} -> {field.after}"
            items.append(SectionItem(f"{edited}, where it was applied", (field.means,)))
    if plan is not None:
        lasting = [planned for planned in plan.changes if planned.reversibility.startswith("irreversible")]
        items += [SectionItem(f"{planned.id}: {planned.reversibility}") for planned in lasting]
        items += [SectionItem(refusal.reason.text, (refusal.todo,)) for refusal in plan.refused]
    for item in undone.items:
        if item.sign is Sign.ADDED and item.kind in _STAYS:
            items.append(SectionItem(f"{item.kind} {item.name}, where it was applied: {_STAYS[item.kind]}"))
    for impact in undone.flows:
        if impact.gained:
            gained = ", ".join(str(travel.remote) for travel in impact.gained)
            items.append(SectionItem(f"flow {impact.flow}, where it was applied: what was copied stays on {gained}"))
    if not items:
        return Section("Cannot be undone", "", (SectionItem("nothing: everything can be undone"),), count=0)
    return Section("Cannot be undone", "", tuple(items), urgent=True)
