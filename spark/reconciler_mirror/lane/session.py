"""One session of a lane: from fencing to its last commit, or to the error that ends it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from reconciler.kafka.client.cluster import NO_ID, Key
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler_mirror.conditions.lane import unavailable
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.fetch.fetcher import Fetchers
from reconciler_mirror.lane.offset_map_writer import MapWriter
from reconciler_mirror.lane.partition import UNKNOWN, Partition, PartitionFigures, Phase
from reconciler_mirror.lane.positions import RENEW_AFTER_HOURS
from reconciler_mirror.lane.produce.results import RETRY_PAUSE
from reconciler_mirror.lane.produce.sender import Sender
from reconciler_mirror.lane.progress import ProgressReports, SourceEnds, report_pause
from reconciler_mirror.lane.state import Lane, RestartError
from reconciler_mirror.model.lane import Condition, Control, LaneProgress, PartitionSpec
from reconciler_mirror.record_work.on_bytes import worker_of

QUIET_REPORT_EVERY, METADATA_EVERY = 1.0, 60.0
"""Seconds between reports while nothing changed, and between looks at all metadata."""
RENEW_EVERY = RENEW_AFTER_HOURS * 3600.0
LEAVE_WITHIN = 15.0
"""Seconds for the last commit. What it does not get done is copied again by the next holder."""


class LaneSession:
    """Owns the tasks and decides which broker serves a partition. ``held``: partitions left out after a restart.
    ``report`` gets what this session has copied."""

    def __init__(
        self, lane: Lane, control: Control, held: dict[Key, Condition], report: Callable[[LaneProgress], None]
    ) -> None:
        self.lane = lane
        lane.routes = self
        self._control = control
        self._held = held
        self._deliver_report = report
        # By the target's broker. ``_readers`` end before the last commit, ``_tasks`` see it through.
        self._senders: dict[int, Sender] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._fetchers = Fetchers(lane, lambda work: self._spawn(work, self._readers))
        self._tasks: set[asyncio.Task[None]] = set()
        self._map = MapWriter(lane)
        self._reports = ProgressReports(lane)
        self._ends = SourceEnds(lane)
        # Classic protocol: partitions to be added to the transaction before their leaders take batches of it. All that
        # come within one turn of the loop share a request.
        self._announced: set[Partition] = set()
        self._announce = asyncio.Event()
        # Target topics whose leaders are to be looked up; one refresh for all that fail at once.
        self._moved: set[str] = set()
        self._refresh = asyncio.Event()
        # What the control wanted when it was last looked at, to notice changes; None before the first look.
        self._specs: tuple[PartitionSpec, ...] | None = None
        self._paused: frozenset[Key] = frozenset()
        self._reported = 0.0
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Returns after the last commit once the control wants the lane to end. Raises what ended it otherwise."""
        lane = self.lane
        # What reads ends before the last commit, so that nothing new becomes open; the rest sees the commit through.
        for work in (*lane.delivery.work(), self._follow_target(), self._add_to_transaction(), self._map.run()):
            self._spawn(work, self._tasks)
        for work in (*lane.delivery.reads(), self._metadata_now_and_then(), self._ends.run()):
            self._spawn(work, self._readers)
        last = self._spawn(lane.delivery.commit(), self._tasks)
        look = self._spawn(self._follow_control(), self._tasks)
        # A failure ends the session at once. Else ``look`` ends when the lane must, and then the last commit has its
        # time: what it does not commit is copied again by the next holder.
        try:
            await asyncio.wait({lane.failed, look}, return_when=asyncio.FIRST_COMPLETED)
            if not lane.failed.done():
                await asyncio.wait({lane.failed, last}, timeout=LEAVE_WITHIN, return_when=asyncio.FIRST_COMPLETED)
            if lane.failed.done():
                lane.failed.result()
            await self._map.last()
        finally:
            if not lane.failed.done():
                lane.failed.cancel()
            await _cancel(self._tasks | self._readers)
            # Pieces hold receive buffers of pools that outlive the session.
            for partition in lane.partitions.values():
                for piece in (*partition.outbox.queue, *partition.outbox.unacked):
                    piece.drop()
            self._report()

    def _spawn(self, work: Coroutine[Any, Any, None], group: set[asyncio.Task[None]]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - every failure ends the session in one place
                self.lane.fail(error)

        task = self._loop.create_task(guarded())
        task.add_done_callback(lambda _: work.close())  # work that was cancelled before it began
        group.add(task)
        return task

    # routes

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._spawn(work, self._tasks)

    def place(self, partition: Partition) -> None:
        """Fetches from the follower that the leader preferred (KIP-392) while that holds, else from the leader. Without
        one the start looks again, which reports it as a condition once it lasts."""
        if self.lane.stopping:
            return
        leader = self.lane.source.leader(*partition.source)
        node, until = partition.log.read_from
        if node < 0 or until < time.monotonic() or not self.lane.source.address_known(node):
            node = leader.node if leader else -1
        if node < 0:
            self.recheck(partition, "no leader")
            return
        self._fetchers.place(node, partition)

    def offer(self, partition: Partition) -> None:
        """To the sender of the leader's broker, which is made when first needed. A partition that had no leader when
        hanging transactions were looked for must not be written before that look is done, so the session begins
        again."""
        leader = self.lane.target.leader(*partition.target)
        if leader is None or leader.node < 0:
            self.later(partition, RETRY_PAUSE, moved=True)
            return
        if partition.target in self.lane.unseen:
            self.lane.fail(RestartError(f"{partition.target[0]}-{partition.target[1]} has a leader again"))
            return
        sender = self._senders.get(leader.node)
        if sender is None:
            sender = self._senders[leader.node] = Sender(self.lane, leader.node)
            self._spawn(sender.run(), self._tasks)
        sender.offer(partition)

    def later(self, partition: Partition, pause: float, *, moved: bool) -> None:
        """``moved``: the leader did not answer, so new metadata comes first. After ``delivery_timeout`` without any
        answer the partition stops: by itself if nothing of it is under way, else the session begins again without it,
        because an unanswered batch may still be written."""
        if moved:
            if partition.outbox.stalled() > self.lane.tuning.delivery_timeout:
                condition = unavailable(partition.spec, "target", "no leader could be reached")
                partition.outbox.reached()
                if partition.outbox.unacked:
                    self.lane.fail(RestartError(condition.text, (partition.source, condition)))
                else:
                    self.forget(partition)
                    self.lane.stop(partition, condition, at=partition.log.reached)
                return
            self._moved.add(partition.spec.target_topic)
            self._refresh.set()
        self._loop.call_later(pause, self._offer_again, partition)

    def _offer_again(self, partition: Partition) -> None:
        if not self.lane.failed.done() and (partition.outbox.resend or partition.outbox.queue):
            self.lane.resolve(self.offer, partition)

    def recheck(self, partition: Partition, why: str) -> None:
        self.forget(partition)
        self.lane.changed.add(partition)
        partition.hold.why = why
        if partition.hold.phase is Phase.COPYING or partition.hold.phase is Phase.STARTING:
            self.lane.delivery.begin(partition)

    def forget(self, partition: Partition) -> None:
        self._fetchers.forget(partition)

    def announce(self, partition: Partition) -> None:
        self._announced.add(partition)
        self._announce.set()

    # tasks

    async def _add_to_transaction(self) -> None:
        """AddPartitionsToTxn in one request for all that are announced (classic protocol; version 2 of KIP-890 adds
        them with Produce). Not while the transaction is being ended: a partition added after EndTxn would be in
        none."""
        while True:
            await self._announce.wait()
            self._announce.clear()
            async with self.lane.boundary:
                taken, self._announced = self._announced, set()
                await self.lane.identity.add_partitions(p.target for p in taken)
                self.lane.added |= taken
            for partition in taken:
                self.offer(partition)

    async def _follow_target(self) -> None:
        """Metadata of moved topics, at most once in half a retry pause. Failures are left to the next call."""
        while True:
            await self._refresh.wait()
            self._refresh.clear()
            topics, self._moved = self._moved, set()
            with contextlib.suppress(ConnectionLostError, BrokerError):
                await self.lane.target.refresh(topics)
            await asyncio.sleep(RETRY_PAUSE / 2)

    async def _metadata_now_and_then(self) -> None:
        """Leaders that moved while nothing was sent, and topics that were recreated under the same name. Once a
        day all positions are written, since the target forgets positions that were not written for long."""
        lane, renew_at = self.lane, time.monotonic() + RENEW_EVERY
        while True:
            await asyncio.sleep(METADATA_EVERY)
            if time.monotonic() > renew_at:
                renew_at = time.monotonic() + RENEW_EVERY
                for partition in lane.partitions.values():
                    if partition.hold.phase is Phase.COPYING and partition.outbox.idle:
                        lane.mark_dirty(partition)
            with contextlib.suppress(ConnectionLostError, BrokerError):
                await lane.source.refresh({p.spec.topic for p in lane.partitions.values()})
                await lane.target.refresh({p.spec.target_topic for p in lane.partitions.values()})
            for partition in lane.partitions.values():
                there = lane.target.topics.get(partition.spec.target_topic)
                before, now = partition.copied.of[1], NO_ID if there is None else there.topic_id
                if partition.hold.phase is Phase.COPYING and NO_ID not in (before, now) and before != now:
                    # Its positions went with it: the next session reads them, and begins where the flow does.
                    raise RestartError(f"{partition.spec.target_topic} was deleted and recreated")
                known = lane.source.topics.get(partition.spec.topic)
                stale = known is None or known.topic_id != partition.log.topic_id
                if partition.hold.phase is Phase.COPYING and stale:
                    self.recheck(partition, "the source topic changed")

    async def _follow_control(self) -> None:
        """Follows the control; returns when the lane should end, after the readers are gone.

        Sleeps until the control or a partition has something new. What only time changes is seen once a second.
        """
        self._control.watch(self._wake)
        while not (self._control.stopping() or self._control.lease_over()):
            # While nothing changes the control returns the same objects: thousands of names are not compared each time.
            paused = self._control.paused()
            if paused is not self._paused and paused != self._paused:
                self._paused = paused
                for key, partition in self.lane.partitions.items():
                    if partition.hold.pausing is not (key in paused):
                        partition.hold.ask_pause(key in paused)
                        self.lane.changed.add(partition)
                        if partition.hold.pausing and partition.hold.phase is Phase.COPYING:
                            self.forget(partition)
                            self.lane.pause(partition)
            specs = self._control.partitions()
            if specs is not self._specs and specs != self._specs:
                self._specs = specs
                self._take(specs)
            now = time.monotonic()
            if now >= self._report_at():
                self._leave()
                self._retry(now)
                self._ends.mark_silent(now)
                self.lane.changed.update((*self.lane.held.look(now), *self.lane.unread.look(now)))
                self._report()
            noticed = self.lane.changed.noticed
            noticed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._report_at() - now):
                    await noticed.wait()
        await _cancel(self._readers)
        self.lane.stopping = self.lane.closing = True
        self.lane.progress.set()

    def _report_at(self) -> float:
        lane = self.lane
        every = report_pause(len(lane.changed), len(lane.partitions))
        return self._reported + (every if lane.changed else max(every, QUIET_REPORT_EVERY))

    def _wake(self) -> None:
        """Called on any thread, perhaps after the lane's end."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.lane.changed.noticed.set)

    def _take(self, specs: Iterable[PartitionSpec]) -> None:
        """Partitions that the lane was given or lost. A partition with a new spec (a recreated topic) leaves and joins
        again. What is acknowledged of a leaving one is still committed; what is only fetched is dropped."""
        lane = self.lane
        wanted = {(spec.topic, spec.partition): spec for spec in specs}
        for key, partition in lane.partitions.items():
            if wanted.get(key) != partition.spec:
                self.forget(partition)
                lane.drop_unsent(partition)
                lane.changed.add(partition)
                partition.hold.leave()
        self._leave()
        for key, spec in wanted.items():
            if key not in lane.partitions:
                self._join(spec)

    def _join(self, spec: PartitionSpec) -> None:
        """Counters and runs of the offset map outlive the session, so a partition that comes back goes on counting. One
        that copying stopped starts as STOPPED with its condition, and is tried again after its pause."""
        key = (spec.topic, spec.partition)
        copied = self.lane.copied.setdefault(key, Copied())
        figures = self.lane.counts.partitions.setdefault(key, PartitionFigures())
        figures.begin()
        partition = Partition(spec, copied, figures, worker_of(self.lane.spec, spec))
        partition.hold.ask_pause(partition.source in self._paused)
        self.lane.partitions[partition.source] = partition
        self.lane.changed.add(partition)
        condition = self._held.pop(partition.source, None)
        if condition is None:
            self.lane.delivery.begin(partition)
        else:
            self.lane.stop(partition, condition, at=UNKNOWN)

    def _leave(self) -> None:
        """Those that left go once what they had in the open transaction is decided; changed ones then join again."""
        lane = self.lane
        leaving = [p for p in lane.partitions.values() if p.hold.phase is Phase.LEAVING]
        specs = {(s.topic, s.partition): s for s in self._specs or ()} if leaving else {}
        for partition in leaving:
            if lane.at_rest(partition):
                del lane.partitions[partition.source]
                lane.changed.add(partition)
                if partition.source in specs:
                    self._join(specs[partition.source])

    def _retry(self, now: float) -> None:
        """A stopped or resumed partition is checked again from its committed position, which a seek may have moved;
        a paused one for its end."""
        lane = self.lane
        for partition in lane.partitions.values():
            if partition.hold.phase is Phase.PAUSED and partition.hold.pausing:
                if now >= partition.hold.recheck_at:
                    self.lane.delivery.begin(partition)
                continue
            resumed = partition.hold.phase is Phase.PAUSED
            stopped = partition.hold.phase is Phase.STOPPED and now >= partition.hold.retry_at
            if (resumed or stopped) and lane.at_rest(partition):
                self.begin_again(partition)

    def begin_again(self, partition: Partition) -> None:
        self.forget(partition)
        partition.log.unread()
        self.lane.delivery.begin(partition)

    # reports

    def progress(self) -> LaneProgress:
        return self._reports.progress()

    def _report(self) -> None:
        self._reported = time.monotonic()
        self._deliver_report(self.progress())


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
