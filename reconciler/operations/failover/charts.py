"""What the offset maps of two flows say about an offset that a group has committed. Pure functions: ``survey`` reads
maps, positions and bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.backends.clusters.groups import PartitionBounds
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.reports.failover import GroupOffset, Key, Leg, TranslatedPartition
from reconciler.replication.names import OFFSETS_TOPIC
from reconciler.replication.offsets.map import PartitionMap, Translation, beyond_copy
from reconciler.replication.offsets.two_way import Interleaved

_NOTHING = PartitionMap(())
_FOR_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Chart:
    """A leg with the offset map of its flow, by source partition, the flow's positions, by remote partition, and the
    translated offsets of groups, by source partition. ``same``: the flow keeps offsets and has no map."""

    leg: Leg
    maps: Mapping[Key, PartitionMap]
    positions: Mapping[Key, int]
    found: Mapping[tuple[Key, int], Translation]
    same: bool = False


def translated(chart: Chart, at: tuple[Key, CommittedPosition], twin: str, before: int | None) -> TranslatedPartition:
    """``at``: the group's position on the origin; ``twin``: the topic's name at the destination; ``before``: the
    group's offset there."""
    (topic, partition), offset = at[0], at[1].offset
    key = (topic if chart.leg.forward else twin, partition)
    known, translation = chart.maps.get(key, _NOTHING), chart.found[key, offset]
    whole = False
    if not chart.leg.forward:
        # The map has all that was copied: after its last record the log holds only control markers of the mirror.
        gap = translation.gap
        at_end = gap is not None and gap.source_end is None and translation.offset == known.source_end
        whole = at_end and (known.source_end or 0) >= chart.positions.get(at[0], -1)
    between = None
    if before is not None and translation.offset is not None:
        between = _copied(known, chart.leg, min(before, translation.offset), max(before, translation.offset))
        if chart.same:
            between = abs(before - translation.offset)
    exact, reason = translation.exact or whole, "" if whole else translation.reason
    return TranslatedPartition(translation.offset, exact, reason, between=between)


def of_both(offers: list[tuple[Chart, GroupOffset]]) -> list[GroupOffset]:
    """One offset for a topic that both clusters write under one name; empty for any other topic.

    ``offers``: the one of the way back first.
    """
    if len(offers) != 2 or any(offer.destination != offer.origin for _, offer in offers):
        return []
    (back, _), (out, offset) = offers
    key, position = offset.origin, offset.committed
    there, here = ((leg.maps.get(key, _NOTHING), leg.positions.get(key)) for leg in (out, back))
    both = Interleaved(*there, *here)
    translation = both.translate(position, out.found[key, position])
    counted = {
        at: counts
        for at in (translation.offset, offset.before)
        if at is not None and translation.exact and (counts := both.counts(position, at)) is not None
    }
    reason = translation.reason
    if not translation.exact and out.found[key, position].gap is None:
        reason = out.found[key, position].reason or reason  # the other flow says only how far it has come
    partition = TranslatedPartition(translation.offset, translation.exact, reason, counted=counted)
    return [replace(offset, translated=partition)]


def by_checkpoint(known: PartitionMap, leg: Leg, offset: int, before: int | None) -> TranslatedPartition:
    """The group may have read on after the checkpoint, at most everything that was copied after it."""
    copied = _copied(known, leg, offset, _FOR_EVER) or 0
    between = None if before is None else _copied(known, leg, min(before, offset), max(before, offset))
    return TranslatedPartition(offset, False, "", offset + copied, between)


def _copied(known: PartitionMap, leg: Leg, begin: int, end: int) -> int | None:
    """Copied records from ``begin`` to before ``end``, offsets of the leg's destination; None beyond the map."""
    if begin == end:
        return 0
    runs = [run for stretch in known.stretches for run in stretch.runs]
    spans = [(run.target, run.target_end) if leg.forward else (run.source, run.source_end) for run in runs]
    return sum(max(0, min(end, last) - max(begin, first)) for first, last in spans)


def unbelieved(offset: int, key: Key, log: PartitionBounds, says: str) -> TranslatedPartition:
    """The partition's beginning: from there a group misses nothing, no matter who wrote the offset."""
    reason = f"{beyond_copy(offset, key, log.end, says)}; this is where the partition begins now"
    return TranslatedPartition(log.begin, False, reason, log.stable)


def settled(offset: GroupOffset, origin: PartitionBounds | None, destination: PartitionBounds | None) -> GroupOffset:
    """Adds what the bounds show: an empty partition has an exact offset, too; an unknown offset becomes the beginning,
    which is safe; records that the destination has deleted since are passed over."""
    partition = offset.translated
    if destination is None:
        return offset
    if partition.offset is not None and partition.offset > destination.end:
        says = f"the offset map ({OFFSETS_TOPIC})"
        return replace(offset, translated=unbelieved(partition.offset, offset.destination, destination, says))
    if partition.offset is not None and partition.offset < destination.begin:
        partition = replace(partition, offset=destination.begin)
    if partition.exact:
        return replace(offset, translated=partition)
    if (
        destination.begin == destination.end
        and origin is not None
        and origin.begin == origin.end
        and offset.committed <= origin.end
    ):
        return replace(offset, translated=TranslatedPartition(destination.end, True))
    at = destination.begin if partition.offset is None else partition.offset
    return replace(offset, translated=replace(partition, offset=at, end=destination.stable))
