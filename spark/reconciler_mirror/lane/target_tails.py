"""Compares the end of a copy with the end that its flow is known to have written.

Too early: the target lost acknowledged records, by an unclean election or a restored disk. Retention moves only the
start of a log, and compaction neither end, so a shorter log has lost records.

Too late: the target has records of other writers, or copies that are newer than the position. An exactly-once flow
commits position and records together, so both logs can be compared record by record. An at-least-once flow may repeat
records; each of those has an equal at the source, but for added headers, and its session soon holds no others than its
own. Flows with provenance share their topics with producers.
"""

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import EARLIEST, LATEST, NO_ID, ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError
from reconciler.kafka.records.batches import APPEND_TIME, CommittedFilter, scan
from reconciler.kafka.records.records import Record, key_and_value, records_of
from reconciler.replication.offsets import map_topic
from reconciler.replication.offsets.close_gaps import Found, Log, NotPairedError, bounds_of, read_log
from reconciler.replication.offsets.codec import MapPartition, end_of
from reconciler.replication.offsets.map import PartitionMap
from reconciler.replication.offsets.map_topic import MapReader, copied_to, cut
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.produce.outbox import MARKER
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.model.lane import Ahead, LaneSpec, TargetLoss

ABORTED_WAIT_MS = 200
"""How long a broker may wait for records after the known end, where none are expected."""
MOST = 1_000
"""Offsets to read of one log; a longer range is judged by its first records."""
MOST_TO_PAIR = 300_000
"""Offsets of a copy to read when its position is lost: as many as a fast lane copies between two writes of the map."""
WINDOW, MOST_WINDOWS = 50_000, 3
"""Source offsets to search for equals of repeated copies, and how often in one gap."""
SETTLED_S = 300.0
"""Seconds of a session in which an earlier holder of the lane may still write. From then on any other producer is a
stranger, also if its records have equals: MirrorMaker 2 beside the flow writes no others."""


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """The last known end of a copy. ``source``: the next source offset then; ``target``: the target offset after its
    last record; ``now``: the present end of the target's log."""

    source: int
    target: int
    now: int


@dataclass(frozen=True, slots=True)
class Strange:
    """``first``: target offset of the first record that the flow did not copy."""

    first: int


def copies_each_once(spec: LaneSpec) -> bool:
    """Whether each source record has at most one copy, an identical one."""
    return spec.delivery == "exactly_once" and spec.work.provenance is None and not spec.work.headers


def knows_strangers(spec: LaneSpec) -> bool:
    """Whether another client's records between a lane's own batches can be distinguished from the lane's: not with
    provenance, where producers share the topic."""
    return spec.work.provenance is None


def unexplained_at_start(spec: LaneSpec, known: KnownEnd, position: int) -> bool:
    """Whether ``strangers`` explains what follows the known end of a copy, after ``at_start`` found nothing: nothing of
    the lane itself is there (the map is not behind ``position``), or it is known by its equals."""
    # Where both logs could be compared, only records of which the target has deleted the beginning are left.
    left = known.now - known.target - (MARKER if copies_each_once(spec) else 0)
    return left > 0 and (spec.delivery != "exactly_once" or position == known.source)


