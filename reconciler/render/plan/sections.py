"""Findings of a plan besides its changes, as titled lists for any format."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType

from reconciler.engine.plan.amounts import Amount
from reconciler.errors import Unknown
from reconciler.model.changes import Outside, OutsideChange
from reconciler.model.environment.topology import TopicRef
from reconciler.model.plan import AccessShift, Basis, Plan
from reconciler.model.principals import IMPLIED_BY, WILDCARD, ResourceType, word
from reconciler.model.replicas import BrokerLoad, Load
from reconciler.model.reports.topology_map import TopologyMap
from reconciler.render.markup import SHOWN, Style
from reconciler.render.plan.impact import held
from reconciler.render.plan.outline import FOLD
from reconciler.resources.acls.authorizer.gains_and_losses import OPERATIONS, SOMEBODY_ELSE
from reconciler.text import counted, first_of, grouped, size_words

UNMANAGED_ACCESS = "Unmanaged access rules"
_FEW = 4
"""Names in an item on access."""
MOST_LINES = 40
"""Of a section in text."""
_OUTSIDE_SIGNS = {Outside.DELETED: "-", Outside.RECREATED: "!", Outside.MIN_INSYNC: "!"}
_OUTSIDE_WORDS = {
    Outside.DELETED: "deleted",
    Outside.RECREATED: "deleted and recreated",
    Outside.PARTITIONS: "partitions",
}


@dataclass(frozen=True, slots=True)
class SectionItem:
    text: str
    more: tuple[str, ...] = ()
    """Lines under the text."""
    sign: str = ""
    """Marks an addition, change or removal; mostly empty."""
    names: tuple[str, ...] = ()
    """Subjects of an item that covers several; each format shortens the list."""


Cell = str | tuple[str, ...]
"""Words, or names and values as they are written to Kafka; several names are folded."""


@dataclass(frozen=True, slots=True)
class SectionTable:
    """``heads``: in words of ours. A row has a cell for each."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    why: str
    """Of the whole section, in its heading; may be empty."""
    items: tuple[SectionItem, ...]
    urgent: bool = False
    """A reader must see it before agreeing: it comes before the changes, and no format folds it."""
    count: int | None = None
    """Shown even if items are left out or each means several; None: as many as there are items."""
    table: SectionTable | None = None
    """The items as a table, for pages, which have room for values side by side."""

    @property
    def heading(self) -> str:
        count = len(self.items) if self.count is None else self.count
        return f"{self.title} ({count:,}){': ' if self.why else ''}{self.why}"


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A report that is no plan, for Markdown and HTML."""

    kind: str
    """By this word a workflow finds the comment that it keeps up to date (``markdown.marker``)."""
    environment: str
    verdict: str
    sections: tuple[Section, ...]
    basis: Basis | None = None
    """Of the plan that it is about."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Hidden beside ``kind``, for programs that read the comment."""
    title: str = ""
    """Of the page, if that is not ``kind``."""
    origin: tuple[str, ...] = ()
    """Lines of the page about its subject, time and making; empty: the environment alone."""
    whole: str = ""
    """The place of the whole document, for a shortened comment."""


@dataclass(frozen=True, slots=True)
class Handoff:
    """The reader's next step: the exact command that applies the plan, and the place of the full document."""

    apply: str = ""
    artifact: str = ""


NO_HANDOFF = Handoff()
Owners = Mapping[TopicRef, str]
NO_OWNERS: Owners = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AboutPlan:
    """What is shown with a plan."""

    before: tuple[Section, ...] = ()
    """Sections ahead of the changes, such as the meaning of an edit."""
    drawn: TopologyMap | None = None
    """The plan on the map; text has no picture, and a comment leaves it out together with values."""
    owners: Owners = field(default_factory=lambda: NO_OWNERS)
    """Declared owners of topics, for pages."""
    amounts: Sequence[Amount] = ()
    """Amounts that the plan copies, loses and moves."""
    lead: str = ""
    """Beginning of the headline."""


NOTHING_ABOUT = AboutPlan()


# what will not be done


ON_EVERY_PLAN = frozenset({"quota-key-not-declared", "quota-unmanaged", "undeclared-override", "user-unmanaged"})
"""Rules about objects that no file names: equal in each plan, so drift lists them."""


