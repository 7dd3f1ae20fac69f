"""Positions of a flow moved by hand: where to, whether that may be now, and what it costs.

Border: nouns in, nouns and words out; ``seeking`` reads and writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.counts import counted
from reconciler.errors import ReconcilerError, Unknown
from reconciler.live import FlowStatus, JobState, LiveMirror
from reconciler.pausing import told
from reconciler.topology import Flow
from replication.pauses import Scope

SHOWN = 10


@dataclass(frozen=True, slots=True)
class Standing:
    """One source partition: the next offset to copy (None: no position yet), and what the source has."""

    partition: int
    position: int | None
    begin: int
    end: int

    @property
    def behind(self) -> int | None:
        return None if self.position is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class Seen:
    """Where one topic of a flow stood. ``moved``: partition -> source offset to go on at, empty when only looked at.
    ``left``: partitions that were meant and stay, since flow ``taken_from`` has no position for them."""

    environment: str
    flow: Flow
    topic: str
    remote: str
    standings: tuple[Standing, ...]
    moved: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    left: tuple[int, ...] = ()
    taken_from: str = ""


def destinations(standings: Sequence[Standing], to: str) -> Mapping[int, int]:
    """Partition -> offset. Raises ReconcilerError for what is no place, or one that the source does not have."""
    if to == "earliest":
        return {one.partition: one.begin for one in standings}
    if to == "latest":
        return {one.partition: one.end for one in standings}
    if not to.isdecimal():
        raise ReconcilerError(
            f'--to is "{to}"', "A position is a source offset.", "Write earliest, latest, or an offset such as 1200."
        )
    if outside := [one for one in standings if not one.begin <= int(to) <= one.end]:
        has = "; ".join(f"partition {one.partition} has {one.begin} to {one.end}" for one in outside[:SHOWN])
        raise ReconcilerError(
            f"--to is {to}, which the source does not have: {has}",
            "Copying could not go on there.",
            "Name an offset within, or earliest, or latest; with --partition for one partition.",
        )
    return {one.partition: int(to) for one in standings}


def taken_over(
    standings: Sequence[Standing], found: Mapping[int, int], other: str
) -> tuple[Mapping[int, int], tuple[int, ...]]:
    """Partition -> offset where flow ``other`` stands, and the partitions where it has no position.

    Raises ReconcilerError when it stands where the source has nothing, or nowhere at all.
    """
    if not found:
        raise ReconcilerError(
            f"flow {other} has no position there",
            "There is nothing to take over.",
            "Look at the spelling; or name a place with --to.",
        )
    if outside := [s for s in standings if s.partition in found and not s.begin <= found[s.partition] <= s.end]:
        one = outside[0]
        has = f"of which the source has {one.begin} to {one.end}"
        raise ReconcilerError(
            f"flow {other} stands at {found[one.partition]} of partition {one.partition}, {has}",
            "Copying could not go on there.",
            "Name a place with --to, partition by partition.",
        )
    left = tuple(one.partition for one in standings if one.partition not in found)
    return {one.partition: found[one.partition] for one in standings if one.partition in found}, left


def require_still(mirror: LiveMirror | Unknown | None, scope: Scope, partitions: Sequence[int]) -> None:
    """Raises ReconcilerError while one of ``partitions`` is copied: its next commit would write over the position."""
    if isinstance(mirror, Unknown):
        raise ReconcilerError(
            f"whether {scope} is copied now is not known: {mirror.error}",
            "A copy that runs would write over the position with its next commit.",
            mirror.todo,
        )
    if mirror is None or mirror.state not in (JobState.RUNNING, JobState.STARTING):
        return
    flow = mirror.flows.get(scope.flow)
    if flow is None:
        return
    if busy := [number for number in partitions if not _still(flow, scope.topic, number)]:
        one = f" --partition {busy[0]}" if len(busy) == 1 else ""
        shown = ", ".join(map(str, busy[:SHOWN])) + (" ..." if len(busy) > SHOWN else "")
        raise ReconcilerError(
            f"{scope.topic} is being copied: partition{'s' if len(busy) > 1 else ''} {shown}",
            "The next commit would write over the position.",
            f"First: reconciler mirror pause ENV {scope.flow} --topic {scope.topic}{one}. Then move, then resume.",
        )


def _still(flow: FlowStatus, topic: str, partition: int) -> bool:
    for scope, pause in told(flow.name, flow):
        if scope.covers(topic, partition) and pause["partitions"] == pause["paused_partitions"]:
            return True
    return any(
        one.get("stops") and one.get("topic") == topic and one.get("partition") in (None, partition)
        for one in flow.conditions
    )


def table(standings: Sequence[Standing]) -> list[str]:
    rows = [("partition", "position", "source begins", "source ends", "behind")]
    for one in standings:
        behind = "unknown" if one.behind is None else f"{one.behind:,}"
        place = "none" if one.position is None else str(one.position)
        rows.append((str(one.partition), place, str(one.begin), str(one.end), behind))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def costs(standings: Sequence[Standing], chosen: Mapping[int, int]) -> list[str]:
    """What a move means for records: left out for ever, or copied again."""
    skipped = again = unknown = 0
    for one in standings:
        if one.position is None:
            unknown += 1
        else:
            skipped += max(0, chosen[one.partition] - max(one.position, one.begin))
            again += max(0, min(one.position, one.end) - chosen[one.partition])
    lines = [f"passed over and never copied: {counted(skipped, 'offset')} that the source has"] if skipped else []
    lines += [f"copied again, so that the target has the records twice: {counted(again, 'offset')}"] if again else []
    if unknown:
        verb = "has" if unknown == 1 else "have"
        lines.append(f"{counted(unknown, 'partition')} {verb} no position yet and would else begin where start says")
    return lines
