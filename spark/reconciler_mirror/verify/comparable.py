"""Decides which range of a partition can be compared, or why none can. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.replication.handover import AGAIN, FlowSettings
from reconciler.replication.runs.verification import TopicTraits
from reconciler_mirror.lane.positions import LanePosition, is_of_topic
from reconciler_mirror.model.lane import NO_GROUND, PartitionSpec, ProvenanceSettings
from reconciler_mirror.record_work.on_records import worker_for
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange, TimeWindow, Unread

Place = tuple[str, int]
Offsets = Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class FlowOffsets:
    """Offsets of one flow's partitions by (topic, partition), source or target topic.

    ``undecided``: target partitions with an open transaction before their end. ``from_*``: the first record not older
    than the window's begin; ``to_source``: the first not older than its end; -1 for none. ``failed``: by cluster and
    place, why it did not answer. ``ground``: ids of both clusters, for flows with provenance only. ``producers``: by
    target partition, the producer id of data at the source's offsets. ``ids``: of target topics.
    """

    position: Mapping[Place, LanePosition]
    target_end: Offsets
    undecided: frozenset[Place]
    source_end: Offsets
    source_low: Offsets
    target_low: Offsets
    from_source: Offsets = field(default_factory=dict)
    from_target: Offsets = field(default_factory=dict)
    to_source: Offsets = field(default_factory=dict)
    failed: Mapping[tuple[str, Place], str] = field(default_factory=dict)
    ground: ProvenanceSettings = NO_GROUND
    producers: Mapping[Place, int] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)


def judge(
    flow: FlowSettings, spec: PartitionSpec, offsets: FlowOffsets, window: TimeWindow, traits: Mapping[str, TopicTraits]
) -> PartitionRange | Unread:
    """The range to compare, or the reason against it. ``traits`` by cluster. The caller sets the range's index."""
    source, target = (spec.topic, spec.partition), (spec.target_topic, spec.partition)
    ours, theirs = traits.get(flow.source.cluster, TopicTraits()), traits.get(flow.target.cluster, TopicTraits())
    # Compaction on either side removes records that the other still has, so such a partition is compared by its keys. A
    # time window would cut the two sides at different records, because what is left on each differs.
    compacted = spec.topic in ours.compacted or spec.target_topic in theirs.compacted
    own_time = spec.target_topic in theirs.append_time
    timed = window != TimeWindow() and not compacted
    why = _unreadable(flow, spec, offsets, (ours, theirs), cut_by_time=timed and own_time)
    why = why or _position_unfit(flow, spec, offsets)
    if why is not None:
        return Unread(flow.name, spec.topic, spec.target_topic, spec.partition, *why)

    # Each side begins with its log, the time window, or the first copy with a provenance header; copies at the source's
    # offsets where both sides still have records.
    low, end = offsets.source_low[source], offsets.source_end[source]
    target_low, target_end = offsets.target_low[target], offsets.target_end[target]
    start, target_start = low, target_low
    if timed and window.from_ms is not None:
        start = _or_end(offsets.from_source[source], end)
        target_start = _or_end(offsets.from_target[target], target_end)
    marked = offsets.position[target].marked if flow.provenance else None
    if marked is not None:  # earlier copies have no header, so they look like any other record
        target_start, start = max(target_start, marked[0]), max(start, min(marked[1], end))
    if flow.keeps_offsets:  # retention may have removed different offsets on each side
        start = target_start = max(start, target_start)
        start, target_start = min(start, end), min(target_start, target_end)

    # A side is cut if it may have lost older records, or never had them.
    begins_later = flow.start_kind not in ("earliest", AGAIN) or flow.starts_at(*source) is not None
    same = flow.keeps_offsets
    return PartitionRange(
        index=0,
        flow=flow.name,
        source=OffsetSpan(flow.source, *source, flow.isolation, start, end, cut=low > 0 and start == low and not same),
        target=OffsetSpan(
            flow.target,
            *target,
            "read_committed",
            target_start,
            target_end,
            cut=(target_low > 0 or begins_later) and target_start == target_low and not same,
        ),
        position=offsets.position[target].offset,
        until=_or_end(offsets.to_source.get(source, -1), end) if timed else end,
        window=window if timed else TimeWindow(),
        compacted=compacted,
        timestamps=not own_time,
        worker=worker_for(flow, spec, offsets.ground),
        same_offsets=same,
        producer=offsets.producers.get(target),
        ids=(spec.topic_id, offsets.ids.get(spec.target_topic, "")),
    )


