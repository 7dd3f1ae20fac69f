"""One session of a lane: from fencing to the last commit, or to the error that ends it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Iterable, Set
from typing import Any

from reconciler.kafka.client.cluster import NO_ID, Key
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError, PartitionsDeniedError
from reconciler_mirror.conditions.lane import unavailable
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.fetch.fetcher import Fetchers
from reconciler_mirror.lane.offset_map_writer import MapWriter
from reconciler_mirror.lane.partition import UNKNOWN, Partition, PartitionFigures, Phase
from reconciler_mirror.lane.positions import RENEW_AFTER_HOURS
from reconciler_mirror.lane.produce.outbox import BatchSizes
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
"""Seconds for the last commit. The next holder copies again whatever is not committed by then."""


class LaneSession:
    """Owns the tasks, and decides which broker serves a partition. ``held``: conditions of the partitions that an
    earlier session stopped. ``report`` gets this session's progress."""

    def __init__(
        self, lane: Lane, control: Control, held: dict[Key, Condition], report: Callable[[LaneProgress], None]
    ) -> None:
        self.lane = lane
        lane.routes = self
        self._control = control
        self._held = held
        self._deliver_report = report
        # ``_senders``: by target broker. ``_readers`` end before the last commit, ``_tasks`` after it.
        self._senders: dict[int, Sender] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._fetchers = Fetchers(lane, lambda work: self._spawn(work, self._readers))
        self._tasks: set[asyncio.Task[None]] = set()
        self._map = MapWriter(lane)
        self._reports = ProgressReports(lane)
        self._ends = SourceEnds(lane)
        # Before KIP-890 (transaction version 2) a leader takes batches only of partitions that AddPartitionsToTxn has
        # added. Partitions that are announced within one turn of the event loop share a request.
        self._announced: set[Partition] = set()
        self._announce = asyncio.Event()
        # Target topics with an unknown leader; one metadata request serves all partitions that fail at once.
        self._moved: set[str] = set()
        self._refresh = asyncio.Event()
        # The control's last answers, to notice changes; None before the first one.
        self._specs: tuple[PartitionSpec, ...] | None = None
        self._paused: frozenset[Key] = frozenset()
        # Paused partitions with a position to read and write again.
        self._to_renew: set[Partition] = set()
        self._reported = 0.0
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Returns after the last commit, once the control ends the lane. Raises the error that ended it otherwise."""
        lane = self.lane
        # Tasks that read end before the last commit, so that no new batch joins the transaction.
        for work in (*lane.delivery.work(), self._follow_target(), self._add_to_transaction(), self._map.run()):
            self._spawn(work, self._tasks)
        for work in (*lane.delivery.reads(), self._metadata_now_and_then(), self._ends.run()):
            self._spawn(work, self._readers)
        last = self._spawn(lane.delivery.commit(), self._tasks)
        look = self._spawn(self._follow_control(), self._tasks)
        # A failure ends the session at once, without a commit. Otherwise ``look`` returns when the lane has to end, and
        # the last commit gets ``LEAVE_WITHIN``.
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
            # Pieces hold receive buffers, and the buffer pools outlive the session.
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
        """Fetches from the follower that the leader preferred (KIP-392) until that preference expires, else from the
        leader. A partition without a leader goes back to the start, which reports a lasting absence."""
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
        """Offers the partition to the sender of its leader's broker. If it had no leader when the session looked for
        hanging transactions, the session begins again: a write before that check could follow a hanging transaction."""
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
        """``moved``: the leader did not answer, so the next try needs new metadata. After ``delivery_timeout`` without
        any answer the partition stops: alone if it has no batch in flight, else with a new session, because the broker
        may still write an unanswered batch and only aborting the transaction makes that harmless."""
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
        """Adds announced partitions in one AddPartitionsToTxn request (transaction version 2, KIP-890, adds them with
        Produce). ``boundary`` keeps the request out of a commit: a partition added after EndTxn would be in no
        transaction."""
        while True:
            await self._announce.wait()
            self._announce.clear()
            async with self.lane.boundary:
                taken, self._announced = self._announced, set()
                await self._add(taken)
            for partition in taken & self.lane.added:
                self.offer(partition)

    async def _add(self, partitions: Set[Partition]) -> None:
        """Asks the coordinator. It adds none of a request's partitions if the principal may not write to one of them:
        then those stop, and it is asked for the others alone."""
        while partitions:
            try:
                await self.lane.identity.add_partitions(partition.target for partition in partitions)
            except PartitionsDeniedError as error:
                partitions = partitions - self.lane.deny(partitions, error)
            else:
                self.lane.added |= partitions
                return

    async def _follow_target(self) -> None:
        """Refreshes metadata of moved topics, at most once in half a retry pause; the next offer repeats a failure."""
        while True:
            await self._refresh.wait()
            self._refresh.clear()
            topics, self._moved = self._moved, set()
            with contextlib.suppress(ConnectionLostError, BrokerError):
                await self.lane.target.refresh(topics)
            await asyncio.sleep(RETRY_PAUSE / 2)

    async def _metadata_now_and_then(self) -> None:
        """Notices leaders that moved while nothing was sent, and topics recreated under the same name. Once a day it
        commits all positions again, because brokers delete group offsets after ``offsets.retention.minutes``. The
        start does that for paused partitions: a seek may have moved their positions."""
        lane, renew_at = self.lane, time.monotonic() + RENEW_EVERY
        while True:
            await asyncio.sleep(METADATA_EVERY)
            if time.monotonic() > renew_at:
                renew_at = time.monotonic() + RENEW_EVERY
                for partition in lane.partitions.values():
                    if partition.hold.phase is Phase.COPYING and partition.outbox.idle:
                        lane.mark_dirty(partition)
                self._to_renew = {p for p in lane.partitions.values() if p.hold.pausing}
            with contextlib.suppress(ConnectionLostError, BrokerError):
                await lane.source.refresh({p.spec.topic for p in lane.partitions.values()})
                await lane.target.refresh({p.spec.target_topic for p in lane.partitions.values()})
            for partition in lane.partitions.values():
                remote = lane.target.topics.get(partition.spec.target_topic)
                before, now = partition.copied.of[1], NO_ID if remote is None else remote.topic_id
                if partition.hold.phase is Phase.COPYING and NO_ID not in (before, now) and before != now:
                    # The deletion took the positions along: the next session finds none, and begins at ``start``.
                    raise RestartError(f"{partition.spec.target_topic} was deleted and recreated")
                known = lane.source.topics.get(partition.spec.topic)
                stale = known is None or known.topic_id != partition.log.topic_id
                if partition.hold.phase is Phase.COPYING and stale:
                    self.recheck(partition, "the source topic changed")

    async def _follow_control(self) -> None:
        """Follows the control; returns when the lane should end, after the readers are gone.

        Sleeps until the control or a partition has news; changes by time alone are seen once a second.
        """
        self._control.watch(self._wake)
        while not (self._control.stopping() or self._control.lease_over()):
            # An unchanged control returns the same objects, which saves comparing thousands of names at each turn.
            # Pauses come before new partitions: ``_join`` asks for them, so that no paused partition is ever fetched.
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
        """Runs on any thread, perhaps after the event loop has closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.lane.changed.noticed.set)

    def _take(self, specs: Iterable[PartitionSpec]) -> None:
        """Adds and removes partitions. A partition with a new spec (a recreated topic) leaves and joins again. Leaving
        drops the unsent pieces; acknowledged ones are still committed."""
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
        """Counters and offset map runs outlive the session, so a returning partition keeps them. A partition that
        copying stopped before joins as STOPPED with its condition, and is tried again after its pause."""
        key = (spec.topic, spec.partition)
        copied = self.lane.copied.setdefault(key, Copied())
        figures = self.lane.counts.partitions.setdefault(key, PartitionFigures())
        figures.begin()
        lane = self.lane.spec
        partition = Partition(spec, copied, figures, worker_of(lane, spec), lane.target.uncompressed)
        if most := lane.target.request_bytes:
            partition.sizes = BatchSizes(most, most)
        partition.hold.ask_pause(partition.source in self._paused)
        self.lane.partitions[partition.source] = partition
        self.lane.changed.add(partition)
        # Stopped for one pause more: to try again at once in each new session would end it for the healthy partitions
        # each time.
        condition = self._held.pop(partition.source, None)
        if condition is None:
            self.lane.delivery.begin(partition)
        else:
            self.lane.stop(partition, condition, at=UNKNOWN)

    def _leave(self) -> None:
        """Removes LEAVING partitions once no open transaction holds their batches; changed ones then join again."""
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
        """Starts a stopped or resumed partition again, from the committed position, which a seek may have moved; asks
        for a paused partition's end."""
        lane = self.lane
        for partition in lane.partitions.values():
            if partition.hold.phase is Phase.PAUSED and partition.hold.pausing:
                if partition in self._to_renew and lane.at_rest(partition):
                    self._to_renew.discard(partition)
                    self.begin_again(partition)
                elif now >= partition.hold.recheck_at:
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
