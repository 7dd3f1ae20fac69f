"""Bounds of the comparison: the offsets of each side, chosen so that the answer holds while the mirror runs.

They are read in this order: the committed positions; the end of the target; after a wait until every transaction before
that end is decided, the end of the source. Then every committed source record before its position must be at the
target, and every target record before its end must come from the source before its end. A sample has parts of these
ranges.
"""

import asyncio
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from reconciler.kafka.client.cluster import EARLIEST, LATEST, NO_ID, ClusterClient
from reconciler.kafka.client.errors import UNSTABLE, BrokerError, ConnectionLostError, WireError, name_of
from reconciler.kafka.client.groups import GroupClient
from reconciler.replication.handover import AGAIN, FlowSettings
from reconciler.replication.names import position_group
from reconciler.replication.offsets.same import producer_of
from reconciler.replication.runs.verification import Sample, TopicTraits
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.driver.discovery import Discovery, WireTopics
from reconciler_mirror.driver.provenance_start import ids_of
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.positions import LanePosition, is_of_topic
from reconciler_mirror.model.lane import NO_GROUND, Discovered, PartitionSpec, ProvenanceSettings
from reconciler_mirror.record_work.on_records import worker_for
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange, TimeWindow, Unread

# Decides which range of a partition can be compared, or why none can. Pure.

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
    begins_later = flow.start.unnamed not in ("earliest", AGAIN) or flow.starts_at(*source) is not None
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


_POSITIONS_S = 30.0  # for open transactions of the positions to be decided
_MOVING_S = 10.0  # seconds for which a leader may be unknown
_DECIDED_S = 75.0  # a transaction of the mirror lasts 60 s at most
PART, MOST_PARTS = 2_000, 20
"""Offsets per part of a partition's sample, and most parts."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Ranges to compare, and partitions that cannot be compared, with reasons."""

    ranges: tuple[PartitionRange, ...]
    unread: tuple[Unread, ...]


def bounds_of(
    flow: FlowSettings, window: TimeWindow, traits: Mapping[str, TopicTraits], first_index: int = 0
) -> Bounds:
    """Never raises for a silent cluster: then the flow is unread, with the reason."""
    try:
        topics = (WireTopics(flow.source), WireTopics(flow.target))
        with closing(Discovery(flow, flow.selector(), topics)) as discovery:
            discovered = discovery.look(Discovered())
        remotes = ((c, flow.selector().remote_name(c.topic) if c.topic else "") for c in discovered.conditions)
        unread = [Unread(flow.name, c.topic or "", remote, -1, c.text, c.todo) for c, remote in remotes]
        # A comparison of nothing would end as "equal", which is what a typing error in the flow's topics would get.
        if discovered.complete and not discovered.topics:
            why = f"flow {flow.name} matches no topic at {flow.source.cluster}, so there is nothing to compare"
            todo = (
                "Check the flow's topics, or create one; a broker hides those that the mirror's principal may not "
                "describe."
            )
            unread.append(Unread(flow.name, "", "", -1, why, todo))
        flow_offsets = asyncio.run(observe(flow, discovered.specs, window)) if discovered.specs else None
    except (WireError, LookupError) as error:
        todo = "Check that both clusters answer and that the mirror's principal may read there, then verify again."
        return Bounds((), (Unread(flow.name, "", "", -1, f"flow {flow.name}: {error}", todo),))
    judged = [judge(flow, spec, flow_offsets, window, traits) for spec in discovered.specs if flow_offsets is not None]
    ranges = [item for item in judged if isinstance(item, PartitionRange)]
    unread += [item for item in judged if isinstance(item, Unread)]
    return Bounds(
        tuple(replace(partition, index=first_index + number) for number, partition in enumerate(ranges)), tuple(unread)
    )


