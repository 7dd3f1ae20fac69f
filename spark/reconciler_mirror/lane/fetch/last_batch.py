"""Checks whether the source still has the batch that was copied last, or was truncated before it and has grown since.

After an unclean election the end of the last copied leader epoch shows that (OffsetForLeaderEpoch, KIP-320). A source
restored from a backup also grows past the position again, with other records at offsets that are copied already; but
its leader epochs may repeat, so epochs do not show it. Positions name the header of their
last batch, and each start compares that with the source's batch at the same offset. Compaction rewrites batches, and
some services regroup records, so a different header is only a suspicion: the records decide.
"""

from collections.abc import Collection, Mapping

from reconciler.kafka.client import log_ends, small_topics
from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.records.batches import Batch
from reconciler.replication.offsets.close_gaps import Found, Log, NotPairedError, read_log
from reconciler.replication.offsets.map import PartitionMap
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.target_tails import copies_each_once, offset_map
from reconciler_mirror.model.lane import LastBatch

WIDEN, WIDEST = 10, 1_000
"""The search for the next record widens tenfold at each step, and ends after ``WIDEST`` offsets without one."""


class LastBatches:
    """Compares the last copied batches with the source's batches at the same offsets."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def truncated(
        self, partitions: Collection[Partition], grown: Mapping[Partition, int]
    ) -> Mapping[Partition, int]:
        """Partitions whose copied part the source has lost, and the source offset up to which it still has it, -1 if
        unknown. ``grown``: those whose position lies within the source's log, with its start. Raises BrokerError and
        ConnectionLostError."""
        source = self._lane.source
        # A leader that has confirmed the copied part stays right about it: its log only grows while it leads.
        suspects = {
            p.source: p
            for p in partitions
            if p.epoch_at(p.log.covered) >= 0
            and (leader := source.leader(*p.source))
            and leader.epoch != p.log.validated_epoch
        }
        ends: dict[Partition, int] = {}
        wanted = {key: p.epoch_at(p.log.covered) for key, p in suspects.items()}
        for key, answer in (await log_ends.epoch_ends(source, wanted)).items():
            # A refusal for good shows in the bounds of the same partition, too, and is reported from there.
            if isinstance(answer, BrokerError):
                if answer.retriable:
                    raise answer
            elif 0 <= answer[1] < suspects[key].log.covered:
                ends[suspects[key]] = answer[1]
        # Epochs cost one request to each leader; a batch has to be fetched for each partition that they do not decide.
        return {**ends, **await self.replaced({p: low for p, low in grown.items() if p not in ends})}

    async def replaced(self, lows: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Partitions with another record at the last copied offset of the source, and the first replaced offset, -1 if
        unknown. ``lows``: the source's log start offsets. Raises BrokerError and ConnectionLostError."""
        known = {p: last for p in lows if (last := p.last_copied) is not None}
        places = {p: min(p.log.covered, last.next_offset) - 1 for p, last in known.items()}
        places = {p: place for p, place in places.items() if place >= lows[p]}
        batches = await self._batches({p.source: place for p, place in places.items()})
        replaced: dict[Partition, int] = {}
        for partition, place in places.items():
            last, now = known[partition], batches.get(partition.source)
            if now is None or now.base > place or now.magic != 2 or now.crc == last.crc:
                continue
            first = await self._first_other(partition, lows[partition], now.base, place)
            if first is None and await self._is_other(partition, last, now, place):
                first = -1
            if first is not None and first <= place:
                replaced[partition] = first
        return replaced

    async def _batches(self, places: Mapping[Key, int]) -> Mapping[Key, Batch]:
        try:
            return await small_topics.batches_at(self._lane.source, places)
        except BrokerError as error:
            if error.retriable:
                raise
            # One refused partition must not hide the others: each is asked for alone, and the fetcher reports that one.
            alone = [{key: place} for key, place in places.items()] if len(places) > 1 else []
            return {key: batch for each in alone for key, batch in (await self._batches(each)).items()}

    async def _first_other(self, partition: Partition, low: int, base: int, place: int) -> int | None:
        """The first replaced offset, or one after ``place`` if both sides are equal. None if the flow edits or repeats
        records, or if a side no longer has the records. ``base``: base offset of the source's batch with ``place``."""
        if not copies_each_once(self._lane.spec):
            return None
        try:
            known = None if self._lane.spec.keeps_offsets else await offset_map(self._lane, partition)
            return await _Comparison(self._lane, partition, known).first_other(low, max(low, base), place)
        except NotPairedError:
            return None
        except BrokerError as error:
            if error.retriable:
                raise
            return None

    async def _is_other(self, partition: Partition, last: LastBatch, now: Batch, place: int) -> bool:
        """Judges without copies: by producer id, epoch and sequence of the batch, else by a later timestamp."""
        if last.producer_id >= 0 and now.producer_id >= 0:
            before, after = ((b.producer_id, b.producer_epoch, b.base_sequence - b.base) for b in (last, now))
            return before != after
        key = partition.source
        async for answer in small_topics.read(self._lane.source, {key: place}, {key: place + 1}):
            if any(at.timestamp > last.max_timestamp for at in small_topics.delivered(answer, place, place + 1)):
                return True
        return False


class _Comparison:
    """Compares the source's records with their copies. ``known``: the offset map; None where copies keep offsets."""

    def __init__(self, lane: Lane, partition: Partition, known: PartitionMap | None) -> None:
        self._source = Log(lane.source, partition.source, committed=lane.committed_only)
        self._target = Log(lane.target, partition.target)
        self._known = known
        self._keeps_offsets = lane.spec.keeps_offsets

    async def first_other(self, low: int, base: int, place: int) -> int:
        """Bisects the offsets from ``low`` on, since all records after the first replaced one are replaced, too. Raises
        NotPairedError, BrokerError and ConnectionLostError."""
        records = (await read_log(self._source, base, place + 1))[1]
        if not records:
            raise NotPairedError("the batch has no records")
        if await self._is_copied(records[-1]):
            return place + 1
        first = high = records[-1][0]
        while low < high:
            middle = (low + high) // 2
            record = await self._next(middle, high)
            if record is not None and await self._is_copied(record):
                low = record[0] + 1
            else:
                first, high = first if record is None else record[0], middle
        return first

    async def _next(self, begin: int, end: int) -> Found | None:
        width = 1
        while begin < end and width <= WIDEST:
            if records := (await read_log(self._source, begin, min(end, begin + width)))[1]:
                return records[0]
            begin, width = begin + width, width * WIDEN
        if begin < end:
            raise NotPairedError("the source has too few records there")
        return None

    async def _is_copied(self, record: Found) -> bool:
        offset, record_hash = record
        if not self._keeps_offsets:
            copy = None if self._known is None else self._known.downstream(offset)
            if copy is None or copy.offset is None or not copy.exact:
                raise NotPairedError("the offset map does not say where its copy is")
            offset = copy.offset
        copies = (await read_log(self._target, offset, offset + 1))[1]
        if not copies:
            raise NotPairedError("its copy is gone")
        return copies[0][1] == record_hash
