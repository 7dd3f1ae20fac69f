"""Where an offset of a group is on the other cluster: by the offset maps of the flows between the two.

Border: what was read of both clusters in, offsets out; ``surveying`` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconciler.edges.moving import Bounds, Committed
from reconciler.failovers import GroupOffset, Key, Leg, Translated
from replication.interleaved import Interleaved
from replication.offset_map import PartitionMap, Translation

_NOTHING = PartitionMap(())
_FOR_EVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Chart:
    """A leg with the offset map of its flow, by source partition, the flow's positions, by remote partition, and what
    groups have committed, translated, by source partition."""

    leg: Leg
    maps: Mapping[Key, PartitionMap]
    positions: Mapping[Key, int]
    found: Mapping[tuple[Key, int], Translation]


def translated(chart: Chart, at: tuple[Key, Committed], twin: str, before: int | None) -> Translated:
    """``at``: where the group is on the origin; ``twin``: the topic's name at the destination; ``before``: where the
    group is there."""
    (topic, partition), offset = at[0], at[1].offset
    key = (topic if chart.leg.forward else twin, partition)
    known, found = chart.maps.get(key, _NOTHING), chart.found[key, offset]
    whole = False
    if not chart.leg.forward:
        # The map has all that was copied: behind its last record there are only control markers of the mirror.
        at_end = found.gap is not None and found.gap.source_end is None and found.offset == known.source_end
        whole = at_end and (known.source_end or 0) >= chart.positions.get(at[0], -1)
    between = None
    if before is not None and found.offset is not None:
        between = _copied(known, chart.leg, min(before, found.offset), max(before, found.offset))
    return Translated(found.offset, found.exact or whole, "" if whole else found.reason, between=between)


def of_both(offers: list[tuple[Chart, GroupOffset]]) -> list[GroupOffset]:
    """One offset for a topic that both clusters write under one name; empty when it is no such topic.

    ``offers``: of the way back first.
    """
    if len(offers) != 2 or any(offer.destination != offer.origin for _, offer in offers):
        return []
    (back, _), (out, one) = offers
    key, position = one.origin, one.committed
    both = Interleaved(
        out.maps.get(key, _NOTHING), out.positions.get(key), back.maps.get(key, _NOTHING), back.positions.get(key)
    )
    found = both.translate(position, out.found[key, position])
    counted = {
        offset: counts
        for offset in (found.offset, one.before)
        if offset is not None and found.exact and (counts := both.counts(position, offset)) is not None
    }
    return [replace(one, translated=Translated(found.offset, found.exact, found.reason, counted=counted))]


def as_told(known: PartitionMap, leg: Leg, offset: int, before: int | None) -> Translated:
    """By a checkpoint: the group may have read on since then, at most everything that was copied behind it."""
    copied = _copied(known, leg, offset, _FOR_EVER) or 0
    between = None if before is None else _copied(known, leg, min(before, offset), max(before, offset))
    return Translated(offset, False, "", offset + copied, between)


def _copied(known: PartitionMap, leg: Leg, begin: int, end: int) -> int | None:
    """Copied records from ``begin`` to before ``end``, offsets of the leg's destination; None beyond the map."""
    if begin == end:
        return 0
    runs = [run for stretch in known.stretches for run in stretch.runs]
    spans = [(run.target, run.target_end) if leg.forward else (run.source, run.source_end) for run in runs]
    return sum(max(0, min(end, last) - max(begin, first)) for first, last in spans)


def settled(one: GroupOffset, origin: Bounds | None, destination: Bounds | None) -> GroupOffset:
    """Adds what the bounds tell: partitions without a record have an exact offset, too; where nothing is known, the
    beginning is safe; a record that the destination has deleted since is not waited for."""
    told = one.translated
    if destination is None:
        return one
    if told.offset is not None and told.offset < destination.begin:
        told = replace(told, offset=destination.begin)
    if told.exact:
        return replace(one, translated=told)
    empty = destination.begin == destination.end and origin is not None and origin.begin == origin.end
    if told.offset is None and empty:
        return replace(one, translated=Translated(destination.end, True))
    offset = destination.begin if told.offset is None else told.offset
    return replace(one, translated=replace(told, offset=offset, end=destination.stable))