async def observe(flow: FlowSettings, specs: Sequence[PartitionSpec], window: TimeWindow) -> FlowOffsets:
    """Reads the flow's offsets in the order that makes the comparison hold. Raises WireError or LookupError."""
    sources = [(spec.topic, spec.partition) for spec in specs]
    targets = [(spec.target_topic, spec.partition) for spec in specs]
    committed = flow.isolation == "read_committed"
    with closing(cluster_of(flow.source)) as source, closing(cluster_of(flow.target)) as target:
        ours, theirs = OffsetReader(source), OffsetReader(target)
        # Positions come first, with the producer ids in them. A position in a transaction that stays open for too long
        # is unknown, so nothing can be compared.
        position: dict[Place, LanePosition] = {}
        producers: dict[Place, int] = {}
        group = position_group(flow.state_name)
        for place, at in (await GroupClient(target).decided(group, _POSITIONS_S)).items():
            if at is None:
                raise BrokerError(UNSTABLE, f"positions of group {group} on {target.name}")
            position[place] = positions.decode(place, at.offset, at.metadata)
            if (producer := producer_of(at.metadata)) is not None:
                producers[place] = producer
        target_end = await theirs.read(targets, LATEST, committed=False)
        if flow.keeps_offsets:
            position = at_the_end(position, target_end)
        # Python evaluates the arguments in this order: the source's end comes after every target record is decided.
        return FlowOffsets(
            position=position,
            target_end=target_end,
            undecided=await theirs.undecided(target_end),
            source_end=await ours.read(sources, LATEST, committed=committed),
            source_low=await ours.read(sources, EARLIEST, committed=committed),
            target_low=await theirs.read(targets, EARLIEST, committed=True),
            from_source=await ours.read(sources, window.from_ms, committed=committed),
            from_target=await theirs.read(targets, window.from_ms, committed=True),
            to_source=await ours.read(sources, window.to_ms, committed=committed),
            failed={**ours.failed, **theirs.failed},
            ground=await ids_of(source, target) if flow.provenance else NO_GROUND,
            producers=producers,
            ids={name: str(topic.topic_id) for name, topic in target.topics.items() if topic.topic_id != NO_ID},
        )


def at_the_end(position: Mapping[Place, LanePosition], target_end: Offsets) -> dict[Place, LanePosition]:
    """Positions of a flow that keeps offsets: the ends of the target's logs."""
    return {place: replace(position.get(place, LanePosition(end)), offset=end) for place, end in target_end.items()}


class OffsetReader:
    """ListOffsets on one cluster. ``failed``: partitions without an answer, and the reason."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self.failed: dict[tuple[str, Place], str] = {}

    async def read(self, places: Iterable[Place], timestamp: int | None, *, committed: bool) -> Offsets:
        """Offsets by partition; asks again while a leader moves. ``timestamp`` None: asks nothing."""
        offsets: dict[Place, int] = {}
        waiting, until = [] if timestamp is None else list(places), time.monotonic() + _MOVING_S
        while waiting:
            refused: dict[Place, WireError] = {}
            try:
                await self._cluster.refresh({topic for topic, _ in waiting})
                answers = await self._cluster.list_offsets(dict.fromkeys(waiting, timestamp or 0), committed=committed)
            except ConnectionLostError as error:
                refused |= dict.fromkeys(waiting, error)
            else:
                offsets |= {place: answer for place, answer in answers.items() if isinstance(answer, int)}
                refused |= {place: answer for place, answer in answers.items() if isinstance(answer, BrokerError)}
            # A partition that cannot be read does not keep the others from being compared.
            lasts = time.monotonic() > until
            for place, refusal in refused.items():
                if lasts or (isinstance(refusal, BrokerError) and not refusal.retriable):
                    name = f"{place[0]}-{place[1]} at {self._cluster.name}"
                    why = name_of(refusal.code) if isinstance(refusal, BrokerError) else str(refusal)
                    self.failed[self._cluster.name, place] = f"the offsets of {name} cannot be read: {why}"
            waiting = [place for place in refused if (self._cluster.name, place) not in self.failed]
            await asyncio.sleep(0.1 if waiting else 0)
        return offsets

    async def undecided(self, ends: Offsets, patience_s: float = _DECIDED_S) -> frozenset[Place]:
        """Partitions with a transaction from before their end that is neither committed nor aborted in time."""
        give_up = time.monotonic() + patience_s
        waiting = dict(ends)
        while waiting:
            stable = await self.read(waiting, LATEST, committed=True)
            waiting = {place: end for place, end in waiting.items() if stable.get(place, end) < end}
            if time.monotonic() > give_up:
                break
            await asyncio.sleep(0.1 if waiting else 0)
        return frozenset(waiting)


def sampled(plan: PartitionRange, sample: Sample) -> PartitionRange:
    """``plan`` with random parts, one from each of equally long stretches; equal seeds and bounds give equal parts.
    Compacted topics are compared whole, because their surviving records form one state."""
    start, end = plan.source.start, min(plan.position, plan.source.end)
    available = end - start
    wanted = max(1, sample.records or round(available * sample.fraction))
    if plan.compacted or available <= wanted:
        return plan
    # With the partition's name in the seed, partitions get different parts.
    chosen = random.Random(f"{sample.seed} {plan.flow} {plan.source.topic} {plan.source.partition}")  # noqa: S311
    count = max(1, min(MOST_PARTS, wanted // PART))
    length, parts = wanted // count, []
    for number in range(count):
        low, high = start + available * number // count, start + available * (number + 1) // count
        begin = chosen.randint(low, max(low, high - length))
        parts.append((begin, min(begin + length, high)))
    return replace(plan, parts=tuple(parts))
