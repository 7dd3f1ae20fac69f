"""Starts partitions: reads their positions, and checks that the source still has the next record of each."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import LATEST, NO_ID, CommittedPosition, Key, printed_id
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC, UNSTABLE, BrokerError, ConnectionLostError, name_of
from reconciler.replication.offsets.codec import end_of
from reconciler.replication.offsets.map_topic import Record, copied_before, name_on, newest_chunks
from reconciler.replication.offsets.position_metadata import urlsafe
from reconciler_mirror.conditions import lane as conditions
from reconciler_mirror.conditions import positions as faults
from reconciler_mirror.lane import first_start, positions, state, target_tails
from reconciler_mirror.lane.fetch.last_batch import LastBatches
from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.model.counters import Loss
from reconciler_mirror.model.lane import Ahead, Condition, TargetLoss

PAUSE_FIRST, PAUSE_LAST, WAIT = 0.1, 2.0, 0.2
"""Seconds: between tries after a failure, first and last; before waiting partitions are checked again."""
PAUSE_UNDECIDED = 0.01  # the takeover committed positions milliseconds ago
REPORT_AFTER = 5.0
"""Seconds before a lasting failure becomes a condition; leader elections and broker restarts take less."""


class Starter:
    """Takes new partitions, and partitions with a new leader or log; hands each to a fetcher or stops it."""

    _fetched_uncommitted = False
    """Whether a partition is fetched before its first position is committed. If False, a crash never leaves records at
    the target that no position explains."""

    def __init__(self, lane: state.Lane) -> None:
        self._lane = lane
        self._losses = target_tails.TargetLosses(lane)
        self._tails = target_tails.TargetTails(lane)
        self._last = LastBatches(lane)
        self._pending: set[Partition] = set()
        self._wake = asyncio.Event()
        self._at_target = False
        self._commits: int | None = None
        """``LaneCounts.transactions`` when this session began its first partition."""

    def add(self, partition: Partition) -> None:
        partition.freeze_end()
        partition.hold.start()
        self._lane.changed.add(partition)
        self._pending.add(partition)
        self._wake.set()

    def _add_again(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            if partition.hold.phase is Phase.STARTING:
                self.add(partition)

    async def run(self) -> None:
        """Runs until cancelled. Failed requests are repeated with growing pauses; after ``REPORT_AFTER`` seconds the
        lane reports why nothing starts. UNSTABLE_OFFSET_COMMIT (an open transaction holds positions, KIP-447) ends
        within milliseconds of a takeover, so that request is repeated almost at once."""
        pause, failing_since = PAUSE_FIRST, 0.0
        while True:
            await self._wake.wait()
            self._wake.clear()
            # A partition may have been stopped, paused or taken away while it waited here.
            taken = [p for p in self._pending if p.hold.phase is Phase.STARTING]
            self._pending.clear()
            try:
                again = await self._start(taken)
                self._lane.trouble, failing_since = None, 0.0
            except (ConnectionLostError, BrokerError) as error:
                # Another try would get the same answer, so the session ends with this one.
                if isinstance(error, BrokerError) and not error.retriable:
                    raise
                again = [p for p in taken if p.hold.phase is Phase.STARTING]
                failing_since = failing_since or time.monotonic()
                undecided = isinstance(error, BrokerError) and error.code == UNSTABLE
                if time.monotonic() - failing_since > REPORT_AFTER:
                    side = "target" if self._at_target else "source"
                    self._lane.trouble = (
                        conditions.positions_undecided(self._lane.spec, str(error))
                        if undecided
                        else conditions.unreachable(self._lane.spec, side, str(error))
                    )
                await asyncio.sleep(min(pause, PAUSE_UNDECIDED) if undecided else pause)
                pause = min(PAUSE_LAST, pause * (1.2 if undecided else 2))
            else:
                pause = PAUSE_FIRST
            if again:
                asyncio.get_running_loop().call_later(WAIT, self._add_again, again)

    async def _start(self, taken: Sequence[Partition]) -> list[Partition]:
        """Returns the partitions that have to wait, for example for a leader."""
        lane = self._lane
        # Metadata comes first: it has the leaders, and the topic ids to compare with the specs. ``_at_target`` names
        # the side in the condition if a request fails.
        self._at_target = False
        await lane.source.refresh({p.spec.topic for p in taken})
        self._at_target = True
        await lane.target.refresh({p.spec.target_topic for p in taken})
        led, again = list[Partition](), list[Partition]()
        for partition in taken:
            leader = lane.source.leader(*partition.source)
            if (condition := self._missing(partition)) is not None:
                lane.stop(partition, condition)
            elif leader is None or leader.node < 0:
                again.append(partition)
                self._waits(partition, "it has no leader")
            else:
                partition.log.topic_id = lane.source.topics[partition.spec.topic].topic_id
                led.append(partition)
        placed = await self._with_positions(led)
        begun = {*placed}
        again += [p for p in led if p not in begun and p.hold.phase is Phase.STARTING]
        # The target has the positions; only the source's leaders know whether their logs still hold the next record.
        self._at_target = False
        bounds = await small_topics.log_bounds(lane.source, [p.source for p in placed], committed=lane.committed_only)
        # A position beyond the last stable offset: the high watermark tells an open transaction from a lost log.
        beyond = [p.source for p in placed if isinstance(at := bounds[p.source], tuple) and p.log.covered > at[1]]
        tops = await lane.source.list_offsets(dict.fromkeys(beyond, LATEST), committed=False) if beyond else {}
        logs: dict[Partition, tuple[int, int, int]] = {}
        for partition in placed:
            if isinstance(known := bounds[partition.source], tuple):
                top = tops.get(partition.source)
                logs[partition] = (*known, max(known[1], top) if isinstance(top, int) else known[1])
        # A log that was truncated and has since grown past the position looks whole by its bounds.
        grown = {p: low for p, (low, _, top) in logs.items() if low <= p.log.covered <= top}
        truncated = await self._last.truncated(placed, grown)
        # Meanwhile a commit may have stopped a partition, or the driver may have taken it away.
        for partition in [p for p in placed if p.hold.phase is Phase.STARTING]:
            known = bounds[partition.source]
            # First the position is committed, then records are copied: see ``_fetched_uncommitted``.
            if partition.log.committed < 0 and not self._fetched_uncommitted:
                again.append(partition)
            elif not isinstance(known, BrokerError):
                self._settle(partition, logs[partition], truncated.get(partition))
            elif known.retriable:
                again.append(partition)
                self._waits(partition, name_of(known.code))
            else:
                lane.stop(partition, conditions.source_refuses(partition.spec, known.code))
        return again

    def _waits(self, partition: Partition, why: str, side: str = "source") -> None:
        """One partition delays no other: the start tries it again every ``WAIT`` seconds, and reports a condition after
        ``REPORT_AFTER``."""
        now = time.monotonic()
        partition.hold.waits_since = partition.hold.waits_since or now
        if now - partition.hold.waits_since > REPORT_AFTER and partition.hold.condition is None:
            partition.hold.report(conditions.unavailable(partition.spec, side, why))
            self._lane.changed.add(partition)

    def _missing(self, partition: Partition) -> Condition | None:
        """The reason that the newest metadata of either side gives against a start. A topic id other than the spec's
        means that the topic was recreated; a broker before 2.8 has no topic ids to compare."""
        spec, lane = partition.spec, self._lane
        source, target = lane.source.topics[spec.topic], lane.target.topics[spec.target_topic]
        if source.error in DENIED:
            return conditions.source_refuses(partition.spec, source.error)
        if source.error == UNKNOWN_TOPIC or (not source.error and spec.partition not in source.leaders):
            return conditions.source_gone(partition.spec)
        if source.topic_id != NO_ID and spec.topic_id and printed_id(source.topic_id.bytes) != urlsafe(spec.topic_id):
            now = replace(spec, topic_id=printed_id(source.topic_id.bytes))
            return faults.topic_recreated(now, spec.topic_id, same=lane.spec.keeps_offsets)
        if target.error in DENIED | {UNKNOWN_TOPIC} or (not target.error and spec.partition not in target.leaders):
            return conditions.target_missing(partition.spec, len(target.leaders), target.error)
        return None

    async def _with_positions(self, partitions: Sequence[Partition]) -> list[Partition]:
        """Reads the unknown positions; a partition without one begins at the flow's ``start``."""
        lane = self._lane
        # This session already knows the other positions. A new leader or log does not change them.
        unknown = [p for p in partitions if p.log.covered < 0]
        if not unknown:
            return list(partitions)
        committed_positions = await lane.target.positions(lane.spec.group, [p.target for p in unknown])
        fresh: list[Partition] = []
        foreign: dict[Partition, int] = {}
        kept: dict[Partition, positions.LanePosition] = {}
        begun: dict[Partition, positions.LanePosition] = {}
        least, chunks = await self._least(unknown)
        for partition in unknown:
            known, is_of_copy = self._committed_of(partition, committed_positions)
            # The group has no position for today's remote topic. That is a beginning only if this lane has never
            # committed one for the same two topics: a coordinator that has lost its offsets gives the same answer.
            if not is_of_copy:
                if (copied_to := lane.committed_before(partition)) is None:
                    fresh.append(partition)
                else:
                    before = (lane.spec.flow, copied_to)
                    lane.stop(partition, faults.position_missing(partition.spec, lane.spec.flow, before))
                continue
            # Another client committed this offset (``kafka-consumer-groups --reset-offsets``): it names no topic and no
            # epoch, so nothing can check it, and a person has to decide.
            if not known.proved:
                foreign[partition] = known.offset
                continue
            if not positions.is_of_topic(known, partition.spec.topic_id):
                lane.stop(partition, faults.topic_recreated(partition.spec, known.topic_id))
                continue
            # The position is of this topic. If the coordinator has lost newer commits, it is still too old: copying
            # from it would duplicate records.
            if positions.went_back(known, least.get(partition.source)):
                at_end = (await self._offsets([partition], LATEST))[partition.source]
                source_end = None if isinstance(at_end, BrokerError) else at_end
                offsets = (lane.spec.group, known.offset, least[partition.source], source_end)
                restored = await self._losses.shortened(partition)
                ended = (await target_tails.ended_at(lane, [partition])).get(partition.source)
                regressed = (*offsets, restored, name_on(lane.target), ended)
                lane.stop(partition, faults.position_regressed(partition.spec, *regressed))
            elif known.offset < (floor := lane.spec.claim.ground.returning.get(partition.source, 0)):
                lane.stop(partition, faults.copies_would_return(partition.spec, known.offset, floor))
            elif known.same is not None and known.same.diverged is not None:
                why = "a lane has found that before"
                lane.stop(partition, faults.offsets_diverged(partition.spec, known.same.diverged, why))
            elif known.same is not None:
                kept[partition] = known
            else:
                begun[partition] = known
        # Position and records were committed in one transaction, so the target must hold all records before the
        # position. A shorter log has lost some; a longer one holds records that the position does not know.
        acknowledged = self._losses.acknowledged(begun, chunks)
        ends, losses = await self._losses.of(begun, acknowledged)
        for partition, known in begun.items():
            loss, tail, known_end = losses.get(partition), None, None
            copied_to, copied_from = acknowledged.get(partition, -1), least.get(partition.source)
            if loss is None and partition in ends and copied_to >= 0 and copied_from is not None:
                known_end = target_tails.KnownEnd(copied_from, copied_to, ends[partition])
                tail = await self._tails.at_start(partition, known, known_end)
            self._begin(partition, known)
            partition.copied.target_end = copied_to
            if (loss := tail if isinstance(tail, TargetLoss) else loss) is not None:
                # A second sighting is committed with the position: later records, such as those of aborted
                # transactions, would make the log longer again and hide the loss. The first sighting may come from a
                # broker that does not know yet that it leads no more.
                again = target_tails.seen_before(partition)
                if known.lost is None and again:
                    self._write_soon(partition)
                partition.copied.lost = loss if again or known.lost is not None else None
                lane.stop(partition, faults.target_truncated(partition.spec, loss, known.offset))
            elif isinstance(tail, Ahead):
                lane.stop(
                    partition,
                    faults.position_behind_copy(partition.spec, lane.spec.group, known.offset, tail),
                )
            elif partition in ends:
                partition.outbox.expects(ends[partition])
                if isinstance(tail, target_tails.Strange):
                    partition.copied.others_wrote(tail.first)
                elif known_end and target_tails.unexplained_at_start(lane.spec, known_end, known.offset):
                    partition.copied.skipped(known_end.target, known_end.now)
        await self._stop_foreign(foreign)
        await self._begin_behind_same_offsets(kept)
        await self._begin_fresh(fresh)
        return [p for p in partitions if p.hold.phase is Phase.STARTING and p.log.covered >= 0]

    def _committed_of(
        self, partition: Partition, committed: Mapping[Key, CommittedPosition]
    ) -> tuple[positions.LanePosition, bool]:
        """The partition's position in the group, and whether it is one of today's remote topic."""
        at = committed[partition.target]
        known = positions.decode(partition.target, at.offset, at.metadata)
        # A later claim means that another application owns the flow: the whole lane ends, whatever else is wrong.
        if known.claim > self._lane.spec.claim:
            raise conditions.SupersededError(self._lane.spec.flow, known.claim)
        return known, at.offset >= 0 and positions.is_of_remote(known, self._lane.remote_id(partition))

    async def _least(self, unknown: Sequence[Partition]) -> tuple[Mapping[Key, int], Mapping[Key, Record]]:
        """Lower bounds of the committed positions, independent of the group coordinator: this lane's own last commit or
        start, else the end of the offset map; and the chunks of the map. Own knowledge needs no read of the map, whose
        partition may lack a leader just when a session begins again after the loss of a broker."""
        lane = self._lane
        own = {p.source: at for p in unknown if (at := lane.committed_before(p)) is not None}
        ids = {p.source: lane.ids(p) for p in unknown if p.spec.topic_id and p.source not in own}
        chunks = await newest_chunks(lane.target, lane.spec.state, ids)
        return {**{key: end_of(*chunk) for key, chunk in chunks.items()}, **own}, chunks

    def _begin(self, partition: Partition, known: positions.LanePosition) -> None:
        """Begins at a committed position. The position is committed again soon if it is old (group offsets expire) or
        has an earlier claim (so that it names the present owner), and as a test if the group may refuse this session's
        commits (``_accepts_commits``), or the target this partition's, which has stopped before; until then it counts
        as uncommitted, and nothing is copied that would have to be copied again."""
        self._lane.changed.add(partition)
        partition.log.begin(known.offset, known.leader_epoch, known.last)
        self._lane.know(partition, known.offset)
        partition.copied.start(known.offset, self._lane.ids(partition))
        if not known.topic_id:
            partition.copied.moved_back()
        partition.marked = known.marked if self._lane.spec.work.provenance else None
        if self._is_due(known):
            self._write_soon(partition)
        if partition.hold.strikes or not self._accepts_commits():
            partition.log.committed = -1
            self._write_soon(partition)

    def _is_due(self, known: positions.LanePosition) -> bool:
        """Whether the position has to be committed again: it is old, or another application wrote it."""
        old = positions.hour_now() - known.hour >= positions.RENEW_AFTER_HOURS
        return old or known.claim != self._lane.spec.claim

    def _accepts_commits(self) -> bool:
        """Whether the group is known to take this lane's commits. Without transactions a refused commit (a consumer has
        joined the group) would leave the records copied before it, and each new session would copy them again."""
        if self._lane.identity.transactional or self._fetched_uncommitted:
            return True
        if self._commits is None:
            self._commits = self._lane.counts.transactions
        return self._lane.counts.transactions > self._commits

    async def _begin_behind_same_offsets(self, kept: Mapping[Partition, positions.LanePosition]) -> None:
        """The flow had ``offsets: same`` until now: the target's log end is the true position, the group's lags."""
        ends = await small_topics.ends(self._lane.target, [p.target for p in kept]) if kept else {}
        for partition, known in kept.items():
            self._begin(partition, replace(known, offset=ends[partition.target], same=None))
            self._write_soon(partition)

    async def _begin_fresh(self, fresh: Sequence[Partition]) -> None:
        """Begins partitions without a position, at their explicit offset or at the flow's ``start``."""
        spec = self._lane.spec
        fresh = await first_start.not_of_others(self._lane, fresh)
        # An explicit offset outside of the source's log stops its partition: the user asked for no other one.
        given = await first_start.not_begun_before(self._lane, [p for p in fresh if p.source in spec.start_offsets])
        asked = [p.source for p in given]
        bounds = await small_topics.log_bounds(self._lane.source, asked, committed=self._lane.committed_only)
        for partition in given:
            known, wanted = bounds[partition.source], spec.start_offsets[partition.source]
            if isinstance(known, BrokerError):
                self._without_offset(partition, known)
            elif known[0] <= wanted <= known[1]:
                self._begin_first(partition, wanted)
            else:
                self._lane.stop(partition, faults.start_out_of_range(partition.spec, wanted, *known))
        fresh = await self._never_copied([p for p in fresh if p.source not in spec.start_offsets])
        offsets = await self._offsets(fresh, positions.asked_at(spec.start_kind, spec.start_timestamp_ms))
        # ListOffsets answers -1 for a timestamp after the last record: the copy begins at the end.
        beyond = [p for p in fresh if offsets[p.source] == -1]
        offsets = {**offsets, **await self._offsets(beyond, LATEST)}
        for partition in fresh:
            offset = offsets[partition.source]
            if isinstance(offset, int):
                self._begin_first(partition, offset)
            else:
                self._without_offset(partition, offset)

    def _without_offset(self, partition: Partition, error: BrokerError) -> None:
        """The source does not say where the partition would begin."""
        if error.retriable:
            self._waits(partition, name_of(error.code))
        else:
            self._lane.stop(partition, conditions.source_refuses(partition.spec, error.code))

    async def _never_copied(self, fresh: Sequence[Partition]) -> Sequence[Partition]:
        """Stops partitions whose records the target may have; returns the others."""
        return await first_start.never_copied(self._lane, fresh, partial(self._waits, side="target"))

    async def _stop_foreign(self, offsets: Mapping[Partition, int]) -> None:
        spec = self._lane.spec
        before = await copied_before(self._lane.target, {p.source: self._lane.ids(p) for p in offsets})
        ended = await target_tails.ended_at(self._lane, offsets) if offsets else {}
        for partition, offset in offsets.items():
            _, copied_to = before.get(partition.source, (spec.flow, None))
            end = ended.get(partition.source)
            condition = faults.position_foreign(partition.spec, spec.group, offset, copied_to, end)
            self._lane.stop(partition, condition)

    def _begin_first(self, partition: Partition, offset: int) -> None:
        """Begins at an offset that no commit backs. With provenance, no earlier than the offset from which arriving
        flows add headers: before it, a returning record looks like a new one. An explicit start counts as a seek,
        because it may lie before the end of the offset map."""
        spec = self._lane.spec
        if (arriving := spec.claim.ground.unknown.get(partition.source)) is not None:
            self._lane.stop(partition, faults.marks_unknown(partition.spec, arriving))
            return
        partition.log.begin_fresh(spec.claim.ground.not_before(partition.source, offset))
        partition.copied.start(partition.log.covered, self._lane.ids(partition), first=True)
        if partition.source in spec.start_offsets:
            partition.copied.moved_back()
        partition.marked = spec.work.first_mark(partition.log.covered)
        self._write_soon(partition)

    def _write_soon(self, partition: Partition) -> None:
        """Requests a commit at once: the start and the flow's owner must survive a crash before the first record. Not
        of a partition that left meanwhile: its successor may have gone on."""
        if partition.hold.phase is not Phase.LEAVING:
            self._lane.urgent = True
            self._lane.mark_dirty(partition)

    async def _offsets(self, wanted: Sequence[Partition], timestamp: int) -> Mapping[Key, int | BrokerError]:
        asked = {p.source: timestamp for p in wanted}
        if not asked:
            return {}
        return await self._lane.source.list_offsets(asked, committed=self._lane.committed_only)

    def _settle(self, partition: Partition, bounds: tuple[int, int, int], truncated: int | None) -> None:
        """Copies, pauses or stops the partition. ``bounds``: log start, end at the flow's isolation, high watermark."""
        lane, (low, end, top) = self._lane, bounds
        lane.changed.add(partition)
        partition.hold.waits_since = 0.0
        partition.log.ends_at(end, time.monotonic())
        leader = lane.source.leader(*partition.source)
        if truncated is not None and truncated < 0:
            lane.stop(partition, faults.source_replaced(partition.spec, partition.log.covered, low))
        elif truncated is not None or not low <= partition.log.covered <= top:
            self._lost(partition, low, min(top, top if truncated is None else truncated), top)
        elif leader is None:
            self.add(partition)
        else:
            partition.log.validated_epoch = leader.epoch
            partition.hold.moved(partition.log.reached)
            partition.hold.why = ""
            if partition.hold.pausing:
                lane.pause(partition)
                return
            partition.hold.copy(caught_up=partition.log.covered >= end)
            lane.routes.place(partition)

    def _lost(self, partition: Partition, low: int, high: int, top: int) -> None:
        """The source no longer has the next record: the position is before ``low`` (log start) or after ``high`` (end
        of the copied part). Stops, or continues after the loss where ``continue_on`` allows."""
        lane, position = self._lane, partition.log.covered
        condition = faults.position_lost(partition.spec, position, low, high, top)
        if not lane.goes_on(condition.code):
            lane.stop(partition, condition)
            return
        if condition.code == "source_truncated":
            lane.drop_unsent(partition)  # fetched from the part of the log that the source has lost
        # A loss is counted with the position behind it, so every batch before it must be acknowledged first.
        if not partition.outbox.idle:
            asyncio.get_running_loop().call_later(WAIT, self._add_again, [partition])
            return
        number = low if partition.log.covered < low else high
        if number < partition.log.covered:
            partition.copied.moved_back()
        partition.log.forget_epochs()
        lane.move_on(partition, number, Loss(condition.code, abs(number - partition.log.covered), text=condition.text))
        self.add(partition)