def of_this_plan(plan: Plan) -> Plan:
    return replace(plan, ignored=tuple(each for each in plan.ignored if each.rule not in ON_EVERY_PLAN))


def left_sections(plan: Plan, unmanaged: bool = False) -> tuple[Section, ...]:
    """Blocked, unknown, ignored, notes: non-empty ones only, nothing folded. ``unmanaged``: also the lists that are the
    same in each plan of a healthy environment; drift shows them, a plan does not."""
    plan = plan if unmanaged else of_this_plan(plan)
    blocked = tuple(SectionItem(problem, (todo,)) for problem, todo in refusals(plan))
    why = "nothing is applied until these are resolved"
    sections = [Section("Blocked", why, blocked, urgent=True, count=len(plan.refused)), unknown_section(plan.unknown)]
    if unmanaged:
        topics = (SectionItem(f"{each.ref}, {counted(each.partitions, 'partition')}") for each in plan.unmanaged)
        sections.append(Section("Unmanaged", "neither declared nor made by a flow, never changed", tuple(topics)))
        access = tuple(
            SectionItem(f"{cluster}: {principal}, {counted(len(rules), 'rule')}", rules)
            for cluster, principal, rules in unmanaged_rules(plan)
        )
        why = "neither declared nor made by an earlier run, never changed"
        sections.append(Section(UNMANAGED_ACCESS, why, access, count=len(plan.unmanaged_acls)))
    ignored = (
        SectionItem(rule, tuple(f"{', '.join(whom)}: {text}" for text, whom in texts.items()))
        for rule, texts in ignored_by_rule(plan).items()
    )
    sections.append(Section("Ignored", "left as it is, by rule", tuple(ignored), count=len(plan.ignored)))
    sections.append(Section("Notes", "", tuple(map(SectionItem, plan.notes))))
    return tuple(section for section in sections if section.items)


def refusals(plan: Plan) -> Iterator[tuple[str, str]]:
    """Refusals with remedies. One refusal of many subjects appears once, with their names."""
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
        items.append(SectionItem(unknown.words, more))
    return Section("Unknown", "could not be read, so nothing is concluded from it", tuple(items), urgent=True)


