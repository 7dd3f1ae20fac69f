"""A plan as Markdown that fits a pull-request comment: the verdict and what is dangerous first, the rest folded.

A comment may hold 65,536 characters. A longer plan is told with less detail, in the steps of ``Detail``, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from reconciler import planfile
from reconciler.causes import History
from reconciler.changes import Risk
from reconciler.plans import Outcome, Plan
from reconciler.probes import Probe
from reconciler.rendering.drift import NOTHING, differences, drift_verdict
from reconciler.rendering.escaping import code, fence, markdown
from reconciler.rendering.outcomes import Rolled, outcome_sections
from reconciler.rendering.outline import Entry, Step, ground, outline, risk_words, seen
from reconciler.rendering.sections import Item, Section, left_sections, load_sections
from reconciler.rendering.shifts import shift_sections
from reconciler.rendering.style import SHOWN
from reconciler.rendering.waves import gates_words
from reconciler.summary import applied_verdict, counted, verdict

GITHUB_LIMIT = 65_536
_LONGEST = 400
_NAMES = 60
_MARKER = "<!-- reconciler-"


class Detail(IntEnum):
    """How much is told. The first that fits is taken."""

    ALL = 0
    NO_VALUES = 1
    NAMES = 2
    COUNTS = 3


_LESS = {
    Detail.NO_VALUES: "This comment would be too long: values before and after are left out, long lists are cut.",
    Detail.NAMES: "This comment would be too long: changes are told by name only, long lists are cut.",
    Detail.COUNTS: "This comment would be too long: only counts are told.",
}


@dataclass(frozen=True, slots=True)
class Handoff:
    """How a reader goes on: the exact command that applies this, and where all of it can be read."""

    apply: str = ""
    artifact: str = ""


def marker(kind: str, environment: str) -> str:
    """The beginning of the hidden first line, by which a workflow finds the one comment it keeps up to date."""
    return f"{_MARKER}{kind} {_json({'environment': environment})[:-1]}"


def plan_markdown(
    plan: Plan, handoff: Handoff | None = None, limit: int = GITHUB_LIMIT, before: Sequence[Section] = ()
) -> str:
    """``before``: sections told ahead of the changes, such as what an edit means. ``limit`` in UTF-16 code units."""
    goes_on = handoff or Handoff()
    facts = {"digest": planfile.digest(plan), "apply": goes_on.apply}
    head = [_hidden("plan", plan.basis.environment, facts), _heading(plan, verdict(plan)), "", *_ground(plan), ""]
    sections = left_sections(plan)

    def told(detail: Detail) -> Iterator[str]:
        yield from head
        yield from _less(detail, goes_on)
        yield from _dangers(outline(plan), detail)
        yield from _told([one for one in sections if one.urgent], detail)
        yield from _told(before, detail)
        if plan.rollout and plan.changes:
            yield from (markdown(gates_words(plan.rollout.gates)), "")
        for step in outline(plan):
            yield from (f"**{markdown(step.opens)}**", "") if step.opens else ()
            yield from _step(step, detail)
        yield from _told((*load_sections(plan), *shift_sections(plan)), detail)
        yield from _told([one for one in sections if not one.urgent], detail)
        yield from _next(plan, goes_on)

    return _fitting(told, limit)


def offline_markdown(environment: str, sections: Sequence[Section], limit: int = GITHUB_LIMIT) -> str:
    """What is known without any cluster, in the same comment a plan would be in."""
    first, *rest = sections

    def told(detail: Detail) -> Iterator[str]:
        yield _hidden("plan", environment, {})
        yield from (f"### {markdown(environment)}: {markdown(_cut(first.why))}", "")
        yield from ("No cluster was asked: this is the edit alone, not a plan.", "")
        yield from _less(detail, Handoff())
        yield from (*_items(first, detail), "") if detail is not Detail.COUNTS else ()
        yield from _told(rest, detail)

    return _fitting(told, limit)


def drift_markdown(
    plan: Plan, handoff: Handoff | None = None, limit: int = GITHUB_LIMIT, seen: History = NOTHING
) -> str:
    """For the body of an issue or a comment."""
    found = [
        Item(f"{one.subject}: found {one.found}, declared {one.wished}", (f"{one.cause}: {one.why}",), sign="~")
        for one in differences(plan, seen)
    ]
    drifted = Section("Differences", "the clusters are not as git declares", tuple(found), urgent=True)
    sections = [*([drifted] if found else []), *left_sections(plan)]
    goes_on = handoff or Handoff()

    def told(detail: Detail) -> Iterator[str]:
        yield _hidden("drift", plan.basis.environment, {})
        yield from (_heading(plan, drift_verdict(plan)), "", *_ground(plan), "")
        yield from _less(detail, goes_on)
        yield from _told(sections, detail)

    return _fitting(told, limit)


def report_markdown(
    kind: str, environment: str, said: str, sections: Sequence[Section], limit: int = GITHUB_LIMIT
) -> str:
    """A report that is no plan: its verdict and its sections. ``kind`` finds the comment again (``marker``)."""
    whole = Handoff(artifact="the same with --format json")

    def told(detail: Detail) -> Iterator[str]:
        yield _hidden(kind, environment, {})
        yield from (f"### {markdown(environment)}: {markdown(_cut(said))}", "")
        yield from _less(detail, whole)
        yield from _told(sections, detail)

    return _fitting(told, limit)


def outcomes_markdown(
    plan: Plan,
    outcomes: Sequence[Outcome],
    limit: int = GITHUB_LIMIT,
    probes: Sequence[Probe] = (),
    rolled: Rolled | None = None,
) -> str:
    """Exactly what was done and what was not."""
    sections = outcome_sections(outcomes, probes, rolled)

    def told(detail: Detail) -> Iterator[str]:
        yield _hidden("outcome", plan.basis.environment, {"digest": planfile.digest(plan)})
        yield from (_heading(plan, applied_verdict(plan, outcomes)), "", *_ground(plan), "")
        yield from _less(detail, Handoff())
        yield from _told(sections, detail)

    return _fitting(told, limit)


def _fitting(told: Callable[[Detail], Iterator[str]], limit: int) -> str:
    text = ""
    for detail in Detail:
        text = "\n".join(told(detail)).rstrip("\n") + "\n"
        if len(text.encode("utf-16-le")) // 2 <= limit:
            break
    return text


def _hidden(kind: str, environment: str, facts: dict[str, str]) -> str:
    return f"{_MARKER}{kind} {_json({'environment': environment, **facts})} -->"


def _json(value: dict[str, str]) -> str:
    """Cannot end the HTML comment it is put in."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e")


