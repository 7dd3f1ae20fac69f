"""Seek: new positions of a flow, whether a seek is allowed now, and its costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Flow
from reconciler.model.live import LiveMirror
from reconciler.replication.records.pauses import Scope
from reconciler.replication.status import FlowStatus
from reconciler.resources.mirrors.pause import reported_pauses
from reconciler.text import columns, counted, in_shell

SHOWN = 10


@dataclass(frozen=True, slots=True)
class SeekPartition:
    """One source partition before a seek."""

    partition: int
    position: int | None
    """The next offset to copy; None: no position."""
    begin: int
    """First offset that the source still has; ``end``: its high watermark."""
    end: int
    foreign: int | None = None
    """An offset that another client committed."""
    former: int | None = None
    """The position in a deleted topic of the same name, meaningless for this one."""
    lost_from: int | None = None
    """The source offset from which on the target has lost its copies."""

    @property
    def behind(self) -> int | None:
        return None if self.position is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class TopicPositions:
    """Positions of one topic of a flow, before a seek."""

    environment: str
    flow: Flow
    topic: str
    remote: str
    """Name of its copy."""
    standings: tuple[SeekPartition, ...]
    moved: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Partition -> new source offset, empty if only shown."""
    left: tuple[int, ...] = ()
    """Requested partitions that stay, since flow ``taken_from`` has no position for them."""
    taken_from: str = ""
    """The flow whose positions were taken over; empty without one."""


def require_place(to: str) -> None:
    """Raises ReconcilerError for an invalid place."""
    if to not in ("earliest", "latest") and not (to.isascii() and to.isdigit() and len(to) < 20):
        raise ReconcilerError(
            f'--to is "{to}"', "A position is a source offset.", "Write earliest, latest, or an offset such as 1200."
        )


def destinations(standings: Sequence[SeekPartition], to: str) -> Mapping[int, int]:
    """Partition -> offset. Raises ReconcilerError for an invalid place, or one outside of the source's log."""
    if to == "earliest":
        return {part.partition: part.begin for part in standings}
    if to == "latest":
        return {part.partition: part.end for part in standings}
    require_place(to)
    if outside := [part for part in standings if not part.begin <= int(to) <= part.end]:
        has = "; ".join(f"partition {part.partition} has {part.begin} to {part.end}" for part in outside[:SHOWN])
        raise ReconcilerError(
            f"--to is {to}, which the source does not have: {has}",
            "Copying could not continue there.",
            "Name an offset within, or earliest, or latest; with --partition for one partition.",
        )
    return {part.partition: int(to) for part in standings}


def taken_over(
    standings: Sequence[SeekPartition], by_name: Mapping[int, int], other: str
) -> tuple[Mapping[int, int], tuple[int, ...]]:
    """Partition -> position of flow ``other``, and partitions without one.

    Raises ReconcilerError for a position outside of the source's log, or without any position.
    """
    if not by_name:
        raise ReconcilerError(
            f"flow {other} has no position there that it committed itself",
            "There is nothing to take over.",
            "Check the spelling; or name a place with --to.",
        )
    if outside := [s for s in standings if s.partition in by_name and not s.begin <= by_name[s.partition] <= s.end]:
        part = outside[0]
        has = f"of which the source has {part.begin} to {part.end}"
        raise ReconcilerError(
            f"flow {other} is at {by_name[part.partition]} of partition {part.partition}, {has}",
            "Copying could not continue there.",
            "Name a place with --to, partition by partition.",
        )
    not_taken_over = tuple(part.partition for part in standings if part.partition not in by_name)
    return {part.partition: by_name[part.partition] for part in standings if part.partition in by_name}, not_taken_over


def require_still(mirror: LiveMirror | Unknown | None, scope: Scope, partitions: Sequence[int]) -> None:
    """Raises ReconcilerError while a job copies one of ``partitions``: its next commit would overwrite the position."""
    if isinstance(mirror, Unknown):
        raise ReconcilerError(
            f"whether {scope} is copied now is not known: {mirror.error}",
            "A copy that runs would write over the position with its next commit.",
            mirror.todo,
        )
    if mirror is None or not mirror.state.runs:
        return
    flow = mirror.flows.get(scope.flow)
    if flow is None:
        return
    if busy := [number for number in partitions if not _still(flow, scope.topic, number)]:
        name = f" --partition {busy[0]}" if len(busy) == 1 else ""
        shown = ", ".join(map(str, busy[:SHOWN])) + (" ..." if len(busy) > SHOWN else "")
        raise ReconcilerError(
            f"{scope.topic} is being copied: partition{'s' if len(busy) > 1 else ''} {shown}",
            "The next commit would write over the position.",
            f"First: reconciler mirror pause ENV {scope.flow} --topic {in_shell(scope.topic)}{name}."
            " Then move, then resume.",
        )


def _still(flow: FlowStatus, topic: str, partition: int) -> bool:
    covering = [each for pause, each in reported_pauses(flow.name, flow) if pause.scope.covers(topic, partition)]
    return any(each.partitions == each.paused_partitions for each in covering) or any(
        condition.stops and condition.topic == topic and condition.partition in (None, partition)
        for condition in flow.conditions
    )


def table(standings: Sequence[SeekPartition]) -> list[str]:
    """Table of positions. It marks positions of other clients and of deleted topics, since moving them has another
    meaning."""
    rows = [("partition", "position", "source begins", "source ends", "behind")]
    for part in standings:
        behind = "unknown" if part.behind is None else f"{part.behind:,}"
        place = "none" if part.position is None else str(part.position)
        place = place if part.foreign is None else f"{part.foreign}, not the mirror's"
        place = place if part.former is None else f"{part.former}, of a deleted topic"
        rows.append((str(part.partition), place, str(part.begin), str(part.end), behind))
    return list(columns(rows, right=range(len(rows[0]))))


def costs(standings: Sequence[SeekPartition], chosen: Mapping[int, int]) -> list[str]:
    """Effects of a seek on records: skipped for ever, or copied again."""
    # Each partition counts in one way only: from a position of another client, or without one, nothing follows about
    # which records the target has.
    skipped = again = unknown = foreign = former = 0
    for part in standings:
        if part.foreign is not None:
            foreign += 1
        elif part.former is not None:
            former += 1
            skipped += chosen[part.partition] - part.begin
        elif part.position is None:
            unknown += 1
        else:
            skipped += max(0, chosen[part.partition] - max(part.position, part.begin))
            kept = part.position if part.lost_from is None else part.lost_from
            again += max(0, min(kept, part.end) - chosen[part.partition])
    lines = [f"passed over and never copied: {counted(skipped, 'offset')} that the source has"] if skipped else []
    lines += [f"copied again, so that the target has the records twice: {counted(again, 'offset')}"] if again else []
    if unknown:
        verb = "has" if unknown == 1 else "have"
        lines.append(f"{counted(unknown, 'partition')} {verb} no position yet and would else begin where start says")
    if former:
        has = "has a position" if former == 1 else "have positions"
        copies = "its copies stay in the target, before those of the topic as it is now"
        lines.append(f"{counted(former, 'partition')} {has} in a deleted topic of the same name: {copies}")
    if foreign:
        has = "has a position that another client" if foreign == 1 else "have positions that another client"
        copied = "how much is copied again or passed over is not known"
        lines.append(f"{counted(foreign, 'partition')} {has} committed: {copied}")
    return lines
