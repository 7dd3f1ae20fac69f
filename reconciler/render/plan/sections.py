"""What a plan says beside its changes, as titled lists for any format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

from reconciler.errors import Unknown
from reconciler.model.acls import WILDCARD, ResourceType, word
from reconciler.model.changes import Outside, OutsideChange, Subject
from reconciler.model.plan import Basis, Plan
from reconciler.model.replicas import BrokerLoad, Load
from reconciler.model.reports.impact import AccessShift
from reconciler.render.plan.impact import held
from reconciler.render.plan.outline import FOLD
from reconciler.render.style import SHOWN, Style
from reconciler.resources.acls.authorizer.decide import IMPLIES
from reconciler.resources.acls.authorizer.gains_and_losses import OPERATIONS, SOMEBODY_ELSE
from reconciler.text import counted, first_of, grouped, size_words

UNMANAGED_ACCESS = "Unmanaged access rules"


@dataclass(frozen=True, slots=True)
class SectionItem:
    """``text`` with lines under it. ``sign`` marks what is added, changed or removed; mostly empty. ``names``: those
    that it is told of, where it is told once of several."""

    text: str
    more: tuple[str, ...] = ()
    sign: str = ""
    names: tuple[str, ...] = ()


Cell = str | tuple[str, ...]
"""Words, or names and values as they are written to Kafka; several names are folded."""


@dataclass(frozen=True, slots=True)
class SectionTable:
    """``heads``: in words of ours. A row has a cell for each."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """``urgent``: a reader must see it before agreeing. ``count`` is told even when items are left out. ``table``: the
    same as the items for pages, where values stand side by side."""

    title: str
    why: str
    items: tuple[SectionItem, ...]
    urgent: bool = False
    count: int | None = None
    table: SectionTable | None = None

    @property
    def heading(self) -> str:
        count = len(self.items) if self.count is None else self.count
        return f"{self.title} ({count:,}){': ' if self.why else ''}{self.why}"


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A report that is no plan, for Markdown and HTML. ``kind``: by this word its comment is found again
    (``comment_limit.marker``), with ``facts`` hidden beside it. ``basis``: of the plan that it is about. ``title``:
    of the page, where that is not ``kind``. ``whole``: where all of it is, for a comment that is cut."""

    kind: str
    environment: str
    verdict: str
    sections: tuple[Section, ...]
    basis: Basis | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    title: str = ""
    whole: str = ""


def left_sections(plan: Plan, unmanaged: bool = False) -> tuple[Section, ...]:
    """Blocked, unknown, ignored, notes: each only when there is something in it; nothing is folded. ``unmanaged``: with
    the lists that are the same on each plan of a healthy environment; drift shows them, a plan does not."""
    notes = Section("Notes", "", tuple(map(SectionItem, plan.notes)))
    unknown = unknown_section(plan.unknown)
    left_alone = (_unmanaged(plan), _unmanaged_access(plan)) if unmanaged else ()
    sections = (_refused(plan), unknown, *left_alone, _ignored(plan), notes)
    return tuple(section for section in sections if section.items)


def load_sections(plan: Plan) -> tuple[Section, ...]:
    """The brokers of clusters on which replicas move."""
    items = tuple(map(SectionItem, load_lines(plan.loads)))
    return (Section("Brokers", LOADS_WHY, items),) if items else ()


def _refused(plan: Plan) -> Section:
    items = tuple(SectionItem(problem, (todo,)) for problem, todo in refusals(plan))
    why = "nothing is applied until these are resolved"
    return Section("Blocked", why, items, urgent=True, count=len(plan.refused))