class TargetTails:
    """Explains target logs that continue after the last known copy."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._settled_at = time.monotonic() + SETTLED_S

    async def at_start(
        self, partition: Partition, at: LanePosition, known: KnownEnd
    ) -> Ahead | Strange | TargetLoss | None:
        """Explains a target log that continues after the last known copy; None: nothing is wrong, or it cannot be
        compared. Raises BrokerError and ConnectionLostError; the caller asks again."""
        # The offset map may lag behind the position by ``behind`` source offsets; their copies are expected there.
        behind = at.offset - known.source
        if not copies_each_once(self._lane.spec) or behind < 0 or (known.now - known.target <= MARKER and not behind):
            return None
        try:
            copies = await self._copies(partition, known.target, known.now)
            originals = await self._sources(partition, known.source, at.offset) if behind else []
            # The position covers source records without any copy: the target has lost them. Under ``continue_on``,
            # or by a filter, they may have been left out instead.
            left_out = self._lane.spec.continue_on or self._lane.spec.work
            if originals and not copies and known.now - known.target <= MOST and not left_out:
                return TargetLoss(known.now, known.now + len(originals), originals[0][0])
            if len(copies) <= min(behind, MOST):
                return None
            # Surplus records are copies of later source records (the position is too old), or another client's.
            strange = _without(copies, originals)
            after = {
                record_hash: offset for offset, record_hash in reversed(await self._sources(partition, at.offset, None))
            }
        except NotPairedError:  # a log has deleted the records to compare
            return None
        except BrokerError as error:
            if error.code not in DENIED:
                raise
            return None
        if not strange:
            return None
        offset, record_hash = strange[0]
        if record_hash not in after:
            return Strange(offset)
        last = after.get(strange[-1][1]) if known.now - known.target <= MOST else None
        return Ahead(after[record_hash], offset, None if last is None else last + 1)

    async def strangers(self, partition: Partition, gaps: Sequence[tuple[int, int]]) -> int | None:
        """Target offset of the first committed record in ``gaps`` between this lane's own batches that the lane did not
        write; None: the gaps hold only markers, aborted records and repeated copies, as far as is known. Raises
        BrokerError and ConnectionLostError."""
        low = (await small_topics.begins(self._lane.target, [partition.target]))[partition.target]
        for begin, end in ((max(low, begin), end) for begin, end in gaps if low < end):
            try:
                # Without transactions a repeated batch lies in the log like any other, so only a record that the source
                # lacks counts as another client's.
                if self._lane.spec.delivery != "exactly_once":
                    first = await self._without_equal(partition, begin, min(end, begin + MOST))
                else:
                    first = next((offset for offset, _ in await self._copies(partition, begin, end)), None)
            except NotPairedError:
                continue
            except BrokerError as error:
                if error.code not in DENIED:
                    raise
                continue
            if first is not None:
                return first
        return None

    async def _without_equal(self, partition: Partition, begin: int, end: int) -> int | None:
        """Target offset of the first record in [``begin``, ``end``) that another producer wrote long after this session
        began, or that the source provably lacks. A repeated copy keeps its timestamp, so its equal lies at or after the
        first source offset with a timestamp as late. Nothing is proved where the source has deleted records, because
        the equal may have been one of them."""
        key, equals, windows = partition.source, set[int](), 0
        settled = time.monotonic() > self._settled_at
        for offset, timestamp, record_hash, writer in await self._timed(partition, begin, end):
            if settled and writer != self._lane.identity.producer_id:
                return offset
            if timestamp < 0 or record_hash in equals:
                continue
            if windows == MOST_WINDOWS:
                return None
            windows += 1
            low, first, last = [await self._offset_at(key, at) for at in (EARLIEST, timestamp, LATEST)]
            first = last if first < 0 else first  # no source record is as young
            if first == low > 0:
                return None
            until = min(last, first + WINDOW)
            hashes = await self._whole(key, min(first, max(low, last - WINDOW)), until)
            if hashes is None:
                return None
            equals |= hashes
            if record_hash not in equals and until == last:
                return offset
        return None

    async def _offset_at(self, source: Key, timestamp: int) -> int:
        asked = await self._lane.source.list_offsets({source: timestamp}, committed=self._lane.committed_only)
        if isinstance(offset := asked[source], BrokerError):
            raise offset
        return offset

    async def _whole(self, source: Key, begin: int, end: int) -> set[int] | None:
        """Hashes of the source's records in [``begin``, ``end``); None if compaction has left holes there."""
        lane, hashes, at, whole = self._lane, set[int](), begin, True
        async for answer in small_topics.read(
            lane.source, {source: begin}, {source: end}, committed=lane.committed_only
        ):
            for batch in scan(answer.records):
                whole = whole and batch.magic == 2 and batch.base <= at and batch.records == batch.last_delta + 1
                at = max(at, batch.next_offset)
            hashes |= {
                _hash(each) for each in small_topics.delivered(answer, begin, end, committed=lane.committed_only)
            }
        return hashes if whole and at >= end else None

    async def _timed(self, partition: Partition, begin: int, end: int) -> list[tuple[int, int, int, int]]:
        """Offset, timestamp, hash and producer id of the copy's records. The timestamp is -1 where it is not the
        producer's."""
        key, records = partition.target, list[tuple[int, int, int, int]]()
        async for answer in small_topics.read(self._lane.target, {key: begin}, {key: end}, committed=True):
            for batch in small_topics.delivered_batches(answer, begin, end, committed=True):
                if batch.magic == 2:
                    timed = not batch.attributes & APPEND_TIME
                    for record in records_of(answer.records, batch):
                        if begin <= record.offset < end:
                            timestamp = record.timestamp if timed else -1
                            records.append((record.offset, timestamp, _hash(record), batch.producer_id))
        return records

    async def _copies(self, partition: Partition, begin: int, end: int) -> list[Found]:
        return (await read_log(Log(self._lane.target, partition.target), begin, min(end, begin + MOST)))[1]

    async def _sources(self, partition: Partition, begin: int, end: int | None) -> list[Found]:
        log = Log(self._lane.source, partition.source, committed=self._lane.committed_only)
        return (await read_log(log, begin, begin + MOST if end is None else min(end, begin + MOST)))[1]


