"""Who gains and who loses access by a plan, in lines: losses first."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.acls import WILDCARD, ResourceType, word
from reconciler.authorizing.deciding import IMPLIES
from reconciler.authorizing.effects import OPERATIONS, SOMEBODY_ELSE
from reconciler.counts import counted
from reconciler.plans import Plan
from reconciler.rendering.sections import Item, Section
from reconciler.stakes import AccessShift

TITLE = "Who may do what"
SHOWN = 4


def shift_sections(plan: Plan) -> tuple[Section, ...]:
    items = tuple(Item(_line(one), tuple(_more(one)), "+" if one.gained else "-") for one in plan.shifts)
    why = "what the access rules come to for each principal, all of this plan together"
    return (Section(TITLE, why, items),) if items else ()


def _line(one: AccessShift) -> str:
    verb = "gains" if one.gained else "loses"
    where = "" if one.resource is ResourceType.CLUSTER else f" {_names(one)}"
    host = "" if one.host == WILDCARD else f" from {one.host}"
    who = one.principal if one.principal == SOMEBODY_ELSE else word(one.principal)
    return f"{one.cluster}: {who} {verb} {_operations(one)} on {one.resource}{where}{host}"


def _operations(one: AccessShift) -> str:
    """Without what the others contain, as rules are written."""
    if set(OPERATIONS[one.resource]) <= set(one.operations) and len(one.operations) > 1:
        return "every operation"
    kept = [
        each for each in one.operations if not (IMPLIES.get(each, frozenset()) - {each}).intersection(one.operations)
    ]
    return ", ".join(kept)


def _names(one: AccessShift) -> str:
    """Patterns first; the names of today under them are told as what they come to now."""
    begins = tuple(pattern[:-1] for pattern in one.patterns)
    under = [word(name) for name in one.names if name.startswith(begins)] if begins else []
    plain = [word(name) for name in one.names if not begins or not name.startswith(begins)]
    parts = []
    if begins:
        now = f" (now {_listed(under, one.more if not plain else 0)})" if under else " (none there yet)"
        parts.append(f"{', '.join(map(word, one.patterns))}{now if one.resource is ResourceType.TOPIC else ''}")
    if plain:
        parts.append(_listed(plain, one.more))
    return ", ".join(parts)


def _listed(names: list[str], left_out: int) -> str:
    more = len(names) - SHOWN + left_out
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown


def _more(one: AccessShift) -> Iterator[str]:
    if one.readers:
        words = [f"{word(reader.group)} ({counted(reader.members, 'member')})" for reader in one.readers]
        yield f"read now by {_listed(words, 0)}"
    for why in one.unknown:
        yield f"not known: {why}"
