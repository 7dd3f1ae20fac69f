"""What a plan will not do, and whatever else is told beside its changes, as titled lists for any renderer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from reconciler.acls import word
from reconciler.changes import Ignored
from reconciler.counts import counted
from reconciler.plans import Plan
from reconciler.rendering.replicas import LOADS_WHY, load_lines
from reconciler.rendering.style import SHOWN

UNMANAGED_ACCESS = "Unmanaged access rules"


@dataclass(frozen=True, slots=True)
class Item:
    """``text`` with lines under it. ``sign`` marks what is added, changed or removed; mostly empty. ``names``: those
    that it is told of, where it is told once of several."""

    text: str
    more: tuple[str, ...] = ()
    sign: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """``urgent``: a reader must see it before agreeing. ``count`` is told even when items are left out."""

    title: str
    why: str
    items: tuple[Item, ...]
    urgent: bool = False
    count: int | None = None

    @property
    def heading(self) -> str:
        count = len(self.items) if self.count is None else self.count
        return f"{self.title} ({count:,}){': ' if self.why else ''}{self.why}"


def left_sections(plan: Plan) -> tuple[Section, ...]:
    """Blocked, unknown, unmanaged, ignored, notes: each only when there is something in it; nothing is folded."""
    found = (_refused(plan), _unknown(plan), _unmanaged(plan), _unmanaged_access(plan), _ignored(plan), _notes(plan))
    return tuple(section for section in found if section.items)


def load_sections(plan: Plan) -> tuple[Section, ...]:
    """The brokers of clusters on which replicas move."""
    items = tuple(map(Item, load_lines(plan.loads)))
    return (Section("Brokers", LOADS_WHY, items),) if items else ()


def _refused(plan: Plan) -> Section:
    items = tuple(Item(what, (todo,)) for what, todo in refusals(plan))
    why = "nothing is applied until these are resolved"
    return Section("Blocked", why, items, urgent=True, count=len(plan.refused))


def refusals(plan: Plan) -> Iterator[tuple[str, str]]:
    """What is blocked and what to do. One refusal that meets many is told once, with whom it meets."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in plan.refused:
        alike.setdefault((one.reason.text, f"{one.todo}  [{one.reason.code}]"), []).append(one.subject.split()[0])
    for (what, todo), whom in alike.items():
        if len(whom) > 1 or ("/" in whom[0] and whom[0].partition("/")[2] not in what):
            more = f" and {len(whom) - SHOWN} more" if len(whom) > SHOWN else ""
            what = f"{what}; met by {', '.join(whom[:SHOWN])}{more}"
        yield what, todo


def _unknown(plan: Plan) -> Section:
    items = []
    for one in plan.unknown:
        more = f" and {len(one.detail) - SHOWN} more" if len(one.detail) > SHOWN else ""
        left = f"not decided: {', '.join(one.detail[:SHOWN])}{more}" if one.detail else ""
        items.append(Item(f"{one.subject}: {one.error}", tuple(line for line in (one.todo, left) if line)))
    return Section("Unknown", "could not be read, so nothing is concluded from it", tuple(items), urgent=True)


def _unmanaged(plan: Plan) -> Section:
    items = [
        Item(f"{cluster}/{one.ref.name}, {counted(one.partitions, 'partition')}")
        for cluster, found in groupby(plan.unmanaged, key=lambda one: one.ref.cluster)
        for one in found
    ]
    return Section("Unmanaged", "neither declared nor made by a flow, never touched", tuple(items))


def unmanaged_rules(plan: Plan) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Cluster, principal and the rules it has there, without naming it again."""
    for (cluster, principal), found in groupby(plan.unmanaged_acls, key=lambda one: (one.cluster, one.acl.principal)):
        who = word(principal)
        yield cluster, who, tuple(str(one.acl).replace(f"{who} ", "", 1) for one in found)


def _unmanaged_access(plan: Plan) -> Section:
    items = tuple(
        Item(f"{cluster}: {principal}, {counted(len(rules), 'rule')}", rules)
        for cluster, principal, rules in unmanaged_rules(plan)
    )
    why = "neither declared nor made by an earlier run, never touched"
    return Section(UNMANAGED_ACCESS, why, items, count=len(plan.unmanaged_acls))


def _ignored(plan: Plan) -> Section:
    items = []
    for rule, found in groupby(sorted(plan.ignored, key=lambda one: one.rule), key=lambda one: one.rule):
        items.append(Item(rule, tuple(f"{', '.join(whom)}: {text}" for text, whom in alike(found).items())))
    return Section("Ignored", "left as it is, by rule", tuple(items), count=len(plan.ignored))


def alike(ignored: Iterable[Ignored]) -> dict[str, list[str]]:
    """Text -> the subjects it is said of."""
    found: dict[str, list[str]] = {}
    for one in ignored:
        found.setdefault(one.text, []).append(one.subject)
    return found


def _notes(plan: Plan) -> Section:
    return Section("Notes", "", tuple(Item(note) for note in plan.notes))
