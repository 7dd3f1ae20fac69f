"""The report of an edit as text, JSON and sections for any format."""

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from reconciler.engine.plan import file as planfile
from reconciler.errors import Problem
from reconciler.model.changes import Risk
from reconciler.model.plan import Plan
from reconciler.model.reports import edit
from reconciler.render.markup import PLAIN, SHOWN, Style, lines_of, report_json
from reconciler.render.plan.outline import FOLD, risk_label
from reconciler.render.plan.sections import Section, SectionItem, section_lines, sections_lines
from reconciler.resources.topics.diff_deletions import WAY
from reconciler.text import counted, grouped

_FIRST_WORD = re.compile(r"_*[^._-]+[._-]")
_TITLE = "What the edit means"
REMOTE = "remote topic"
PLURALS = {"class": "classes", "defaults": "defaults", "access": "access"}
_VERBS = {edit.Sign.ADDED: "adds", edit.Sign.CHANGED: "changes", edit.Sign.REMOVED: "removes"}
_FATES = {edit.Fate.STARTS: "+", edit.Fate.RESTARTS: "!", edit.Fate.STOPS: "-", edit.Fate.KEEPS_RUNNING: ""}


def comparison_verdict(comparison: edit.EditComparison, against: edit.Against) -> str:
    """``Edit since main (commit 4f0c2d1e9ab3): adds 1 flow; changes 1 topic; mirror west restarts``."""
    dirty = ", with uncommitted changes" if against.dirty else ""
    word = "Going back to" if against.revert else "Edit since"
    since = f"{word} {against.base} (commit {against.commit[:12]}{dirty})"
    if comparison.new:
        since = f"{since}: the environment was not there yet, all of it is new"
    if not comparison.items and not comparison.follows and not comparison.flows:
        other = "only comments, layout, order or spelling; no declared value"
        return f"{since}: {'nothing was edited' if comparison.same_text else other}"
    counts = Counter((item.sign, item.kind) for item in comparison.items)
    parts: list[str] = []
    for action, verb in _VERBS.items():
        mine = [counted(many, kind, PLURALS.get(kind, "")) for (of, kind), many in counts.items() if of is action]
        parts += [f"{verb} {', '.join(mine)}"] if mine else []
    parts += [f"mirror {impact.mirror} {impact.fate}" for impact in comparison.mirrors if impact.disturbed]
    if high := sum(field.risk is Risk.HIGH for item in comparison.items for field in item.fields):
        parts.append(f"{high:,} HIGH risk")
    return f"{since}: {'; '.join(part for part in parts if part)}"


def comparison_sections(comparison: edit.EditComparison, against: edit.Against) -> tuple[Section, ...]:
    """The verdict as a section's heading, then each part that has something in it."""
    said, items, follows = comparison_verdict(comparison, against), comparison.items, comparison.follows
    flows, mirrors = [], []
    for flow in comparison.flows:
        # With a count for each of several parts: a shortened list must not hide lost topics.
        sides = [(word, some) for word, some in (("gains", flow.gained), ("loses", flow.lost)) if some]
        counts = f": {', '.join(f'{word} {len(some):,}' for word, some in sides)}" if flow.count > 1 else ""
        topics = tuple(f"{word} {travel}" for word, some in sides if len(some) <= SHOWN for travel in some)
        flows.append(SectionItem(f"flow {flow.flow}{counts}", topics))
        for word, some in sides:
            if len(some) > SHOWN:
                flows += _families(f"flow {flow.flow} {word}", some)
    for job in comparison.mirrors:
        prints = f" (fingerprint {job.before} -> {job.after})" if job.fate is edit.Fate.RESTARTS else ""
        why = (*job.because, *(f"needs no restart: {line}" for line in job.harmless))
        mirrors.append(SectionItem(f"mirror {job.mirror} {job.fate}{prints}", why, _FATES[job.fate]))
    count = sum(flow.count for flow in comparison.flows)
    # The first section stays even if it is empty: its ``why`` is the verdict, the headline of an edit without a plan.
    first, *more = (
        Section(_TITLE, said, tuple(folded(items)), count=len(items)),
        Section("Declared topics that flows gain or lose", "what was copied stays", tuple(flows), count=count),
        Section("Remote topics that follow", "", tuple(folded(follows)), count=len(follows)),
        Section("Mirror jobs", "", tuple(mirrors)),
    )
    return (first, *(section for section in more if section.items))


def _families(said: str, travels: Sequence[edit.TopicTravel]) -> Iterator[SectionItem]:
    """Many topics by the beginnings of their names, the most frequent first, so that the reach of a widened expression
    shows although each list is shortened."""
    families = grouped((_beginning(travel.source.name), str(travel)) for travel in travels)
    for beginning, names in sorted(families.items(), key=lambda family: -len(family[1])):
        yield SectionItem(f"{said} {beginning} ({len(names):,})", names=tuple(names))


def _beginning(topic: str) -> str:
    """``orders.*``: the first word of a name and its separator; the whole name where it is one word."""
    word = _FIRST_WORD.match(topic)
    return f"{word[0]}*" if word else topic


