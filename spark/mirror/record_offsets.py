"""The offsets of the record path: where a partition begins, where its source ends, what a transaction commits.

Border: asks the source for offsets; reads no record and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import Consumer, Message, TopicPartition

from mirror import clients, positions, starts
from mirror.decoded_work import worker_of
from mirror.faults import start_out_of_range
from mirror.lanes import Claim, Condition, LaneSpec, PartitionSpec
from mirror.positions import Position
from mirror.tracks import Track


def starts_of(lane: LaneSpec, fresh: Sequence[PartitionSpec]) -> Mapping[PartitionSpec, int]:
    """Of partitions without a position."""
    given = lane.start_offsets
    admin = clients.admin(lane.source)
    others = [spec for spec in fresh if (spec.topic, spec.partition) not in given]
    found = starts.resolve(admin, others, lane.start_kind, lane.start_timestamp_ms, lane.isolation)
    explicit = {spec: given[spec.topic, spec.partition] for spec in fresh if spec not in found}
    return {**found, **explicit}


def out_of_range(lane: LaneSpec, begin: Mapping[PartitionSpec, int]) -> Mapping[PartitionSpec, Condition]:
    """Explicit starts that the source does not have."""
    given = [spec for spec in begin if (spec.topic, spec.partition) in lane.start_offsets]
    admin = clients.admin(lane.source)
    lows = starts.resolve(admin, given, "earliest", None, lane.isolation)
    ends = starts.resolve(admin, given, "latest", None, lane.isolation)
    return {
        spec: start_out_of_range(spec, begin[spec], lows[spec], ends[spec])
        for spec in given
        if not lows[spec] <= begin[spec] <= ends[spec]
    }


def ends_of(lane: LaneSpec, tracks: Sequence[Track]) -> Mapping[PartitionSpec, int]:
    """Where the source ends for a reader of the lane's isolation."""
    return starts.resolve(clients.admin(lane.source), [track.spec for track in tracks], "latest", None, lane.isolation)


def track_of(
    lane: LaneSpec, spec: PartitionSpec, position: Position | None, begin: Mapping[PartitionSpec, int]
) -> tuple[Track, bool]:
    """And whether its position is to be written even when no record comes."""
    work = lane.work
    if position is None:
        track = Track.of(spec, lane.claim.ground.not_before((spec.topic, spec.partition), begin[spec]), None)
        track.marked, track.worker = work.first_mark(track.position), worker_of(lane, spec)
        return track, True
    track = Track.of(spec, position.offset, position.offset, position.leader_epoch)
    track.marked, track.worker = position.marked if work.provenance else None, worker_of(lane, spec)
    renew = positions.hour_now() - position.hour >= positions.RENEW_AFTER_HOURS
    return track, position.claim != lane.claim or renew


def high_watermark(source: Consumer, track: Track) -> int:
    """Of the last fetch; -1001 before the first."""
    high: int = source.get_watermark_offsets(track.source, cached=True)[1]
    return high


def end_of(source: Consumer, track: Track) -> int | None:
    """Where the source ends for us: exact (last stable offset) once we have been there, else the high watermark."""
    if track.paused:
        return track.end
    if track.end is not None and track.end >= track.position:
        return track.end
    high = high_watermark(source, track)
    return max(high, track.position) if high >= 0 else None


def moved_by(dirty: Iterable[Track], claim: Claim) -> list[TopicPartition]:
    """The positions that one transaction commits. Each track's leader epoch becomes that of its last record."""
    hour = positions.hour_now()
    moved = []
    for track in dirty:
        if track.last is not None:
            # Beyond the last record lie markers, whose epoch nobody tells; one that is too small would look
            # like a log that was truncated.
            track.leader_epoch = _epoch(track.last) if track.position == track.last.offset() + 1 else -1
        now = Position(track.position, track.spec.topic_id, track.leader_epoch, claim, hour, track.marked)
        moved.append(positions.as_topic_partition(track.spec.target_topic, track.spec.partition, now))
    return moved


def _epoch(message: Message) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch
