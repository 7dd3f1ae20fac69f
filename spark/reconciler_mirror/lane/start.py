"""Before a partition is fetched: its position at the target, and whether the source still has what comes next."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast
from uuid import UUID

from mirror import batch_refusals, positions
from mirror.batch_commit import END
from mirror.batch_lane import Lane
from mirror.batch_partition import Partition, Phase
from mirror.faults import SupersededError, position_lost, position_missing, start_out_of_range, topic_recreated
from mirror.lanes import Condition
from mirror.losses import Loss
from translation.history import copied_before
from wire.cluster import EARLIEST, LATEST, NO_ID, Cluster, Key
from wire.errors import DENIED, UNKNOWN_TOPIC, UNSTABLE, BrokerError, ConnectionLostError, name_of

PAUSE_FIRST, PAUSE_LAST, WAIT = 0.1, 2.0, 0.2
PAUSE_UNDECIDED = 0.01  # the takeover committed positions milliseconds ago
TELL_AFTER = 5.0


class Starter:
    """Takes partitions that are new, or whose leader or log may have changed, and places them or stops them."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._pending: set[Partition] = set()
        self._wake = asyncio.Event()
        self._at_target = False

    def add(self, partition: Partition) -> None:
        partition.phase = Phase.STARTING
        self._lane.changed.add(partition)
        self._pending.add(partition)
        self._wake.set()

    def _add_again(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            if partition.phase is Phase.STARTING:
                self.add(partition)

    async def run(self) -> None:
        pause, failing_since = PAUSE_FIRST, 0.0
        while True:
            await self._wake.wait()
            self._wake.clear()
            taken = [p for p in self._pending if p.phase is Phase.STARTING]
            self._pending.clear()
            try:
                again = await self._start(taken)
                self._lane.trouble, failing_since = None, 0.0
            except (ConnectionLostError, BrokerError) as error:
                if isinstance(error, BrokerError) and not error.retriable:
                    raise
                again = [p for p in taken if p.phase is Phase.STARTING]
                failing_since = failing_since or time.monotonic()
                if time.monotonic() - failing_since > TELL_AFTER:
                    side = "target" if self._at_target else "source"
                    self._lane.trouble = batch_refusals.unreachable(self._lane.spec, side, str(error))
                undecided = isinstance(error, BrokerError) and error.code == UNSTABLE
                await asyncio.sleep(min(pause, PAUSE_UNDECIDED) if undecided else pause)
                pause = min(PAUSE_LAST, pause * (1.2 if undecided else 2))
            else:
                pause = PAUSE_FIRST
            if again:
                asyncio.get_running_loop().call_later(WAIT, self._add_again, again)

    async def _start(self, taken: Sequence[Partition]) -> list[Partition]:
        """Returns those that have to wait, for example for a leader."""
        lane = self._lane
        self._at_target = False
        await lane.source.refresh({p.spec.topic for p in taken})
        self._at_target = True
        await lane.target.refresh({p.spec.target_topic for p in taken})
        there, again = self._with_leaders(taken)
        there = await self._with_positions(there)
        self._at_target = False
        lows, ends = await asyncio.gather(self._offsets(there, EARLIEST), self._offsets(there, LATEST))
        tops, truncated = await self._tops(there, ends), await self._truncated(there)
        for partition in there:
            low, end = lows[partition.source], ends[partition.source]
            if isinstance(low, int) and isinstance(end, int):
                top = max(end, tops.get(partition.source, end))
                self._settle(partition, (low, end, top), truncated.get(partition))
                continue
            failure = low if isinstance(low, BrokerError) else cast(BrokerError, end)
            if failure.retriable:
                again.append(partition)
                self._waits(partition, name_of(failure.code))
            else:
                lane.stop(partition, batch_refusals.source_refuses(partition, failure.code))
        return again

    def _with_leaders(self, taken: Sequence[Partition]) -> tuple[list[Partition], list[Partition]]:
        there, again = [], []
        for partition in taken:
            condition = self._missing(partition)
            if condition is not None:
                self._lane.stop(partition, condition)
            elif _leaderless(self._lane.source, partition.source):
                again.append(partition)
                self._waits(partition, "it has no leader")
            else:
                partition.topic_id = self._lane.source.topics[partition.spec.topic].topic_id
                there.append(partition)
        return there, again

    def _waits(self, partition: Partition, why: str) -> None:
        """Tried again several times a second; told once it lasts."""
        now = time.monotonic()
        partition.waits_since = partition.waits_since or now
        if now - partition.waits_since > TELL_AFTER and partition.condition is None:
            partition.condition = batch_refusals.unavailable(partition, "source", why)
            self._lane.changed.add(partition)

    def _missing(self, partition: Partition) -> Condition | None:
        spec, lane = partition.spec, self._lane
        source, target = lane.source.topics[spec.topic], lane.target.topics[spec.target_topic]
        if source.error in DENIED:
            return batch_refusals.source_refuses(partition, source.error)
        if source.error == UNKNOWN_TOPIC or (not source.error and spec.partition not in source.leaders):
            return batch_refusals.source_gone(partition)
        if source.topic_id != NO_ID and spec.topic_id and not _same_id(source.topic_id, spec.topic_id):
            now = base64.urlsafe_b64encode(source.topic_id.bytes).decode().rstrip("=")
            return topic_recreated(replace(spec, topic_id=now), spec.topic_id)
        if target.error in DENIED | {UNKNOWN_TOPIC} or (not target.error and spec.partition not in target.leaders):
            return batch_refusals.target_missing(partition, len(target.leaders), target.error)
        return None

    async def _with_positions(self, there: Sequence[Partition]) -> list[Partition]:
        """Reads positions that are not known; a fresh partition begins where the flow says."""
        lane = self._lane
        unknown = [p for p in there if p.covered < 0]
        if not unknown:
            return list(there)
        found = await lane.target.positions(lane.spec.group, [p.target for p in unknown])
        fresh: list[Partition] = []
        for partition in unknown:
            committed = found[partition.target]
            known = positions.decode(committed.offset, committed.metadata.rstrip(END))
            if committed.offset < 0:
                fresh.append(partition)
                continue
            if known.claim > lane.spec.claim:
                raise SupersededError("another application has taken the flow")
            if known.topic_id not in ("", partition.spec.topic_id):
                lane.stop(partition, topic_recreated(partition.spec, known.topic_id))
                continue
            self._begin(partition, known)
        await self._begin_fresh(fresh)
        return [p for p in there if p.phase is Phase.STARTING and p.covered >= 0]

    def _begin(self, partition: Partition, known: positions.Position) -> None:
        self._lane.changed.add(partition)
        partition.committed = partition.reached = partition.covered = known.offset
        partition.leader_epoch = partition.covered_epoch = known.leader_epoch
        partition.copied.begin(known.offset)
        partition.marked = known.marked if self._lane.spec.work.provenance else None
        old = positions.hour_now() - known.hour >= positions.RENEW_AFTER_HOURS
        if old or known.claim != self._lane.spec.claim:
            self._write_soon(partition)

    async def _begin_fresh(self, fresh: Sequence[Partition]) -> None:
        spec = self._lane.spec
        given, fresh = _apart(fresh, spec.start_offsets)
        await self._begin_at(given)
        fresh = await self._never_copied(fresh)
        wanted = {"earliest": EARLIEST, "latest": LATEST}.get(spec.start_kind, spec.start_timestamp_ms or 0)
        found = await self._offsets(fresh, wanted)
        beyond = [p for p in fresh if found[p.source] == -1]
        found = {**found, **await self._offsets(beyond, LATEST)}
        for partition in fresh:
            offset = found[partition.source]
            if isinstance(offset, int):
                self._begin_first(partition, offset)
            elif not offset.retriable:
                self._lane.stop(partition, batch_refusals.source_refuses(partition, offset.code))
            else:
                raise offset

    async def _never_copied(self, fresh: Sequence[Partition]) -> Sequence[Partition]:
        """Those whose records the target may have already are stopped: from the start they would be there twice."""
        target = self._lane.target
        ends = await target.list_offsets({p.target: LATEST for p in fresh}, committed=False) if fresh else {}
        ids = {
            p.source: (p.topic_id, target.topics[p.spec.target_topic].topic_id) for p in fresh if ends[p.target] != 0
        }
        for key, before in (await copied_before(target, ids)).items():
            partition = next(p for p in fresh if p.source == key)
            self._lane.stop(partition, position_missing(partition.spec, self._lane.spec.flow, before))
        return [p for p in fresh if p.phase is Phase.STARTING]

    async def _begin_at(self, given: Sequence[Partition]) -> None:
        """Explicit offsets. One that the source does not have stops its partition: no other was asked for."""
        lows, ends = await self._offsets(given, EARLIEST), await self._offsets(given, LATEST)
        for partition in given:
            low, end = lows[partition.source], ends[partition.source]
            offset = self._lane.spec.start_offsets[partition.source]
            if isinstance(low, int) and isinstance(end, int):
                if low <= offset <= end:
                    self._begin_first(partition, offset)
                else:
                    self._lane.stop(partition, start_out_of_range(partition.spec, offset, low, end))
                continue
            failure = low if isinstance(low, BrokerError) else cast(BrokerError, end)
            if failure.retriable:
                raise failure
            self._lane.stop(partition, batch_refusals.source_refuses(partition, failure.code))

    def _begin_first(self, partition: Partition, offset: int) -> None:
        spec = self._lane.spec
        partition.reached = partition.covered = spec.claim.ground.not_before(partition.source, offset)
        partition.copied.begin(partition.covered, first=True)
        partition.marked = spec.work.first_mark(partition.covered)
        self._write_soon(partition)

    def _write_soon(self, partition: Partition) -> None:
        """A start, and who owns the flow now, must survive a crash before the first record."""
        self._lane.urgent = True
        self._lane.mark_dirty(partition)

    async def _offsets(self, wanted: Sequence[Partition], timestamp: int) -> Mapping[Key, int | BrokerError]:
        asked = {p.source: timestamp for p in wanted}
        if not asked:
            return {}
        return await self._lane.source.list_offsets(asked, committed=self._lane.committed_only)

    async def _truncated(self, there: Sequence[Partition]) -> dict[Partition, int]:
        """Partitions whose log ends, for the epoch last copied, before the position (KIP-320), and that end."""
        source = self._lane.source
        suspects = {
            p.source: p
            for p in there
            if p.epoch_at(p.covered) >= 0 and (leader := source.leader(*p.source)) and leader.epoch != p.validated_epoch
        }
        found: dict[Partition, int] = {}
        if suspects:
            ends = await source.epoch_ends({key: p.epoch_at(p.covered) for key, p in suspects.items()})
            for key, answer in ends.items():
                if isinstance(answer, BrokerError):
                    if answer.retriable:
                        raise answer
                elif 0 <= answer[1] < suspects[key].covered:
                    found[suspects[key]] = answer[1]
        return found

    async def _tops(self, there: Sequence[Partition], ends: Mapping[Key, int | BrokerError]) -> Mapping[Key, int]:
        """High watermarks of those whose position lies beyond ``ends``: an open transaction, or a lost log."""
        beyond = [p.source for p in there if isinstance(end := ends[p.source], int) and p.covered > end]
        found = await self._lane.source.list_offsets(dict.fromkeys(beyond, LATEST), committed=False) if beyond else {}
        return {key: top for key, top in found.items() if isinstance(top, int)}

    def _settle(self, partition: Partition, bounds: tuple[int, int, int], truncated: int | None) -> None:
        """``bounds``: log start, end for our isolation, high watermark."""
        lane, (low, end, top) = self._lane, bounds
        lane.changed.add(partition)
        partition.waits_since = 0.0
        partition.end = end
        leader = lane.source.leader(*partition.source)
        if truncated is not None or not low <= partition.covered <= top:
            self._lost(partition, low, min(top, top if truncated is None else truncated))
        elif leader is None:
            self.add(partition)
        else:
            partition.validated_epoch = leader.epoch
            partition.condition = None
            partition.why = ""
            if partition.pausing:
                lane.pause(partition)
                return
            partition.phase = Phase.COPYING
            partition.left_waiting = partition.left_waiting if partition.covered < end else None
            lane.routes.place(partition)

    def _lost(self, partition: Partition, low: int, high: int) -> None:
        """The next record is before ``low`` or beyond ``high``."""
        lane, position = self._lane, partition.covered
        condition = position_lost(partition.spec, position, low, high)
        if not lane.goes_on(condition.code):
            lane.stop(partition, condition)
            return
        if condition.code == "source_truncated":
            lane.drop_unsent(partition)  # what was fetched may not be the source's any more
        if not partition.idle:
            asyncio.get_running_loop().call_later(WAIT, self._add_again, [partition])
            return
        found = low if partition.covered < low else high
        partition.leader_epoch = partition.covered_epoch = partition.validated_epoch = -1
        lane.move_on(partition, found, Loss(condition.code, abs(found - partition.covered), text=condition.text))
        self.add(partition)


def _apart(fresh: Sequence[Partition], offsets: Mapping[Key, int]) -> tuple[Sequence[Partition], Sequence[Partition]]:
    """Those with an explicit offset, and the others."""
    return [p for p in fresh if p.source in offsets], [p for p in fresh if p.source not in offsets]


def _leaderless(cluster: Cluster, key: Key) -> bool:
    leader = cluster.leader(*key)
    return leader is None or leader.node < 0


def _same_id(topic_id: UUID, printed: str) -> bool:
    """Kafka prints ids in base64 for URLs, librdkafka in plain base64; both without padding."""
    plain = base64.b64encode(topic_id.bytes).decode().rstrip("=")
    return plain == printed.replace("-", "+").replace("_", "/").rstrip("=")
