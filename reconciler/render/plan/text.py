"""A plan as text: verdict, basis, changes by stage and cluster, then what will not be done."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from reconciler.engine.plan.summary import verdict
from reconciler.model.changes import Risk
from reconciler.model.plan import Plan
from reconciler.render.markup import PLAIN, SHOWN, Style, lines_of
from reconciler.render.plan import sections
from reconciler.render.plan.impact import amounts_lines, amounts_sentence
from reconciler.render.plan.outline import PlanEntry, basis_words, gates_words, ignored_words, outline, risk_words, seen
from reconciler.text import by_prefix, counted

MANY = 12
"""New topics of several shapes on one cluster: a reader does not read more entries one by one."""


def plan_text(
    plan: Plan, style: Style = PLAIN, ignoring: str = "", about: sections.AboutPlan = sections.NOTHING_ABOUT
) -> str:
    """``ignoring``: why the run ignores gates, or empty."""
    amounts = about.amounts
    lines = [style.paint("alarm" if about.lead else "bold", f"{about.lead}{verdict(plan)}")]
    lines += [style.paint("bold", amounts_sentence(amounts))] if amounts else []
    lines += [basis_words(plan.basis)]
    lines += [f"  {cluster.name}: {seen(cluster)}" for cluster in plan.basis.clusters]
    lines += ["", "How much", *_cut([f"  {line}" for line in amounts_lines(amounts)], style)] if amounts else []
    lines += [*sections.sections_lines(about.before, style), *sections.outside_lines(plan, style)]
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
