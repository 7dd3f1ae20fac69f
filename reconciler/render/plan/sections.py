"""What a plan will not do, and other notes, as titled lists for any format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from reconciler.errors import Unknown
from reconciler.model.acls import word
from reconciler.model.plan import Basis, Plan
from reconciler.render.plan.replicas import LOADS_WHY, load_lines
from reconciler.render.style import SHOWN
from reconciler.text import counted, first_of, grouped

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