def _or_end(number: int, end: int) -> int:
    """``number``, at most ``end``; -1, ListOffsets' answer for a time after the last record, means ``end``."""
    return end if number < 0 else min(number, end)


def _unreadable(
    flow: FlowSettings,
    spec: PartitionSpec,
    offsets: FlowOffsets,
    traits: tuple[TopicTraits, TopicTraits],
    *,
    cut_by_time: bool,
) -> tuple[str, str] | None:
    """Problem and remedy if a side cannot be read; None otherwise. ``cut_by_time``: the time window would apply to
    timestamps that the target sets itself."""
    for endpoint, topic in ((flow.source, spec.topic), (flow.target, spec.target_topic)):
        why = offsets.failed.get((endpoint.cluster, (topic, spec.partition)))
        if why is not None:
            return why, f"Check that the partition has a leader at {endpoint.cluster}, then verify again."
    # Committed readers get nothing after an open transaction, so later copies would look missing.
    if (spec.target_topic, spec.partition) in offsets.undecided:
        return (
            f"an open transaction holds back the readers of {spec.target_topic}-{spec.partition} at "
            f"{flow.target.cluster}, so its newest records cannot be read",
            "Find its producer with kafka-transactions find-hanging, end it, then verify again.",
        )
    # Compacted topics are compared by keys, others in order: without the configs it is unknown which applies.
    if spec.topic in traits[0].unknown or spec.target_topic in traits[1].unknown:
        return (
            f"the configs of {spec.topic} or {spec.target_topic} cannot be read, so it is not known whether "
            "it is compacted",
            "Let the principal `plan` describe the configs of both topics, then verify again.",
        )
    if cut_by_time:
        return (
            f"{spec.target_topic} at {flow.target.cluster} sets its own timestamps (LogAppendTime): no cut by time",
            "Verify it without --from and --to; then everything but the timestamps is compared.",
        )
    return None


def _position_unfit(flow: FlowSettings, spec: PartitionSpec, offsets: FlowOffsets) -> tuple[str, str] | None:
    """Problem and remedy if the position does not say which records must be at the target; None otherwise."""
    source = (spec.topic, spec.partition)
    name, position = f"{spec.topic}-{spec.partition}", offsets.position.get((spec.target_topic, spec.partition))
    if position is None:
        start = f"Start the mirror (reconciler mirror start ENV {flow.name})"
        todo = f"{start}, wait until it has copied, then verify again."
        return f"the mirror has no position for {name} at {flow.target.cluster}: it was never copied", todo
    if not position.proved and not flow.keeps_offsets:
        return (
            f"the position of {name} at {flow.target.cluster}, {position.offset}, was committed by another client: how "
            "far it is copied is not known",
            "See what status says about this partition (position_foreign), move the position, and verify again.",
        )
    if not is_of_topic(position, spec.topic_id):
        return (
            f"{spec.topic} was created again at {flow.source.cluster}: the position belongs to topic id "
            f"{position.topic_id}, the topic is {spec.topic_id}",
            "See what status says about this partition; the target holds records of the earlier topic.",
        )
    low, end = offsets.source_low[source], offsets.source_end[source]
    if position.offset < low and not flow.keeps_offsets:
        return (
            f"the mirror's position of {name} is {position.offset}, but {flow.source.cluster} begins at {low}: "
            f"{low - position.offset} offsets were removed before they were copied",
            "What is lost at the source cannot be compared. See what status says about this partition.",
        )
    if (
        position.offset > end and not flow.keeps_offsets
    ):  # same offsets: the difference says where both sides part, and who wrote there
        return (
            f"the mirror's position of {name} is {position.offset}, but {flow.source.cluster} ends at {end}",
            "The target holds records that the source has lost. See what status says about this partition.",
        )
    if flow.provenance is not None and position.marked is None:
        return (
            f"the mirror has not begun to mark what it copies to {spec.target_topic}, so its copies cannot be "
            "distinguished from other records",
            "Start the mirror with the flow's present definition, then verify again.",
        )
    # A copy at the source's offsets may end before the source's log start.
    target_end = offsets.target_end[spec.target_topic, spec.partition]
    if flow.keeps_offsets and target_end < low:
        return (
            f"{spec.target_topic}-{spec.partition} at {flow.target.cluster} ends at {target_end}, and "
            f"{flow.source.cluster} begins at {low}: the copy is not begun, or what it lacked was removed at the "
            "source",
            "See what status says about this partition, and verify again once it has been filled up to there.",
        )
    return None
