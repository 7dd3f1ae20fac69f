"""Where a copy ends, compared with what its flow is known to have written there.

Too early: the target lost what it had acknowledged, after an unclean election there, or on a restored disk. Retention
moves the beginning of a log, compaction moves neither end, so a log that is shorter has lost records.

Too late: records of other writers, or copies that an older position knows nothing of. A position is committed with its
records, so both sides can be compared record by record; not in flows at least once, which may repeat
records, in those with provenance, which share their topics with producers, nor where records are filtered or get
headers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import LATEST, NO_ID, ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError
from reconciler.kafka.records.batches import CommittedFilter, scan
from reconciler.replication.offsets.close_gaps import Found, Log, NotPairedError, read_log
from reconciler.replication.offsets.codec import MapPartition
from reconciler.replication.offsets.map import PartitionMap
from reconciler.replication.offsets.map_topic import MapReader, Record, copied_to, cut
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.produce.outbox import MARKER
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.model.lane import Ahead, LaneSpec, TargetLoss

ABORTED_WAIT_MS = 200
"""How long a broker may wait for records behind the known end: there should be none."""
MOST = 1_000
"""Offsets of one log that are read; a longer stretch is judged by its beginning."""


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """Of a copy, as it was last known. ``source``: the next source offset then; ``target``: behind its last record;
    ``now``: where the target's log ends."""

    source: int
    target: int
    now: int


@dataclass(frozen=True, slots=True)
class Strange:
    """``first``: target offset of the first record that the flow did not copy."""

    first: int


def copies_each_once(spec: LaneSpec) -> bool:
    """Whether each record of the source is one record of the copy, and the same."""
    return spec.delivery == "exactly_once" and not spec.work


class TargetTails:
    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def at_start(
        self, partition: Partition, at: LanePosition, known: KnownEnd
    ) -> Ahead | Strange | TargetLoss | None:
        """Raises BrokerError and ConnectionLostError: then it is asked again."""
        behind = at.offset - known.source
        if not copies_each_once(self._lane.spec) or behind < 0 or (known.now - known.target <= MARKER and not behind):
            return None
        try:
            there = await self._copies(partition, known.target, known.now)
            here = await self._sources(partition, known.source, at.offset) if behind else []
            if here and not there and known.now - known.target <= MOST and not self._lane.spec.continue_on:
                return TargetLoss(known.now, known.now + len(here), here[0][0])
            if len(there) <= min(behind, MOST):
                return None
            strange = _without(there, here)
            after = {
                record_hash: offset for offset, record_hash in reversed(await self._sources(partition, at.offset, None))
            }
        except NotPairedError:  # a log begins after what would be compared
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
        """Target offset of the first committed record in ``gaps`` between this lane's own batches; None: markers, and
        what was aborted. Raises BrokerError and ConnectionLostError."""
        for begin, end in gaps:
            try:
                if records := await self._copies(partition, begin, end):
                    return records[0][0]
            except NotPairedError:
                continue
            except BrokerError as error:
                if error.code not in DENIED:
                    raise
        return None

    async def _copies(self, partition: Partition, begin: int, end: int) -> list[Found]:
        return (await read_log(Log(self._lane.target, partition.target), begin, min(end, begin + MOST)))[1]

    async def _sources(self, partition: Partition, begin: int, end: int | None) -> list[Found]:
        log = Log(self._lane.source, partition.source, committed=self._lane.committed_only)
        return (await read_log(log, begin, begin + MOST if end is None else min(end, begin + MOST)))[1]


def _without(some: Sequence[Found], others: Sequence[Found]) -> list[Found]:
    """Those of ``some`` that are not among ``others``, each of which counts once."""
    left = Counter(record_hash for _, record_hash in others)
    kept: list[Found] = []
    for offset, record_hash in some:
        if left[record_hash]:
            left[record_hash] -= 1
        else:
            kept.append((offset, record_hash))
    return kept


def seen_before(partition: Partition) -> bool:
    """Whether a session has seen the loss already. The first time, a broker may have answered that did not know yet
    that it leads no more."""
    before = partition.hold.condition
    return partition.copied.lost is not None or (before is not None and before.code == "target_truncated")


class TargetLosses:
    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def acknowledged(
        self, begun: Mapping[Partition, LanePosition], chunks: Mapping[Key, Record]
    ) -> Mapping[Partition, int]:
        """The target offset behind what had been committed, by the lane itself, else by the offset map. None after a
        seek, until something has been copied: its user has decided."""
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
        """Where the logs of the copies end now, and what they lost. Raises BrokerError for an end that a broker refuses
        to give. A copy without a leader holds up no other: the first answer to what is copied there, or a look while it
        is idle, shows the loss as well."""
        # What the position remembers, or an earlier session of this lane has seen.
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
                # A write under way has chunks of what is lost: after it, the cut finds them.
                async with self._lane.mapping:
                    partition.copied.lose()
                    await cut(self._lane.target, self._lane.spec.state, partition.source, loss.end)
        return nows, losses

    async def shortened(self, partition: Partition) -> TargetLoss | None:
        """What this lane itself has seen acknowledged behind the end that the copy has now."""
        before, ids = partition.copied.target_end, self._lane.ids(partition)
        if before < 0 or partition.copied.of != ids:
            return None
        now = (await self._lane.target.list_offsets({partition.target: LATEST}, committed=False))[partition.target]
        return TargetLoss(now, before) if isinstance(now, int) and now < before else None

    async def _placed(self, partition: Partition, loss: TargetLoss) -> TargetLoss:
        """With the source offset of the first record that is gone, where the offset map says it exactly."""
        if loss.source >= 0:
            return loss
        if (known := await offset_map(self._lane, partition)) is None:
            return loss
        first = known.upstream(loss.end)
        return replace(loss, source=first.offset) if first.exact and first.offset is not None else loss


async def offset_map(lane: Lane, partition: Partition) -> PartitionMap | None:
    """With what could not be written to it yet; None: there is none, or none that may be read."""
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
    """Those of ``ends`` whose log holds nothing from offset 0 to its end but aborted records and markers, as a lane
    leaves them that is interrupted in its first transaction. A log that lost its beginning, or has a hole, held more.
    """
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
            break  # an undecided transaction, for example, delivers nothing: in doubt they hold records
    return aborted