def unmanaged_rules(plan: Plan) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Cluster, principal and the rules it has there, without naming it again."""
    for (cluster, principal), acls in groupby(plan.unmanaged_acls, key=lambda acl: (acl.cluster, acl.acl.principal)):
        who = word(principal)
        yield cluster, who, tuple(str(acl.acl).replace(f"{who} ", "", 1) for acl in acls)


def ignored_by_rule(plan: Plan) -> dict[str, dict[str, list[str]]]:
    """Rule -> text -> its subjects."""
    by_rule = grouped((ignored.rule, ignored) for ignored in sorted(plan.ignored, key=attrgetter("rule")))
    return {rule: grouped((ignored.text, str(ignored.subject)) for ignored in some) for rule, some in by_rule.items()}


# what the changes come to


def load_sections(plan: Plan) -> tuple[Section, ...]:
    """The brokers of clusters on which replicas move: ``east broker 1 (rack a): 4 -> 12 replicas, 4 preferred leaders,
    20.0 MiB -> 60.0 MiB``."""
    items = []
    for load in plan.loads:
        rack = f" (rack {load.rack})" if load.rack else ""
        replicas = _span(str, load, lambda load: load.replicas)
        leaders = _span(str, load, lambda load: load.leaders)
        size = _span(size_words, load, lambda load: load.bytes)
        text = f"{load.cluster} broker {load.broker}{rack}: {replicas} replicas, {leaders} preferred leaders, {size}"
        items.append(SectionItem(text))
    why = "before -> after, and the most each holds meanwhile where that is more"
    return (Section("Brokers", why, tuple(items)),) if items else ()


def _span(words: Callable[[int], str], broker_load: BrokerLoad, part: Callable[[Load], int]) -> str:
    before, during, after = part(broker_load.before), part(broker_load.during), part(broker_load.after)
    peak = f" (meanwhile {words(during)})" if during > max(before, after) else ""
    return words(before) if before == after and not peak else f"{words(before)} -> {words(after)}{peak}"


def shift_sections(plan: Plan) -> tuple[Section, ...]:
    """Principals that gain or lose access by the plan: losses first."""
    items = []
    for shift in plan.shifts:
        # Without operations that the others contain, as rules are written.
        implied = {each: IMPLIED_BY.get(each, frozenset()) for each in shift.operations}
        operations = ", ".join(each for each in shift.operations if not implied[each].intersection(shift.operations))
        if set(OPERATIONS[shift.resource]) <= set(shift.operations) and len(shift.operations) > 1:
            operations = "every operation"
        who = shift.principal if shift.principal == SOMEBODY_ELSE else word(shift.principal)
        verb = "gains" if shift.gained else "loses"
        where = "" if shift.resource is ResourceType.CLUSTER else f" {_names(shift)}"
        host = "" if shift.host == WILDCARD else f" from {shift.host}"
        readers = [f"{word(reader.group)} ({counted(reader.members, 'member')})" for reader in shift.readers]
        more = [f"read now by {first_of(readers, _FEW)}"] if readers else []
        more += [f"not known: {why}" for why in shift.unknown]
        text = f"{shift.cluster}: {who} {verb} {operations} on {shift.resource}{where}{host}"
        items.append(SectionItem(text, tuple(more), "+" if shift.gained else "-"))
    why = "what the access rules come to for each principal, all of this plan together"
    return (Section("Who may do what", why, tuple(items)),) if items else ()


def _names(shift: AccessShift) -> str:
    """Patterns first, with the names that match them today."""
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


# what changed outside of git


def outside_sections(plan: Plan, elsewhere: Collection[str] = ()) -> tuple[Section, ...]:
    """None or one: in a plan all changes outside of git, in a drift report those that no difference shows.
    ``elsewhere``: names (``OutsideChange.name``) in other parts of the document."""
    changes = [change for change in plan.outside if change.name not in elsewhere]
    items: list[SectionItem] = []
    alike = grouped((replace(change, subject=change.subject._replace(name="")), change) for change in changes)
    for members in alike.values():
        if len(members) < FOLD:
            items += [_outside_item(str(change.subject), change) for change in members]
        else:
            title = f"{counted(len(members), 'topic')} of {members[0].subject.cluster}"
            names = tuple(change.subject.name for change in members)
            items.append(replace(_outside_item(title, members[0]), names=names))
    why = "not by an apply; what apply does about it is among the changes"
    section = Section("Changed outside of git", why, tuple(items), urgent=True, count=len(changes))
    return (section,) if changes else ()


def outside_lines(plan: Plan, style: Style, elsewhere: Collection[str] = ()) -> Iterator[str]:
    for section in outside_sections(plan, elsewhere):
        lines = []
        for item in section.items:
            lines.append(f"  {style.paint(item.sign, item.sign)} {item.text}")
            lines += [f"      {style.listed(item.names)}"] if item.names else []
            lines += [f"      {line}" for line in item.more]
        yield from ("", style.paint("alarm", section.heading), *style.cut(lines, MOST_LINES))


def _outside_item(title: str, change: OutsideChange) -> SectionItem:
    verb = _OUTSIDE_WORDS.get(change.kind, change.key)
    values = f"{change.before} -> {change.after}" if change.before else change.after
    since = f", since {change.since}" if change.since else ""
    more = (change.why,) if change.why else ()
    if (copied := change.copied_again) is not None:
        more = (*more, f"{copied.source} {held(copied.records, copied.bytes, copied.unknown)}")
    return SectionItem(f"{title} {verb}: {values}{since}", more, _OUTSIDE_SIGNS.get(change.kind, "~"))


# as text


def sections_lines(sections: Sequence[Section], style: Style) -> Iterator[str]:
    """Sections that have no lines of their own in text."""
    for section in sections:
        yield from ("", style.paint("alarm", section.heading) if section.urgent else section.heading)
        yield from section_lines(section, style)


def section_lines(section: Section, style: Style) -> Iterator[str]:
    """The items of a section, without its heading."""
    shown = len(section.items) if style.full else MOST_LINES
    for item in section.items[:shown]:
        sign = f"{style.paint(item.sign, item.sign)} " if item.sign else ""
        yield f"  {sign}{item.text}"
        if item.names:
            yield f"      {style.listed(item.names)}"
        yield from style.cut([f"      {line}" for line in item.more], MOST_LINES)
    if len(section.items) > shown:
        yield f"  and {len(section.items) - shown} more; --format html or json has all of them"
