"""Copies the partitions of one lane at the source's own offsets: the differences from a lane with transactions.

Data goes through the lane's own fetchers and senders. This module hands holes to the producer of markers, handles
unexpected answers, and reports.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import BrokerError, PartitionsDeniedError, WireError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol.delete_records import delete_records
from reconciler.kafka.records.batches import Batch
from reconciler_mirror import log_lines as logs
from reconciler_mirror.conditions import positions as faults
from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.lane.positions import SameOffsetsPosition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.same_offsets.holes import SPARE, DisplacedError, OwnMarkers, fill
from reconciler_mirror.lane.same_offsets.leaders import Leaders, MarkerRequests, Markers
from reconciler_mirror.lane.same_offsets.place import DATA_EPOCH, CopyPlace, SamePartition
from reconciler_mirror.lane.same_offsets.segments import Hole, pieces_at_offsets
from reconciler_mirror.lane.state import Lane, RestartError
from reconciler_mirror.model.counters import HoleCounts, Loss

_OUT_OF_ORDER = frozenset({45, 46, 59})
"""The leader has another sequence than this lane: another holder has written, or the leader has lost a batch."""
SILENT_S = 600.0
"""Seconds after the leader's last answer, from which on it is asked before the next write: it may have forgotten the
producer (``producer.id.expiration.ms``), and then it accepts any sequence."""
MOST_TOGETHER = 500
"""Holes to fill in one transaction."""
_log = logs.logger("same offsets")


class Copies:
    """One session's delivery, apart from start and commit. ``producer``: the producer id of the flow's data, for
    partitions without one; ``marker_producer``: the producer id of the lane's own markers."""

    written = frozenset({0})
    """Not DUPLICATE_SEQUENCE_NUMBER: that batch's offset is unknown, and another holder may have sent it."""

    def __init__(self, lane: Lane, identity: Identity, producer: int, marker_producer: int) -> None:
        self._lane = lane
        self.producer = producer
        # Asks leaders for the last sequence of each copy's producer (DescribeProducers).
        self.leaders = Leaders(lane.target, lambda key: self._states[self._by_target[key]].producer)
        self.filled = asyncio.Event()
        self.filled.set()
        # Two ways to fill a hole: empty records in an aborted transaction, and, if its principal may write them, this
        # lane's own markers.
        self._markers = Markers(lane.target, identity)
        self._own_markers = OwnMarkers(MarkerRequests(lane.target, marker_producer, identity), identity.epoch)
        # Partitions with a hole at the head of their queue, in order; a set would have none.
        self._waiting: dict[Partition, None] = {}
        self._wake = asyncio.Event()
        self._states: dict[Partition, SamePartition] = {}
        self._by_target: dict[Key, Partition] = {}

    def joins(self, partition: Partition, same: SamePartition) -> None:
        """The partition's start is known. A partition that left and came back is a new object, and replaces the old."""
        former = self._by_target.get(partition.target)
        if former is not None:
            del self._states[former]
        self._states[partition] = same
        self._by_target[partition.target] = partition

    def state_of(self, partition: Partition) -> SamePartition | None:
        """None before its start is known."""
        return self._states.get(partition)

    def holes(self) -> HoleCounts:
        """A snapshot. A start counts as being filled until the first record's offset is reached."""
        begins = [
            same.start - partition.log.reached
            for partition in self._lane.partitions.values()
            if (same := self._states.get(partition)) is not None and 0 <= partition.log.reached < same.start
        ]
        counts = self._lane.counts
        return HoleCounts(counts.holes, counts.fillers, counts.refusals, len(begins), sum(begins))

    # sending

    def pieces(
        self, partition: Partition, view: memoryview, batches: Sequence[tuple[Batch, bool]], buffer: Buffer | None
    ) -> tuple[list[Piece], int]:
        return pieces_at_offsets(partition, self._states[partition], view, batches, buffer)

    def continues(self, partition: Partition, pieces: Sequence[Piece]) -> bool:
        """False if another producer has written to the target. Then both logs are compared before the partition stops:
        after a failover producers write there, and a flow the other way has copied their records to the source."""
        if not self._states[partition].displaced:
            return True
        for piece in pieces:
            piece.drop()
        self._again(partition)
        return False

    def sealed_as(self, partition: Partition) -> tuple[int, int]:
        return self._states[partition].producer, DATA_EPOCH

    def may_send(self, partition: Partition) -> bool:
        """Whether the head of the queue may be sent now; a hole goes to the producer of markers instead."""
        same, now = self._states.get(partition), time.monotonic()
        if same is None or same.place is None or not same.begun or partition.outbox.filling:
            return False
        if partition.outbox.queue[0].hole >= 0:
            if not partition.outbox.unacked and not self._lane.stopping:
                partition.outbox.filling = True
                self._waiting[partition] = None
                self.filled.clear()
                self._wake.set()
            return False
        if not partition.outbox.unacked and now - same.at > SILENT_S:
            self._lane.drop_unsent(partition)
            self._lane.routes.recheck(partition, "nothing was written for long")
            return False
        return True

    def acknowledged(self, partition: Partition, piece: Piece, base_offset: int) -> None:
        """Counts the piece at once, or stops the partition if it got another offset than the source's."""
        same, lane = self._states[partition], self._lane
        expected = piece.copied[0][0]
        if base_offset != expected:
            self.diverged(partition, expected, f"a record of it was given offset {base_offset}")
            return
        same.place = _place(same).appended(piece.records, piece.next_offset)
        same.at = time.monotonic()
        lane.counts.latency.committed(partition.figures.waiting_since)
        self._counted(partition)

    def _counted(self, partition: Partition) -> None:
        """Counts everything in the target's log as committed: there is no transaction to wait for."""
        waiting = partition.outbox.unacked or partition.outbox.queue
        partition.log.commit(partition.log.reached)
        partition.figures.committed(partition.log.reached, waiting[0].timestamp if waiting else None)

    def refused(self, partition: Partition, error: BrokerError) -> None:
        """Drops the refused batch and the later ones, none of which is in the log; the start looks for the place."""
        lane = self._lane
        if error.code not in _OUT_OF_ORDER:
            raise RestartError(str(error))
        lane.counts.refusals += 1
        partition.outbox.resend.clear()
        lane.give_up(partition)
        lane.routes.recheck(partition, "its place is checked again")

    def left_out(self, partition: Partition, piece: Piece, loss: Loss) -> None:
        """The record becomes a hole."""
        self._states[partition].left_out.add(piece.copied[0][0])
        partition.figures.lost.add(piece.next_offset, loss)

    def diverged(self, partition: Partition, offset: int, why: str) -> None:
        """Stops the partition for good, and records that in its position for later holders."""
        lane = self._lane
        self._states[partition].diverged = offset
        partition.outbox.filling = False
        partition.copied.acknowledged((), -1)  # keeps the last runs out of the offset map
        lane.urgent = True
        lane.mark_dirty(partition)
        lane.routes.forget(partition)
        lane.stop(partition, faults.offsets_diverged(partition.spec, offset, why))

    def position(self, partition: Partition) -> SameOffsetsPosition | None:
        """The metadata to commit with ``partition.log.reached``."""
        same = self._states.get(partition)
        if same is None:
            return None
        place, last = same.place, None
        if place is not None and place.level and place.reached == partition.log.reached:
            last = -1 if place.look.last_sequence is None else place.look.last_sequence
        return SameOffsetsPosition(same.producer, last, same.start, same.diverged)

    def committed(self, partition: Partition) -> None:
        """The partition's start is committed, so its data may be sent."""
        same = self._states.get(partition)
        if same is not None and not same.begun:
            same.begun = True
            if partition.outbox.queue:
                self._lane.routes.offer(partition)

    # holes

    async def fill_holes(self) -> None:
        """Runs until cancelled. A failed transaction ends the session, and the next one aborts it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                taken = list(self._waiting)[:MOST_TOGETHER]
                ready: list[Partition] = []
                for partition in taken:
                    del self._waiting[partition]
                    queue = partition.outbox.queue
                    # It may have been paused or stopped since it asked, or its hole may have been dropped with its
                    # queue.
                    if partition.hold.phase is Phase.COPYING and queue and queue[0].hole >= 0:
                        ready.append(partition)
                    else:
                        partition.outbox.filling = False
                if not ready:
                    break
                await self._fill(ready)
            self.filled.set()

    async def _fill(self, taken: Iterable[Partition]) -> None:
        """Fills holes by own markers where they are short, else by one transaction for all."""
        by_key = {partition.target: partition for partition in taken}
        # Log end, end of the hole, and timestamp. Adjacent holes are merged: each would cost an exchange of its own.
        holes: dict[Key, tuple[int, int, int]] = {}
        for key, partition in by_key.items():
            queue = partition.outbox.queue
            while len(queue) > 1 and queue[1].hole >= 0:
                head = queue.popleft()
                queue[0].hole, queue[0].timestamp = head.hole, max(head.timestamp, queue[0].timestamp)
            holes[key] = (_place(self._states[partition]).look.end, queue[0].next_offset, queue[0].timestamp)
        own = {key: Hole(first, after) for key, (first, after, _) in holes.items() if self._own_markers.may(key)}
        filled = await self._own_markers.fill({key: self._own_markers.own_part(hole) for key, hole in own.items()})
        left = {key: hole for key, hole in holes.items() if key not in filled}
        for key, end in filled.items():
            first, after, timestamp = holes[key]
            if end is None:
                by_key[key].outbox.filling = False
                self._again(by_key[key])
            elif end == self._own_markers.own_part(own[key]).next_offset < after and self._own_markers.may(key):
                left[key] = (end, after - SPARE, timestamp)
            else:
                self._lane.resolve(self._after, by_key[key], (first, after), end)
        if left:
            await self._fill_by_transaction(by_key, holes, left)

    async def _fill_by_transaction(
        self,
        by_key: Mapping[Key, Partition],
        holes: Mapping[Key, tuple[int, int, int]],
        left: Mapping[Key, tuple[int, int, int]],
    ) -> None:
        """``left``: the unfilled parts of ``holes``."""
        try:
            ends = await fill(self._markers, left)
        except PartitionsDeniedError as error:
            denied = {partition.target for partition in self._lane.deny([by_key[key] for key in left], error)}
            for key in denied:
                by_key[key].outbox.filling = False
            if left := {key: hole for key, hole in left.items() if key not in denied}:
                await self._fill_by_transaction(by_key, holes, left)
            return
        except DisplacedError as error:
            for key in left:
                by_key[key].outbox.filling = False
                if key == error.key and error.base > error.expected:
                    self.diverged(by_key[key], error.expected, f"a filler was given offset {error.base}")
                else:
                    self._states[by_key[key]].displaced = True
                    self._again(by_key[key])
            return
        for key, end in ends.items():
            self._lane.resolve(self._after, by_key[key], holes[key][:2], end)

    def _after(self, partition: Partition, hole: tuple[int, int], end: int) -> None:
        """Continues after the filled part of ``hole`` (first offset, offset after it) with its rest, else with the next
        piece. ``end``: the copy's present log end. If that lies after the hole, or the queue was dropped meanwhile, the
        partition is checked again. Fillers before a copy's first record are deleted, so that readers begin at the
        source's first offset."""
        same, lane, (first, after) = self._states[partition], self._lane, hole
        partition.outbox.filling = False
        same.at = time.monotonic()
        reached = min(end, after)
        lane.counts.fillers += reached - first
        lane.counts.holes += reached == after
        if partition.hold.phase is Phase.STOPPED:
            return
        same.place = _place(same).appended(0, reached)
        partition.copied.acknowledged(((first, reached - first),), first)
        # Another producer wrote the filler or marker, so the data's sequence does not change: it is the one of the last
        # look.
        look = same.place.look
        partition.log.reach(reached)
        partition.outbox.begin_sequence(
            look.next_sequence, known=partition.outbox.first_acked and look.last_sequence is not None
        )
        lane.mark_dirty(partition)
        piece = partition.outbox.queue[0] if partition.outbox.queue else None
        if end > after or piece is None or piece.hole < 0:
            self._counted(partition)
            self._again(partition)
            return
        if reached < after:
            piece.hole = reached
        else:
            partition.outbox.queue.popleft()
            if first < same.start <= reached:
                lane.routes.spawn(self.delete_fillers(partition.target, same.start))
        self._counted(partition)
        if partition.outbox.queue:
            lane.routes.offer(partition)

    def _again(self, partition: Partition) -> None:
        self._lane.drop_unsent(partition)
        self._lane.routes.recheck(partition, "its place is checked again")

    async def delete_fillers(self, key: Key, start: int) -> None:
        """Deletes the fillers before the first record, which no reader needs. The next start repeats a failure."""
        try:
            await delete_records(self._lane.target, {key: start})
        except WireError as error:
            _log.warning(
                "empty offsets below the first record are not deleted yet; records are still copied",
                flow=self._lane.spec.flow,
                topic=key[0],
                partition=key[1],
                before=start,
                why=str(error),
                todo="check that the mirror's principal has Delete on the topic",
            )


def _place(same: SamePartition) -> CopyPlace:
    assert same.place is not None
    return same.place