def renames_section(comparison: edit.EditComparison) -> tuple[Section, ...]:
    """None or one: topics that leave under one name and arrive under another, with the effect on both."""
    deleted = {item.name.partition("/")[2] for item in comparison.items if item.kind == "deletion"}
    items = []
    for item in comparison.items:
        if item.kind == "topic" and item.sign is edit.Sign.REMOVED and item.renamed:
            fate = "is deleted by its tombstone, with its records"
            fate = fate if item.name in deleted else "stays with its records and readers, and is no longer managed"
            lines = (f"{item.renamed} begins empty", f"{item.name} {fate}", WAY)
            items.append(SectionItem(f"{item.name} to {item.renamed}: a new topic", lines, "!"))
    return (Section("Renames", "Kafka renames no topic", tuple(items), urgent=True),) if items else ()


def effects_section(effectless: Sequence[edit.NoEffect], comparison: edit.EditComparison) -> tuple[Section, ...]:
    """None or one: entries of the edit without a change in the plan, except those of ``renames_section``."""
    moved = {item.name for item in comparison.items if item.kind == "topic" and item.renamed}
    left = [each for each in effectless if each.kind != "topic" or each.name not in moved]
    items = tuple(
        SectionItem(
            f"{each.kind} {each.name}{f': {each.setting}' if each.setting else ''}: {each.why}",
            (each.todo,) if each.todo else (),
            "!" if each.headline else "",
        )
        for each in left
    )
    loud = any(each.headline for each in left)
    why = "the plan has no change for these entries of the edit"
    return (Section("Edits without effect", why, items, urgent=loud),) if items else ()


def base_problems_section(problems: Sequence[Problem], against: edit.Against) -> Section:
    """Replaces the meaning of an edit whose base is invalid: the edit may fix it, so it is still planned."""
    since = f"What the edit since {against.base} (commit {against.commit[:12]}) means is not known"
    why = f"{since}: that commit is not valid. What apply would do now is shown below."
    return Section(_TITLE, why, tuple(SectionItem(str(problem)) for problem in problems))


def comparison_text(sections: Sequence[Section], style: Style = PLAIN) -> str:
    """``sections``: of ``comparison_sections``, perhaps with others; of an edit without a plan, which has the headline
    itself."""
    first, *rest = sections
    lines = [style.paint("bold", first.why), *section_lines(first, style), *sections_lines(rest, style)]
    return lines_of(lines, style)


def review_json(
    comparison: edit.EditComparison,
    against: edit.Against,
    plan: Plan | None,
    exit_code: int,
    lasting: Section | None = None,
    effectless: Sequence[edit.NoEffect] = (),
) -> str:
    """As schemas/review.schema.json. ``plan`` is null when no cluster was asked; ``lasting`` is for a way back."""
    return report_json(
        "review",
        comparison.environment,
        verdict=comparison_verdict(comparison, against),
        exit_code=exit_code,
        against=against,
        empty=comparison.empty,
        new=comparison.new,
        items=comparison.items,
        follows=comparison.follows,
        flows=[
            {"flow": impact.flow, "gained": _travels(impact.gained), "lost": _travels(impact.lost)}
            for impact in comparison.flows
        ],
        mirrors=comparison.mirrors,
        without_effect=effectless,
        cannot_be_taken_back=[item.text for item in lasting.items] if lasting and lasting.urgent else [],
        plan=None if plan is None else json.loads(planfile.dumps(plan)),
    )


def _travels(travels: Sequence[edit.TopicTravel]) -> list[dict[str, str]]:
    return [{"source": str(travel.source), "remote": str(travel.remote)} for travel in travels]


def folded(items: Sequence[edit.ItemChange]) -> Iterator[SectionItem]:
    """Equal changes of several share an item at the place of the first; where each is written, git says."""
    alike: dict[Hashable, list[edit.ItemChange]] = {}
    for item in items:
        # Values of remote topics may be equal although each has another source.
        key: Hashable = item.sign, item.kind, item.means, item.fields
        if item.kind == REMOTE:
            fields = tuple(replace(field, means="") for field in item.fields)
            key = item.sign, item.kind, item.name.partition("/")[0], item.means, fields
        alike.setdefault(key, []).append(item)
    for members in alike.values():
        first = members[0]
        if len(members) < FOLD:
            for item in members:
                place = f", {item.where}" if item.where else ""
                text = f"{item.kind} {item.name}{place}{_means(item)}"
                yield SectionItem(text, tuple(map(_field, item.fields)), item.sign.value)
            continue
        of = [first.kind == REMOTE and field.means.startswith("source ") for field in first.fields]
        shown = [
            replace(field, means="its source") if own else field for own, field in zip(of, first.fields, strict=True)
        ]
        text = f"{counted(len(members), first.kind, PLURALS.get(first.kind, ''))}, each{_means(first)}"
        yield SectionItem(text, tuple(map(_field, shown)), first.sign.value, tuple(item.name for item in members))


def _means(item: edit.ItemChange) -> str:
    return f": {item.means}" if item.means else ""


def _field(field: edit.FieldChange) -> str:
    means = f"; {meaning(field)}" if field.means else ""
    if not field.before:
        return f"{field.path} = {field.after}{means}"
    return f"{field.path}: {field.before} -> {field.after}{means}"


def meaning(field: edit.FieldChange) -> str:
    """Empty if there is nothing to say."""
    risk = "" if field.risk is Risk.LOW else f"{risk_label(field.risk)}: "
    lasting = " (irreversible)" if field.irreversible else ""
    return f"{risk}{field.means}{lasting}" if field.means else ""
