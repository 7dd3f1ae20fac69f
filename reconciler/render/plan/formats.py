"""A review (an edit and its plan) in the four formats: text, which is written here, JSON, Markdown, HTML."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import assert_never

from reconciler.engine.edits.effects import lead
from reconciler.engine.plan import file as planfile
from reconciler.engine.plan.amounts import Amount
from reconciler.engine.plan.summary import verdict
from reconciler.errors import ExitCode, Problem, ReconcilerError
from reconciler.model.changes import Risk
from reconciler.model.live import LiveState
from reconciler.model.plan import Plan
from reconciler.model.reports.edit import Against, EditComparison, NoEffect, Sign
from reconciler.model.reports.topology_map import TopologyMap
from reconciler.render.markup import PLAIN, SHOWN, Format, Style, lines_of
from reconciler.render.plan import sections
from reconciler.render.plan.html import NO_OWNERS, AboutPlan, Owners, offline_html, plan_html, report_html
from reconciler.render.plan.impact import amounts_lines, amounts_sentence
from reconciler.render.plan.markdown import GITHUB_LIMIT, offline_markdown, plan_markdown, report_markdown
from reconciler.render.plan.outline import PlanEntry, basis_words, gates_words, ignored_words, outline, risk_words, seen
from reconciler.render.plan.sections import Handoff, ReportPage, Section, SectionItem, sections_lines
from reconciler.render.reports import edit
from reconciler.text import by_prefix, counted

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

    begins = lead(review.effectless, comparison, against)
    match form:
        case Format.TEXT:
            about = AboutEdit(begins, tuple(sections_lines(before, style)))
            return plan_text(plan, style, amounts=review.amounts, about=about)
        case Format.MARKDOWN:
            drawn = review.drawn() if review.drawn is not None else None
            return plan_markdown(plan, handoff, GITHUB_LIMIT, before, drawn, review.amounts, begins)
        case Format.HTML:
            drawn = review.drawn() if review.drawn is not None else None
            owners = review.owned() if review.owned is not None else NO_OWNERS
            return plan_html(plan, handoff, before, AboutPlan(drawn, owners, review.amounts, begins))
        case _:
            assert_never(form)


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


# A plan as text: verdict, basis, changes by stage and cluster, then what will not be done.

MANY = 12
"""New topics of several shapes on one cluster: a reader does not read more entries one by one."""


@dataclass(frozen=True, slots=True)
class AboutEdit:
    """``lead``: beginning of the headline; ``lines``: the meaning of the edit, as text."""

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
    """``ignoring``: why the run ignores gates, or empty. ``amounts``: what it copies, loses and moves. ``about``: the
    edit that it plans."""
    lines = [style.paint("alarm" if about.lead else "bold", f"{about.lead}{verdict(plan)}")]
    lines += [style.paint("bold", amounts_sentence(amounts))] if amounts else []
    lines += [basis_words(plan.basis)]
    lines += [f"  {cluster.name}: {seen(cluster)}" for cluster in plan.basis.clusters]
    lines += ["", "How much", *_cut([f"  {line}" for line in amounts_lines(amounts)], style)] if amounts else []
    lines += [*about.lines, *sections.outside_lines(plan, style)]
    if plan.rollout and plan.changes:
        lines.append(ignored_words(ignoring) if ignoring else gates_words(plan.rollout.gates))
    for step in outline(plan, bool(ignoring)):  # the same list in the same order as apply walks
        lines += ["", style.paint("bold", step.opens)] if step.opens else []
        lines += ["", f"{step.number}. {step.title}, {step.why}"]
        for place in step.places:
            lines += [f"  {place.cluster}"] if place.cluster else []
            indent = "    " if place.cluster else "  "
            # Many new topics without a risk share two lines: a widened expression hides nothing else behind them.
            plain = [each for each in place.entries if (each.sign, each.noun, each.risk) == ("+", "topic", Risk.LOW)]
            plain = plain if len(plain) > MANY and not style.full else []
            for entry in place.entries:
                lines += [] if entry in plain else _entry(entry, style, indent)
            if names := [name for each in plain for name in each.names]:
                shapes = f"{counted(len(names), 'topic')}, {counted(len(plain), 'shape')}"
                lines.append(f"{indent}+ {shapes}: {by_prefix(names)}")
                lines.append(f"{indent}    each with its values: --format html or json")
    for section in sections.load_sections(plan):
        lines += ["", section.heading, *(f"  {item.text}" for item in section.items)]
    for section in sections.shift_sections(plan):
        shifts = [f"  {item.sign} {item.text}{''.join(f'; {name}' for name in item.more)}" for item in section.items]
        lines += ["", section.heading, *_cut(shifts, style)]
    return lines_of([*lines, *left_lists(plan, style, unmanaged=style.full)], style)


def _entry(entry: PlanEntry, style: Style, indent: str) -> Iterator[str]:
    yield f"{indent}{style.paint(entry.sign, entry.sign)} {entry.title}: {entry.headline}"
    inner = f"{indent}    "
    if len(entry.names) > 1:
        yield f"{inner}{style.listed(entry.names)}"
        yield f"{inner}why: {entry.why}"
    lines = [f"{inner}{line}" for line in (style.full and entry.rules) or entry.lines]
    yield from _cut(lines, style) if entry.folds else lines
    yield from (f"{inner}{line}" for line in entry.stakes)
    if words := risk_words(entry):
        yield f"{inner}{style.paint('alarm', words) if entry.risk is Risk.HIGH else words}"
    if entry.needs:
        yield f"{inner}after {style.listed(entry.needs)}: {entry.needs_why}"
    if entry.later:
        yield f"{inner}{entry.later}"


def left_lists(plan: Plan, style: Style, unmanaged: bool = False) -> Iterator[str]:
    """``left_sections`` as lines, each list folded so that most of it stays readable."""
    # What blocks a plan is never folded: each refusal has its own remedy. Names of topics and rules are, because a
    # cluster that was never adopted has thousands.
    plan = plan if unmanaged else sections.of_this_plan(plan)
    for section in sections.left_sections(plan, unmanaged):
        heading = "Notes" if section.title == "Notes" else section.heading
        yield from ("", style.paint("alarm", heading) if section.urgent else heading)
        match section.title:
            case "Blocked":
                for problem, todo in sections.refusals(plan):
                    yield from (f"  {problem}", f"    {todo}")
            case "Unknown":
                for unknown in plan.unknown:
                    yield f"  {unknown.words}"
                    yield from [f"    {unknown.todo}"] if unknown.todo else ()
                    yield from [f"    not decided: {style.listed(unknown.detail)}"] if unknown.detail else ()
            case "Unmanaged":
                for cluster, topics in groupby(plan.unmanaged, key=lambda topic: topic.ref.cluster):
                    names = [f"{topic.ref.name} ({topic.partitions}p)" for topic in topics]
                    yield f"  {cluster}: {style.listed(names)}"
            case title if title == sections.UNMANAGED_ACCESS:
                access = []
                for cluster, principal, rules in sections.unmanaged_rules(plan):
                    few = style.full or len(rules) <= SHOWN // 2
                    access.append(f"  {cluster}: {principal}: {style.listed(rules) if few else f'{len(rules)} rules'}")
                yield from _cut(access, style)
            case "Ignored":
                for rule, texts in sections.ignored_by_rule(plan).items():
                    yield f"  {rule}"
                    yield from _cut([f"    {style.listed(whom)}: {text}" for text, whom in texts.items()], style)
            case _:
                yield from _cut([f"  {item.text}" for item in section.items], style)


def _cut(lines: Sequence[str], style: Style) -> Sequence[str]:
    """Showing one more takes no more room than saying so."""
    return lines if len(lines) == SHOWN + 1 else style.cut(lines)