def _hash(record: Record) -> int:
    """Without headers: an edit may have changed those that the flow adds since it wrote the record."""
    return hash((record.timestamp, *key_and_value(record)))


def _without(records: Sequence[Found], others: Sequence[Found]) -> list[Found]:
    """``records`` without an equal among ``others``; each of the others cancels one record."""
    left = Counter(record_hash for _, record_hash in others)
    kept: list[Found] = []
    for offset, record_hash in records:
        if left[record_hash]:
            left[record_hash] -= 1
        else:
            kept.append((offset, record_hash))
    return kept


def seen_before(partition: Partition) -> bool:
    """Whether an earlier session has seen the loss already. The first answer may have come from a broker that did not
    know yet that it no longer leads."""
    before = partition.hold.condition
    return partition.copied.lost is not None or (before is not None and before.code == "target_truncated")


class TargetLosses:
    """Finds target logs that end before records that they have acknowledged."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def acknowledged(
        self, begun: Mapping[Partition, LanePosition], chunks: Mapping[Key, map_topic.Record]
    ) -> Mapping[Partition, int]:
        """The target offset after the last committed copy, from the lane itself, else from the offset map. A partition
        after a seek has none until something is copied: the user has decided to go on from there."""
        acknowledged: dict[Partition, int] = {}
        for partition, known in begun.items():
            copied, ids = partition.copied, self._lane.ids(partition)
            if known.topic_id == "" or NO_ID in ids:
                continue
            if copied.of == ids and copied.target_end >= 0:
                acknowledged[partition] = copied.target_end
            elif (chunk := chunks.get(partition.source)) is not None:
                acknowledged[partition] = copied_to(chunk)
        return acknowledged

    async def of(
        self, begun: Mapping[Partition, LanePosition], acknowledged: Mapping[Partition, int]
    ) -> tuple[Mapping[Partition, int], Mapping[Partition, TargetLoss]]:
        """The present log ends of the copies, and their losses. Raises BrokerError if a broker refuses an end. A copy
        without a leader delays no other: its first Produce answer, or a check while it is idle, shows a loss as well.
        """
        # Losses that the position remembers, or that an earlier session of this lane has seen.
        seen = {p: p.copied.lost if p.copied.of == self._lane.ids(p) else None for p in begun}
        remembered = {p: known.lost or seen[p] for p, known in begun.items() if known.topic_id}
        losses = {p: loss for p, loss in remembered.items() if loss is not None}
        asked = {p.target: LATEST for p in acknowledged}
        ends = await self._lane.target.list_offsets(asked, committed=False) if asked else {}
        nows: dict[Partition, int] = {}
        for partition, end in acknowledged.items():
            now = ends[partition.target]
            if isinstance(now, BrokerError):
                if not now.retriable:
                    raise now
                continue
            nows[partition] = now
            if now < end and partition not in losses:
                losses[partition] = TargetLoss(now, end)

        losses = {p: await self._placed(p, loss) for p, loss in losses.items()}
        for partition, loss in losses.items():
            if begun[partition].lost is None and seen_before(partition):
                # A map write in flight may contain lost copies; the cut waits for it, and so removes them, too.
                async with self._lane.mapping:
                    partition.copied.lose()
                    await cut(self._lane.target, self._lane.spec.state, partition.source, loss.end)
        return nows, losses

    async def shortened(self, partition: Partition) -> TargetLoss | None:
        """The loss, if this lane has seen acknowledgements after the present end of the copy."""
        before, ids = partition.copied.target_end, self._lane.ids(partition)
        if before < 0 or partition.copied.of != ids:
            return None
        now = (await self._lane.target.list_offsets({partition.target: LATEST}, committed=False))[partition.target]
        return TargetLoss(now, before) if isinstance(now, int) and now < before else None

    async def _placed(self, partition: Partition, loss: TargetLoss) -> TargetLoss:
        """``loss`` with the source offset of the first lost record, if the offset map has it exactly."""
        if loss.source >= 0:
            return loss
        if (known := await offset_map(self._lane, partition)) is None:
            return loss
        first = known.upstream(loss.end)
        return replace(loss, source=first.offset) if first.exact and first.offset is not None else loss


async def ended_at(lane: Lane, partitions: Collection[Partition]) -> Mapping[Key, int]:
    """The source offset after the last copy, without help of a position: the offset map, which may be a second behind,
    and behind it both logs record by record. Only where each copy behind the map is equal to the source's next record:
    not after repeats, a filter, added headers or compaction. Raises BrokerError and ConnectionLostError."""
    by_source = {partition.source: partition for partition in partitions}
    chunks = await map_topic.newest_chunks(lane.target, lane.spec.state, {k: lane.ids(p) for k, p in by_source.items()})
    ended: dict[Key, int] = {}
    for key, chunk in chunks.items():
        after, copied = end_of(*chunk), copied_to(chunk)
        target, source = (
            Log(lane.target, by_source[key].target),
            Log(lane.source, key, committed=lane.committed_only),
        )
        try:
            # The target first: what is copied meanwhile, by a task that hangs, must not count as left out.
            now = (await bounds_of(target)).end
            if not 0 <= copied <= now <= copied + MOST_TO_PAIR:
                continue
            copies = (await read_log(target, copied, now))[1]
            originals = (await read_log(source, after, after + 2 * (now - copied)))[1] if copies else []
        except NotPairedError:
            continue
        except BrokerError as error:
            if error.code not in DENIED:
                raise
            continue
        if [hashed for _, hashed in copies] == [hashed for _, hashed in originals[: len(copies)]]:
            ended[key] = originals[len(copies) - 1][0] + 1 if copies else after
    return ended


async def offset_map(lane: Lane, partition: Partition) -> PartitionMap | None:
    """The partition's offset map, including chunks not yet written; None: there is none, or it may not be read."""
    topic, number, ids = partition.spec.topic, partition.spec.partition, lane.ids(partition)
    reader = MapReader(lane.target, lane.spec.state, frozenset({topic}))
    try:
        await reader.refresh()
    except BrokerError as error:
        if error.retriable:
            raise
        return None
    if partition.copied.of == ids:
        for chunk in partition.copied.chunks():
            reader.take(*chunk.encode(MapPartition(lane.spec.state, topic, number, *ids)))
    return reader.partition(topic, number, ids)


async def only_aborted(target: ClusterClient, ends: Mapping[Key, int]) -> set[Key]:
    """The partitions of ``ends`` that hold only aborted records and markers from offset 0 to their end, as after the
    crash of a lane in its first transaction. A log with a deleted beginning or a hole has held other records."""
    firsts = await small_topics.begins(target, list(ends))
    unread = {key: 0 for key in ends if firsts[key] == 0}
    aborted: set[Key] = set()
    while unread:
        before = dict(unread)
        async for answer in small_topics.fetched(target, before, ABORTED_WAIT_MS, committed=True):
            key = (answer.topic, answer.partition)
            delivered = CommittedFilter(answer.records, answer.aborted)
            for batch in scan(answer.records):
                if batch.base > unread[key] or delivered.delivers(batch):
                    del unread[key]
                    break
                unread[key] = max(unread[key], batch.next_offset)
            if unread.get(key, -1) >= ends[key]:
                aborted.add(key)
                del unread[key]
        if unread == before:
            break  # an open transaction, for one, delivers nothing: in doubt the log holds records
    return aborted
