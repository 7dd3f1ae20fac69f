"""What an edit means, as sections for any renderer, as text, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from reconciler import planfile
from reconciler.changes import Risk
from reconciler.comparison import (
    Against,
    Comparison,
    Fate,
    FieldChange,
    FlowImpact,
    ItemChange,
    MirrorImpact,
    Travel,
)
from reconciler.counts import counted
from reconciler.errors import Problem
from reconciler.plans import Plan
from reconciler.rendering.outline import FOLD
from reconciler.rendering.sections import Item, Section
from reconciler.rendering.style import Style

FORMAT_VERSION = 1
LONGEST = 40
REMOTE = "remote topic"
_PLURALS = {"class": "classes", "defaults": "defaults"}
_FATES = {Fate.STARTS: "+", Fate.RESTARTS: "!", Fate.STOPS: "-", Fate.KEEPS_RUNNING: ""}


def comparison_verdict(found: Comparison, against: Against) -> str:
    """``Edit since main (commit 4f0c2d1e9ab3): ~1 topic, +1 flow; mirror west restarts``."""
    dirty = ", with uncommitted changes" if against.dirty else ""
    word = "Going back to" if against.revert else "Edit since"
    since = f"{word} {against.base} (commit {against.commit[:12]}{dirty})"
    if found.new:
        since = f"{since}: the environment was not there yet, all of it is new"
    if not found.items and not found.follows and not found.flows:
        return f"{since}: {_nothing(found)}"
    count = Counter((item.sign.value, item.kind) for item in found.items)
    parts = [
        ", ".join(f"{sign}{counted(number, kind, _PLURALS.get(kind, ''))}" for (sign, kind), number in count.items())
    ]
    parts += [f"mirror {one.mirror} {one.fate}" for one in found.mirrors if one.fate is not Fate.KEEPS_RUNNING]
    if high := sum(field.risk is Risk.HIGH for item in found.items for field in item.fields):
        parts.append(f"{high:,} HIGH risk")
    return f"{since}: {'; '.join(part for part in parts if part)}"


def comparison_sections(found: Comparison, against: Against) -> tuple[Section, ...]:
    """The verdict as a section's heading, then each part that has something in it."""
    items = tuple(_folded(found.items))
    sections = [Section("What the edit means", comparison_verdict(found, against), items, count=len(found.items))]
    flows = [
        Item(_balance(impact), tuple(f"{word} {travel}" for word, travel in _gained_and_lost(impact)))
        for impact in found.flows
    ]
    count = sum(len(impact.gained) + len(impact.lost) for impact in found.flows)
    sections.append(
        Section("Declared topics that flows gain or lose", "what was copied stays", tuple(flows), count=count)
    )
    follows = tuple(_folded(found.follows))
    sections.append(Section("Remote topics that follow", "", follows, count=len(found.follows)))
    sections.append(Section("Mirror jobs", "", tuple(_mirror(one) for one in found.mirrors)))
    return (sections[0], *(section for section in sections[1:] if section.items))


def untold_section(problems: Sequence[Problem], against: Against) -> Section:
    """In place of what an edit means, where its base is not valid: an edit that mends it is planned all the same."""
    since = f"What the edit since {against.base} (commit {against.commit[:12]}) means cannot be told"
    why = f"{since}: that commit is not valid. What apply would do now is told below."
    return Section("What the edit means", why, tuple(Item(str(one)) for one in problems), count=len(problems))


def comparison_text(sections: Sequence[Section], style: Style | None = None) -> str:
    """``sections`` as ``comparison_sections`` makes them, with or without more."""
    chosen = style or Style()
    first, *rest = sections
    lines = [chosen.paint("bold", first.why), *_lines(first, chosen)]
    for section in rest:
        lines += ["", section.heading, *_lines(section, chosen)]
    return "\n".join(lines) + "\n"