def refusals(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is blocked and what to do. One refusal that meets many is told once, with whom it meets."""
    alike = grouped(
        ((each.reason.text, f"{each.todo}  [{each.reason.code}]"), str(each.subject.whole)) for each in plan.refused
    )
    for (problem, todo), whom in alike.items():
        if len(whom) > 1 or ("/" in whom[0] and whom[0].partition("/")[2] not in problem):
            problem = f"{problem}; met by {first_of(whom, SHOWN)}"
        yield problem, todo


def unknown_section(unknowns: Iterable[Unknown]) -> Section:
    items = []
    for unknown in unknowns:
        undecided = f"not decided: {first_of(unknown.detail, SHOWN)}" if unknown.detail else ""
        more = tuple(line for line in (unknown.todo, undecided) if line)
        items.append(SectionItem(f"{unknown.subject}: {unknown.error}", more))
    return Section("Unknown", "could not be read, so nothing is concluded from it", tuple(items), urgent=True)


def _unmanaged(plan: Plan) -> Section:
    items = (SectionItem(f"{topic.ref}, {counted(topic.partitions, 'partition')}") for topic in plan.unmanaged)
    return Section("Unmanaged", "neither declared nor made by a flow, never changed", tuple(items))


def unmanaged_rules(plan: Plan) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Cluster, principal and the rules it has there, without naming it again."""
    for (cluster, principal), acls in groupby(plan.unmanaged_acls, key=lambda acl: (acl.cluster, acl.acl.principal)):
        who = word(principal)
        yield cluster, who, tuple(str(acl.acl).replace(f"{who} ", "", 1) for acl in acls)


def _unmanaged_access(plan: Plan) -> Section:
    items = tuple(
        SectionItem(f"{cluster}: {principal}, {counted(len(rules), 'rule')}", rules)
        for cluster, principal, rules in unmanaged_rules(plan)
    )
    why = "neither declared nor made by an earlier run, never changed"
    return Section(UNMANAGED_ACCESS, why, items, count=len(plan.unmanaged_acls))


def _ignored(plan: Plan) -> Section:
    items = (
        SectionItem(rule, tuple(f"{', '.join(whom)}: {text}" for text, whom in texts.items()))
        for rule, texts in ignored_by_rule(plan).items()
    )
    return Section("Ignored", "left as it is, by rule", tuple(items), count=len(plan.ignored))


def ignored_by_rule(plan: Plan) -> dict[str, dict[str, list[str]]]:
    """Rule -> text -> the subjects it is said of."""
    by_rule = grouped((ignored.rule, ignored) for ignored in sorted(plan.ignored, key=attrgetter("rule")))
    return {rule: grouped((ignored.text, str(ignored.subject)) for ignored in some) for rule, some in by_rule.items()}


_SHIFTS = "Who may do what"
_FEW = 4


def shift_sections(plan: Plan) -> tuple[Section, ...]:
    items = tuple(
        SectionItem(_shift(shift), tuple(_more(shift)), "+" if shift.gained else "-") for shift in plan.shifts
    )
    why = "what the access rules come to for each principal, all of this plan together"
    return (Section(_SHIFTS, why, items),) if items else ()


def _shift(shift: AccessShift) -> str:
    verb = "gains" if shift.gained else "loses"
    where = "" if shift.resource is ResourceType.CLUSTER else f" {_names(shift)}"
    host = "" if shift.host == WILDCARD else f" from {shift.host}"
    who = shift.principal if shift.principal == SOMEBODY_ELSE else word(shift.principal)
    return f"{shift.cluster}: {who} {verb} {_operations(shift)} on {shift.resource}{where}{host}"


def _operations(shift: AccessShift) -> str:
    """Without what the others contain, as rules are written."""
    if set(OPERATIONS[shift.resource]) <= set(shift.operations) and len(shift.operations) > 1:
        return "every operation"
    implied = {each: IMPLIES.get(each, frozenset()) - {each} for each in shift.operations}
    return ", ".join(each for each in shift.operations if not implied[each].intersection(shift.operations))


def _names(shift: AccessShift) -> str:
    """Patterns first; the names of today under them are told as what they come to now."""
    begins = tuple(pattern[:-1] for pattern in shift.patterns)
    under = [word(name) for name in shift.names if name.startswith(begins)] if begins else []
    plain = [word(name) for name in shift.names if not begins or not name.startswith(begins)]
    parts = []
    if begins:
        now = f" (now {first_of(under, _FEW, shift.more if not plain else 0)})" if under else " (none there yet)"
        parts.append(f"{', '.join(map(word, shift.patterns))}{now if shift.resource is ResourceType.TOPIC else ''}")
    if plain:
        parts.append(first_of(plain, _FEW, shift.more))
    return ", ".join(parts)


def _more(shift: AccessShift) -> Iterator[str]:
    if shift.readers:
        words = [f"{word(reader.group)} ({counted(reader.members, 'member')})" for reader in shift.readers]
        yield f"read now by {first_of(words, _FEW)}"
    for why in shift.unknown:
        yield f"not known: {why}"


_MOST_OUTSIDE = 40
_OUTSIDE = "Changed outside of git"
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
    section = Section(_OUTSIDE, why, tuple(_items(changes)), urgent=True, count=len(changes))
    return (section,) if changes else ()


def outside_lines(plan: Plan, style: Style, elsewhere: Collection[str] = ()) -> Iterator[str]:
    for section in outside_sections(plan, elsewhere):
        lines = []
        for item in section.items:
            lines.append(f"  {style.paint(item.sign, item.sign)} {item.text}")
            lines += [f"      {style.listed(item.names)}"] if item.names else []
            lines += [f"      {line}" for line in item.more]
        yield from ("", style.paint("alarm", section.heading), *style.cut(lines, _MOST_OUTSIDE))


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


LOADS_WHY = "before -> after, and the most each holds meanwhile where that is more"


def load_lines(loads: Sequence[BrokerLoad]) -> Iterator[str]:
    """One a broker: ``east broker 1 (rack a): 4 -> 12 replicas, 4 leaders, 20.0 MiB -> 60.0 MiB``."""
    for load in loads:
        rack = f" (rack {load.rack})" if load.rack else ""
        replicas = _span(str, load, lambda load: load.replicas)
        leaders = _span(str, load, lambda load: load.leaders)
        size = _span(size_words, load, lambda load: load.bytes)
        yield f"{load.cluster} broker {load.broker}{rack}: {replicas} replicas, {leaders} preferred leaders, {size}"


def _span(words: Callable[[int], str], broker_load: BrokerLoad, part: Callable[[Load], int]) -> str:
    before, during, after = part(broker_load.before), part(broker_load.during), part(broker_load.after)
    peak = f" (meanwhile {words(during)})" if during > max(before, after) else ""
    return words(before) if before == after and not peak else f"{words(before)} -> {words(after)}{peak}"


@dataclass(frozen=True, slots=True)
class Handoff:
    """How a reader goes on: the exact command that applies this, and where all of it can be read."""

    apply: str = ""
    artifact: str = ""


NO_HANDOFF = Handoff()
