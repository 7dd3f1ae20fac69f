"""What the record path does about a record it cannot copy: stops the partition, or goes on behind a loss it counts.

Pure: the flow's ``on_condition`` decides.
"""

from __future__ import annotations

from mirror.faults import position_lost, timestamp_zero
from mirror.lanes import Condition, LaneSpec
from mirror.losses import Loss
from mirror.tracks import Tally, Track


def at_refusal(lane: LaneSpec, tally: Tally, track: Track, offset: int) -> Condition | Loss:
    """The record at ``offset`` cannot be written."""
    key = (track.spec.topic, track.spec.partition)
    limit = tally.limits.get(key)
    if "record_refused" not in lane.continue_on:
        return timestamp_zero(track.spec, offset) if limit is None else limit[1]
    condition = tally.refused.get(key, {}).get(offset) or timestamp_zero(track.spec, offset)
    return Loss("record_refused", 1, 1, text=condition.text)


def at_gap(lane: LaneSpec, track: Track, low: int, high: int) -> Condition | tuple[int, Loss]:
    """The source does not have the next record: it begins at ``low`` and ends at ``high``.

    With a loss, the offset to go on from.
    """
    condition = position_lost(track.spec, track.position, low, high)
    if condition.code not in lane.continue_on:
        return condition
    found = low if track.position < low else high
    return found, Loss(condition.code, abs(found - track.position), text=condition.text)
