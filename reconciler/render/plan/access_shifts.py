"""Who gains and who loses access by a plan, in lines: losses first."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.acls import WILDCARD, ResourceType, word
from reconciler.model.plan import Plan
from reconciler.model.reports.impact import AccessShift
from reconciler.render.plan.sections import Section, SectionItem
from reconciler.resources.acls.authorizer.decide import IMPLIES
from reconciler.resources.acls.authorizer.gains_and_losses import OPERATIONS, SOMEBODY_ELSE
from reconciler.text import counted, first_of

TITLE = "Who may do what"
SHOWN = 4


def shift_sections(plan: Plan) -> tuple[Section, ...]:
    items = tuple(SectionItem(_line(shift), tuple(_more(shift)), "+" if shift.gained else "-") for shift in plan.shifts)
    why = "what the access rules come to for each principal, all of this plan together"
    return (Section(TITLE, why, items),) if items else ()


def _line(shift: AccessShift) -> str:
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
        now = f" (now {first_of(under, SHOWN, shift.more if not plain else 0)})" if under else " (none there yet)"
        parts.append(f"{', '.join(map(word, shift.patterns))}{now if shift.resource is ResourceType.TOPIC else ''}")
    if plain:
        parts.append(first_of(plain, SHOWN, shift.more))
    return ", ".join(parts)


def _more(shift: AccessShift) -> Iterator[str]:
    if shift.readers:
        words = [f"{word(reader.group)} ({counted(reader.members, 'member')})" for reader in shift.readers]
        yield f"read now by {first_of(words, SHOWN)}"
    for why in shift.unknown:
        yield f"not known: {why}"
