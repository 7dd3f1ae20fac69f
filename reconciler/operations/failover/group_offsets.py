"""Decides which offsets of groups a failover sets at the destination, and words what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reconciler.model.reports.failover import FailoverStep, GroupMove, GroupOffset, Key, StepResult
from reconciler.replication.groups import idle, may_write
from reconciler.text import counted


def due(groups: tuple[GroupMove, ...]) -> Mapping[str, tuple[GroupOffset, ...]]:
    """Group -> offsets to set: never backwards, never for a group with members, and only if a safe offset is known."""
    wanted: dict[str, tuple[GroupOffset, ...]] = {}
    for move in groups:
        safe = [(offset, at) for offset in move.offsets if (at := offset.translated.offset) is not None]
        offsets = tuple(offset for offset, at in safe if may_write(at, offset.before, rewound=False))
        if offsets and idle(move.destination.state):
            wanted[move.group] = offsets
    return wanted


def unset(groups: Sequence[GroupMove]) -> Mapping[str, frozenset[str]]:
    """Group -> topics of the destination with an offset to set, or without any: OffsetFetch also omits offsets on
    topics that the principal may not describe."""
    wanted, topics = due(tuple(groups)), dict[str, frozenset[str]]()
    for move in groups:
        concerned = [*wanted.get(move.group, ()), *(offset for offset in move.offsets if offset.before is None)]
        if concerned:
            topics[move.group] = frozenset(offset.destination[0] for offset in concerned)
    return topics


def written(group: GroupMove, refused: Mapping[Key, str]) -> GroupMove:
    """The group after its ``due`` offsets were set; ``refused``: partition of the destination -> the broker's error."""
    mine = due((group,)).get(group.group, ())
    done = [offset for offset in mine if offset.destination not in refused]
    offsets = tuple(replace(o, after=o.translated.offset if o in done else o.before) for o in group.offsets)
    moved = replace(group, offsets=offsets)
    return replace(moved, note="" if moved.exact else _why_not(moved, refused))


def untouched(group: GroupMove) -> GroupMove:
    """The group after an earlier step failed: none of its due offsets was set."""
    return replace(group, offsets=tuple(replace(offset, after=offset.before) for offset in group.offsets))


def offsets_planned(groups: Sequence[GroupMove], destination: str) -> FailoverStep:
    """The planned step *offsets*; it also names groups with wrong offsets that it cannot set."""
    wanted, wrong = due(tuple(groups)), otherwise(groups)
    if wanted:
        offsets = counted(sum(map(len, wanted.values())), "offset")
        text = f"set {offsets} of {counted(len(wanted), 'group')} on {destination}"
        return FailoverStep("offsets", StepResult.PLANNED, text)
    text = f"no offset can be set{wrong}" if wrong else "all offsets are set"
    return FailoverStep("offsets", StepResult.ALREADY, text)


def otherwise(groups: Sequence[GroupMove]) -> str:
    """Words of the form ``; 4 groups not as they should be: ...``, or empty."""
    wrong = [move for move in groups if move.note]
    if not wrong:
        return ""
    some = "; ".join(f"{move.group} ({move.note})" for move in wrong[:3])
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return f"; {counted(len(wrong), 'group')} not as they should be: {some}{more}"


def _why_not(group: GroupMove, refused: Mapping[Key, str]) -> str:
    """The most important reason for not setting a group's offsets; empty if all are set."""
    if not idle(group.destination.state):
        return "it has members there"
    if refused:
        return min(refused.values())
    if any(offset.missed for offset in group.offsets):
        return "it was further there already: it has read there, or was set ahead; offsets are never set back"
    if any(offset.after is None for offset in group.offsets):
        return "no offset is known for some of its partitions"
    return next((offset.translated.reason for offset in group.offsets if offset.translated.reason), "")


def least(offers: tuple[GroupOffset, ...]) -> tuple[GroupOffset, ...]:
    """One offset for each destination partition: if two topics of the origin lead to one, the earlier offset, so that
    the group misses no record."""
    offsets: dict[Key, GroupOffset] = {}
    for offset in offers:
        known, at = offsets.get(offset.destination), offset.translated.offset
        other = known.translated.offset if known is not None else None
        # An unknown offset counts as the earliest.
        if known is None or at is None or (other is not None and at < other):
            offsets[offset.destination] = offset
    return tuple(offsets.values())


def bounded(offset: GroupOffset) -> GroupOffset:
    """The offset of a share group (KIP-932): Kafka does not report acknowledged records after its start offset, so all
    of them may be delivered again."""
    return replace(offset, translated=replace(offset.translated, exact=False))
