"""A plan as Markdown for a pull-request comment: the verdict and what is dangerous first, the rest folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler import planfile
from reconciler.causes import History
from reconciler.changes import Risk
from reconciler.counts import counted
from reconciler.plans import Outcome, Plan
from reconciler.probes import Probe
from reconciler.rendering.drift import NOTHING, differences, drift_verdict
from reconciler.rendering.escaping import code, fence, markdown
from reconciler.rendering.fitting import (
    GITHUB_LIMIT,
    Detail,
    Handoff,
    cut,
    fitting,
    hidden,
    less,
    listed,
    told_items,
    told_sections,
)
from reconciler.rendering.outcomes import Rolled, outcome_sections
from reconciler.rendering.outline import Entry, Step, ground, outline, risk_words, seen
from reconciler.rendering.sections import Item, Section, left_sections, load_sections
from reconciler.rendering.shifts import shift_sections
from reconciler.rendering.style import SHOWN
from reconciler.rendering.waves import gates_words
from reconciler.summary import applied_verdict, verdict

_NAMES = 60


def plan_markdown(
    plan: Plan, handoff: Handoff | None = None, limit: int = GITHUB_LIMIT, before: Sequence[Section] = ()
) -> str:
    """``before``: sections told ahead of the changes, such as what an edit means. ``limit`` in UTF-16 code units."""
    goes_on = handoff or Handoff()
    digest = planfile.digest(plan)
    facts = {"digest": digest, "apply": goes_on.apply}
    head = [hidden("plan", plan.basis.environment, facts), _heading(plan, verdict(plan)), "", *_ground(plan), ""]
    steps, sections = outline(plan), left_sections(plan)
    after = (*load_sections(plan), *shift_sections(plan))

    def told(detail: Detail) -> Iterator[str]:
        yield from head
        yield from less(detail, goes_on)
        yield from _dangers(steps, detail)
        yield from told_sections([one for one in sections if one.urgent], detail)
        yield from told_sections(before, detail)
        if plan.rollout and plan.changes:
            yield from (markdown(gates_words(plan.rollout.gates)), "")
        for step in steps:
            yield from (f"**{markdown(step.opens)}**", "") if step.opens else ()
            yield from _step(step, detail)
        yield from told_sections(after, detail)
        yield from told_sections([one for one in sections if not one.urgent], detail)
        yield from _next(plan, goes_on, digest)

    return fitting(told, limit)


def offline_markdown(environment: str, sections: Sequence[Section], limit: int = GITHUB_LIMIT) -> str:
    """What is known without any cluster, in the same comment a plan would be in."""
    first, *rest = sections

    def told(detail: Detail) -> Iterator[str]:
        yield hidden("plan", environment, {})
        yield from (f"### {markdown(environment)}: {markdown(cut(first.why))}", "")
        yield from ("No cluster was asked: this is the edit alone, not a plan.", "")
        yield from less(detail, Handoff())
        yield from (*told_items(first, detail), "") if detail is not Detail.COUNTS else ()
        yield from told_sections(rest, detail)

    return fitting(told, limit)


def drift_markdown(
    plan: Plan, handoff: Handoff | None = None, limit: int = GITHUB_LIMIT, seen: History = NOTHING
) -> str:
    """For the body of an issue or a comment."""
    found = [
        Item(f"{one.subject}: found {one.found}, {one.aim}", (f"{one.cause}: {one.why}",), sign="~")
        for one in differences(plan, seen)
    ]
    drifted = Section("Differences", "the clusters are not as git declares", tuple(found), urgent=True)
    sections = [*([drifted] if found else []), *left_sections(plan)]
    goes_on = handoff or Handoff()

    def told(detail: Detail) -> Iterator[str]:
        yield hidden("drift", plan.basis.environment, {})
        yield from (_heading(plan, drift_verdict(plan)), "", *_ground(plan), "")
        yield from less(detail, goes_on)
        yield from told_sections(sections, detail)

    return fitting(told, limit)


def report_markdown(
    kind: str, environment: str, said: str, sections: Sequence[Section], limit: int = GITHUB_LIMIT
) -> str:
    """A report that is no plan: its verdict and its sections. ``kind`` finds the comment again (``marker``)."""
    whole = Handoff(artifact="the same with --format json")

    def told(detail: Detail) -> Iterator[str]:
        yield hidden(kind, environment, {})
        yield from (f"### {markdown(environment)}: {markdown(cut(said))}", "")
        yield from less(detail, whole)
        yield from told_sections(sections, detail)

    return fitting(told, limit)


def outcomes_markdown(
    plan: Plan,
    outcomes: Sequence[Outcome],
    limit: int = GITHUB_LIMIT,
    probes: Sequence[Probe] = (),
    rolled: Rolled | None = None,
) -> str:
    """Exactly what was done and what was not."""
    sections = outcome_sections(outcomes, probes, rolled)
    first = hidden("outcome", plan.basis.environment, {"digest": planfile.digest(plan)})

    def told(detail: Detail) -> Iterator[str]:
        yield first
        yield from (_heading(plan, applied_verdict(plan, outcomes)), "", *_ground(plan), "")
        yield from less(detail, Handoff())
        yield from told_sections(sections, detail)

    return fitting(told, limit)


def _heading(plan: Plan, said: str) -> str:
    return f"### {markdown(plan.basis.environment)}: {markdown(cut(said))}"


def _ground(plan: Plan) -> Iterator[str]:
    yield markdown(ground(plan.basis))
    clusters = plan.basis.clusters
    yield from (f"- {code(one.name)}: {markdown(seen(one))}" for one in clusters[:SHOWN])
    if len(clusters) > SHOWN:
        yield f"- and {len(clusters) - SHOWN} more clusters"


def _dangers(steps: Sequence[Step], detail: Detail) -> Iterator[str]:
    """What must not be missed: never inside a fold."""
    high = [(place.cluster, one) for step in steps for place in step.places for one in place.entries if _high(one)]
    if not high:
        return
    yield from (f"**HIGH risk ({sum(len(one.names) for _, one in high):,})**", "")
    if detail is Detail.COUNTS:
        return
    shown = high if detail is Detail.ALL else high[:_NAMES]
    for cluster, one in shown:
        where = f"{code(cluster)} " if cluster else ""
        which = f" ({listed(one.names, SHOWN)})" if len(one.names) > 1 else ""
        yield f"- {where}{_titled(one)}{which}: {markdown(cut(one.risk_text))} ({markdown(one.reversibility)})"
    if len(shown) < len(high):
        yield f"- and {len(high) - len(shown)} more"
    yield ""


def _high(entry: Entry) -> bool:
    return entry.risk is Risk.HIGH


def _step(step: Step, detail: Detail) -> Iterator[str]:
    summary = f"<b>{step.number}. {markdown(step.title)}</b>, {markdown(step.why)}: {counted(step.count, 'change')}"
    if detail is Detail.COUNTS:
        clusters = [place.cluster for place in step.places if place.cluster][:SHOWN]
        where = f" on {', '.join(code(name) for name in clusters)}" if clusters else ""
        yield f"- {summary}{where}"
        return
    yield from ("<details>", f"<summary>{summary}</summary>", "")
    for place in step.places:
        yield from (f"**{markdown(place.cluster)}**", "") if place.cluster else ()
        if detail is Detail.NAMES:
            yield from _names(place.entries)
        else:
            for entry in place.entries:
                yield from _entry(entry, detail)
        yield ""
    yield from ("</details>", "")


def _names(entries: Sequence[Entry]) -> Iterator[str]:
    by_sign: dict[str, list[str]] = {}
    for entry in entries:
        by_sign.setdefault(entry.sign, []).extend(entry.names)
    for sign, names in by_sign.items():
        once = list(dict.fromkeys(names))
        count = counted(len(once), "topic or mirror", "topics and mirrors")
        yield f"- {code(sign)} {count}: {listed(once, _NAMES)}"


def _entry(entry: Entry, detail: Detail) -> Iterator[str]:
    yield f"- {code(entry.sign)} {_titled(entry)}: {markdown(entry.headline)}"
    shown = len(entry.names) if detail is Detail.ALL else SHOWN
    if len(entry.names) > 1:
        yield f"  - {listed(entry.names, shown)}"
        yield f"  - why: {markdown(entry.why)}"
    if detail is Detail.ALL:
        yield from (f"  - {code(line)}" for line in entry.lines)
    yield from (f"  - {markdown(line)}" for line in entry.stakes)
    if words := risk_words(entry):
        yield f"  - {'**' if _high(entry) else ''}{markdown(words)}{'**' if _high(entry) else ''}"
    if entry.needs:
        yield f"  - after {listed(entry.needs, SHOWN)}: {markdown(entry.needs_why)}"
    if entry.later:
        yield f"  - {markdown(entry.later)}"


def _titled(entry: Entry) -> str:
    return code(entry.title) if len(entry.names) == 1 else markdown(entry.title)


def _next(plan: Plan, handoff: Handoff, digest: str) -> Iterator[str]:
    yield ""
    if handoff.apply and plan.changes and not plan.refused and not plan.unknown:
        yield from ("Apply exactly this:", fence(handoff.apply, "sh"))
    yield f"plan {code(digest[:16])}"