def review_json(
    found: Comparison, against: Against, plan: Plan | None, exit_code: int, lasting: Section | None = None
) -> str:
    """As schemas/review.schema.json. ``plan`` is null when no cluster was asked; ``lasting`` is for a way back."""
    document: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "kind": "review",
        "environment": found.environment,
        "verdict": comparison_verdict(found, against),
        "exit_code": exit_code,
        "against": asdict(against),
        "empty": found.empty,
        "new": found.new,
        "items": [asdict(one) for one in found.items],
        "follows": [asdict(one) for one in found.follows],
        "flows": [
            {
                "flow": one.flow,
                **{
                    side: [
                        {"source": str(travel.source), "remote": str(travel.remote)} for travel in getattr(one, side)
                    ]
                    for side in ("gained", "lost")
                },
            }
            for one in found.flows
        ],
        "mirrors": [asdict(one) for one in found.mirrors],
        "cannot_be_taken_back": [] if lasting is None or not lasting.urgent else [item.text for item in lasting.items],
        "plan": None if plan is None else json.loads(planfile.dumps(plan)),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _nothing(found: Comparison) -> str:
    if found.same_text:
        return "nothing was edited"
    return "only comments, layout or the order of things; nothing that is declared"


def _folded(items: Sequence[ItemChange]) -> Iterator[Item]:
    """Equal changes of several, where the first of them stands; where each is written, git tells."""
    alike: dict[Hashable, list[ItemChange]] = {}
    for item in items:
        alike.setdefault(_likeness(item), []).append(item)
    for members in alike.values():
        if len(members) < FOLD:
            yield from map(_item, members)
        else:
            yield _together(members)


def _likeness(item: ItemChange) -> Hashable:
    """All that is told of a change but its name. A remote topic's value comes from a source of its own."""
    if item.kind != REMOTE:
        return item.sign, item.kind, item.means, item.fields
    fields = tuple(replace(one, means="") for one in item.fields)
    return item.sign, item.kind, item.name.partition("/")[0], item.means, fields


def _together(members: Sequence[ItemChange]) -> Item:
    first = members[0]
    means = f": {first.means}" if first.means else ""
    fields = first.fields if first.kind != REMOTE else [_of_its_source(one) for one in first.fields]
    kind = counted(len(members), first.kind, _PLURALS.get(first.kind, ""))
    return Item(
        f"{kind}, each{means}", tuple(map(_field, fields)), first.sign.value, tuple(one.name for one in members)
    )


def _of_its_source(field: FieldChange) -> FieldChange:
    return replace(field, means="its source") if field.means.startswith("source ") else field


def _item(item: ItemChange) -> Item:
    place = f", {item.where}" if item.where else ""
    means = f": {item.means}" if item.means else ""
    return Item(f"{item.kind} {item.name}{place}{means}", tuple(_field(one) for one in item.fields), item.sign.value)


def _field(field: FieldChange) -> str:
    risk = (
        f"{field.risk.upper() if field.risk is Risk.HIGH else field.risk} risk: " if field.risk is not Risk.LOW else ""
    )
    lasting = " (irreversible)" if field.irreversible else ""
    means = f"; {risk}{field.means}{lasting}" if field.means else ""
    if not field.before:
        return f"{field.path} = {field.after}{means}"
    return f"{field.path}: {field.before} -> {field.after}{means}"


def _balance(impact: FlowImpact) -> str:
    """With counts where there are several: a list that is cut must not hide that topics are lost."""
    counts = [f"{word} {len(some):,}" for word, some in (("gains", impact.gained), ("loses", impact.lost)) if some]
    several = len(impact.gained) + len(impact.lost) > 1
    return f"flow {impact.flow}: {', '.join(counts)}" if several else f"flow {impact.flow}"


def _gained_and_lost(impact: FlowImpact) -> Iterator[tuple[str, Travel]]:
    yield from (("gains", travel) for travel in impact.gained)
    yield from (("loses", travel) for travel in impact.lost)


def _mirror(one: MirrorImpact) -> Item:
    prints = f" (fingerprint {one.before} -> {one.after})" if one.fate is Fate.RESTARTS else ""
    more = (*one.because, *(f"needs no restart: {line}" for line in one.harmless))
    return Item(f"mirror {one.mirror} {one.fate}{prints}", more, _FATES[one.fate])


def _lines(section: Section, style: Style) -> Iterator[str]:
    shown = len(section.items) if style.full else LONGEST
    for item in section.items[:shown]:
        sign = f"{style.paint(item.sign, item.sign)} " if item.sign else ""
        yield f"  {sign}{item.text}"
        if item.names:
            yield f"      {style.listed(item.names)}"
        yield from (f"      {line}" for line in item.more[: len(item.more) if style.full else LONGEST])
        if len(item.more) > LONGEST and not style.full:
            yield f"      and {len(item.more) - LONGEST} more"
    if len(section.items) > shown:
        yield f"  and {len(section.items) - shown} more; --format html or json has all of them"