def _heading(plan: Plan, said: str) -> str:
    return f"### {markdown(plan.basis.environment)}: {markdown(_cut(said))}"


def _ground(plan: Plan) -> Iterator[str]:
    yield markdown(ground(plan.basis))
    clusters = plan.basis.clusters
    yield from (f"- {code(one.name)}: {markdown(seen(one))}" for one in clusters[:SHOWN])
    if len(clusters) > SHOWN:
        yield f"- and {len(clusters) - SHOWN} more clusters"


def _less(detail: Detail, handoff: Handoff) -> Iterator[str]:
    if detail in _LESS:
        where = f" All of it: {markdown(handoff.artifact)}." if handoff.artifact else " The saved plan has all of it."
        yield from (f"> {_LESS[detail]}{where}", "")


def _dangers(steps: Sequence[Step], detail: Detail) -> Iterator[str]:
    """What must not be missed: never inside a fold."""
    high = [(place.cluster, one) for step in steps for place in step.places for one in place.entries if _high(one)]
    if not high:
        return
    yield from (f"**HIGH risk ({sum(len(one.names) for _, one in high)})**", "")
    if detail is Detail.COUNTS:
        return
    shown = high if detail is Detail.ALL else high[:_NAMES]
    for cluster, one in shown:
        where = f"{code(cluster)} " if cluster else ""
        yield f"- {where}{_titled(one)}: {markdown(_cut(one.risk_text))} ({markdown(one.reversibility)})"
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
        listed = list(dict.fromkeys(names))
        count = counted(len(listed), "topic or mirror", "topics and mirrors")
        yield f"- {code(sign)} {count}: {_listed(listed, _NAMES)}"


def _entry(entry: Entry, detail: Detail) -> Iterator[str]:
    yield f"- {code(entry.sign)} {_titled(entry)}: {markdown(entry.headline)}"
    shown = len(entry.names) if detail is Detail.ALL else SHOWN
    if len(entry.names) > 1:
        yield f"  - {_listed(entry.names, shown)}"
        yield f"  - why: {markdown(entry.why)}"
    if detail is Detail.ALL:
        yield from (f"  - {code(line)}" for line in entry.lines)
    yield from (f"  - {markdown(line)}" for line in entry.stakes)
    if words := risk_words(entry):
        yield f"  - {'**' if _high(entry) else ''}{markdown(words)}{'**' if _high(entry) else ''}"
    if entry.needs:
        yield f"  - after {_listed(entry.needs, SHOWN)}: {markdown(entry.needs_why)}"
    if entry.later:
        yield f"  - {markdown(entry.later)}"


def _titled(entry: Entry) -> str:
    return code(entry.title) if len(entry.names) == 1 else markdown(entry.title)


def _told(sections: Sequence[Section], detail: Detail) -> Iterator[str]:
    for section in sections:
        heading = markdown(section.heading)
        if detail is Detail.COUNTS:
            yield from (f"- <b>{heading}</b>",)
        elif section.urgent:
            yield from (f"**{heading}**", "", *_items(section, detail), "")
        else:
            yield from (
                "<details>",
                f"<summary>{heading}</summary>",
                "",
                *_items(section, detail),
                "",
                "</details>",
                "",
            )


def _items(section: Section, detail: Detail) -> Iterator[str]:
    shown = len(section.items) if detail is Detail.ALL else SHOWN if detail is Detail.NO_VALUES else 3
    for item in section.items[:shown]:
        sign = f"{code(item.sign)} " if item.sign else ""
        yield f"- {sign}{markdown(item.text if detail is Detail.ALL else _cut(item.text))}"
        more = item.more if detail is Detail.ALL else item.more[:shown]
        yield from (f"  - {markdown(line if detail is Detail.ALL else _cut(line))}" for line in more)
        if len(more) < len(item.more):
            yield f"  - and {len(item.more) - len(more)} more"
    if shown < len(section.items):
        yield f"- and {len(section.items) - shown} more"


def _next(plan: Plan, handoff: Handoff) -> Iterator[str]:
    yield ""
    if handoff.apply and plan.changes and not plan.refused and not plan.unknown:
        yield from ("Apply exactly this:", fence(handoff.apply, "sh"))
    yield f"plan {code(planfile.digest(plan)[:16])}"


def _listed(names: Sequence[str], shown: int) -> str:
    text = ", ".join(code(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
