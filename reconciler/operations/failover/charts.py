"""Translates committed offsets of groups by the offset maps of two flows. Pure functions: ``survey`` reads maps,
positions and bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.backends.clusters.groups import PartitionBounds
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.reports.failover import GroupOffset, Key, Leg, TranslatedPartition
from reconciler.replication.offsets.map import THE_MAP, PartitionMap, Translation, beyond_copy
from reconciler.replication.offsets.translate import Interleaved

_NOTHING = PartitionMap(())
_FOR_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Chart:
    """What one leg knows of offsets."""

    leg: Leg
    maps: Mapping[Key, PartitionMap]
    """The flow's offset map, by source partition."""
    positions: Mapping[Key, int]
    """The flow's positions, by remote partition."""
    found: Mapping[tuple[Key, int], Translation]
    """Translated offsets of groups, by source partition."""
    same: bool = False
    """The flow keeps offsets and has no map."""


def translated(chart: Chart, at: tuple[Key, CommittedPosition], twin: str, before: int | None) -> TranslatedPartition:
    """``at``: the group's position on the origin; ``twin``: the topic's name at the destination; ``before``: the
    group's offset at the destination."""
    (topic, partition), offset = at[0], at[1].offset
    key = (topic if chart.leg.forward else twin, partition)
    known, translation = chart.maps.get(key, _NOTHING), chart.found[key, offset]
    whole = False
    if not chart.leg.forward:
        # The map covers every copied record: after the last one the log holds only the mirror's transaction markers.
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
    """One offset for a topic that clients write under one name on both clusters; empty for any other topic.

    ``offers``: translations by both flows, the way back first.
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
        reason = out.found[key, position].reason or reason  # the other flow knows only its own progress
    partition = TranslatedPartition(translation.offset, translation.exact, reason, counted=counted)
    return [replace(offset, translated=partition)]


def by_checkpoint(known: PartitionMap, leg: Leg, offset: int, before: int | None) -> TranslatedPartition:
    """Translates by a checkpoint. The group may have read on since, at most everything that was copied after it."""
    copied = _copied(known, leg, offset, _FOR_EVER) or 0
    between = None if before is None else _copied(known, leg, min(before, offset), max(before, offset))
    return TranslatedPartition(offset, False, "", offset + copied, between)


def _copied(known: PartitionMap, leg: Leg, begin: int, end: int) -> int | None:
    """Number of copied records in [``begin``, ``end``), offsets of the leg's destination; None beyond the map."""
    if begin == end:
        return 0
    runs = [run for stretch in known.stretches for run in stretch.runs]
    spans = [(run.target, run.target_end) if leg.forward else (run.source, run.source_end) for run in runs]
    return sum(max(0, min(end, last) - max(begin, first)) for first, last in spans)


def unbelieved(offset: int, key: Key, log: PartitionBounds, says: str) -> TranslatedPartition:
    """The partition's beginning, in place of an untrustworthy offset: from there a group misses no record."""
    reason = f"{beyond_copy(offset, key, log.end, says)}; this is where the partition begins now"
    return TranslatedPartition(log.begin, False, reason, log.stable)


def settled(offset: GroupOffset, origin: PartitionBounds | None, destination: PartitionBounds | None) -> GroupOffset:
    """Completes an offset by the bounds: an empty partition gives an exact one; an unknown one becomes the beginning,
    which is safe; an offset before the destination's log start moves up to it."""
    partition = offset.translated
    if destination is None:
        return offset
    # The destination lost records that the map still knows. A position beyond its end would skip what is written there
    # next.
    if partition.offset is not None and partition.offset > destination.end:
        unused = unbelieved(partition.offset, offset.destination, destination, THE_MAP)
        return replace(offset, translated=unused)
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
