"""What changed outside of git, as a section of a plan; in a drift report, what no difference of it shows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from reconciler.model.changes import Outside, OutsideChange, Subject
from reconciler.model.plan import Plan
from reconciler.render.plan.impact import held
from reconciler.render.plan.outline import FOLD
from reconciler.render.plan.sections import Section, SectionItem
from reconciler.render.style import Style
from reconciler.text import counted, grouped

LONGEST = 40
TITLE = "Changed outside of git"
_SIGNS = {Outside.DELETED: "-", Outside.MADE_ANEW: "!", Outside.MIN_INSYNC: "!"}
_WORDS = {
    Outside.DELETED: "deleted",
    Outside.MADE_ANEW: "deleted and made anew",
    Outside.PARTITIONS: "partitions",
}


def outside_sections(plan: Plan, elsewhere: Collection[str] = ()) -> tuple[Section, ...]:
    """None or one. ``elsewhere``: names (``OutsideChange.name``) of what is told elsewhere."""
    changes = [change for change in plan.outside if change.name not in elsewhere]
    why = "by no apply; what apply does about it stands among the changes"
    section = Section(TITLE, why, tuple(_items(changes)), urgent=True, count=len(changes))
    return (section,) if changes else ()


def outside_lines(plan: Plan, style: Style, elsewhere: Collection[str] = ()) -> Iterator[str]:
    for section in outside_sections(plan, elsewhere):
        lines = []
        for item in section.items:
            lines.append(f"  {style.paint(item.sign, item.sign)} {item.text}")
            lines += [f"      {style.listed(item.names)}"] if item.names else []
            lines += [f"      {line}" for line in item.more]
        yield from ("", style.paint("alarm", section.heading), *style.cut(lines, LONGEST))


def _items(changes: Sequence[OutsideChange]) -> Iterator[SectionItem]:
    """Equal changes of several topics are told once."""
    for members in grouped((replace(change, subject=_place(change)), change) for change in changes).values():
        if len(members) < FOLD:
            yield from (_item(str(change.subject), change) for change in members)
        else:
            title = f"{counted(len(members), 'topic')} of {members[0].subject.cluster}"
            yield replace(_item(title, members[0]), names=tuple(change.subject.name for change in members))


def _place(change: OutsideChange) -> Subject:
    return change.subject._replace(name="")


def _item(title: str, change: OutsideChange) -> SectionItem:
    word = _WORDS.get(change.kind, change.key)
    values = f"{change.before} -> {change.after}" if change.before else change.after
    since = f", since {change.since}" if change.since else ""
    more = (change.why,) if change.why else ()
    if (copied := change.copied_again) is not None:
        more = (*more, f"{copied.source} {held(copied.records, copied.bytes, copied.unknown)}")
    return SectionItem(f"{title} {word}: {values}{since}", more, _SIGNS.get(change.kind, "~"))
