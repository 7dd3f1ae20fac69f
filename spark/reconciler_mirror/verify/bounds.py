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
from dataclasses import dataclass, replace

from reconciler.kafka.client.cluster import EARLIEST, LATEST, NO_ID, ClusterClient
from reconciler.kafka.client.errors import UNSTABLE, BrokerError, ConnectionLostError, WireError, name_of
from reconciler.kafka.client.groups import GroupClient
from reconciler.replication.handover import FlowSettings
from reconciler.replication.names import position_group
from reconciler.replication.offsets.same import producer_of
from reconciler.replication.runs.verification import Sample, TopicTraits
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.driver.discovery import Discovery, WireTopics
from reconciler_mirror.driver.provenance_start import ids_of
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.model.lane import NO_GROUND, Discovered, PartitionSpec
from reconciler_mirror.verify.comparable import FlowOffsets, Offsets, Place, judge
from reconciler_mirror.verify.model import PartitionRange, TimeWindow, Unread

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
