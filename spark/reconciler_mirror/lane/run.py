"""The batch path: a lane copied in whole record batches, never decompressed where that can be avoided.

Fence, read the positions at the target, fetch, patch headers, produce and commit. Whatever goes wrong in between begins
again there: nothing counts before its transaction is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from mirror import logs, positions
from mirror.awaiting import LOOK_S, leaving
from mirror.batch_commit import END
from mirror.batch_lane import Lane, RestartError
from mirror.batch_partition import Tuning
from mirror.batch_prepare import prepare
from mirror.batch_refusals import unreachable
from mirror.batch_session import Session
from mirror.connecting import cluster_of, setting_refused
from mirror.copied import Copied
from mirror.faults import SupersededError, lane_failed
from mirror.lanes import (
    AWAITED,
    Condition,
    Control,
    LaneEnd,
    LaneProgress,
    LaneReport,
    LaneSpec,
    PartitionProgress,
    counted,
)
from mirror.latency import NO_LATENCY
from mirror.throttle import Throttle
from wire.cluster import Cluster, Key
from wire.endings import Endings
from wire.errors import (
    TRANSACTION_TIMEOUT_REFUSED,
    AuthenticationFailedError,
    BrokerError,
    ConnectionLostError,
    FencedError,
    MalformedResponseError,
    SettingError,
    UnsupportedBrokerError,
)
from wire.hanging import HangingTransactionError, settle
from wire.transactions import Identity

PAUSE_FIRST, PAUSE_LAST = 0.2, 5.0
# Of a transaction that somebody ended or replaced, perhaps: whoever begins again then learns which. A broker that is
# fencing in the middle of an EndTxn may answer UNKNOWN_SERVER_ERROR.
_BEGIN_AGAIN = frozenset({-1, 45, 48, 49, 59, 120})
WORKED_BYTES = 2 << 20  # a fetch whose records are opened must not hold up acknowledgements for long
_log = logs.logger("batch path")
T = TypeVar("T")


def batch_path(lane: LaneSpec, control: Control) -> LaneReport:
    """A ``CopyPath``."""
    tuning = Tuning(fetch_bytes=WORKED_BYTES, fetch_bytes_far=2 * WORKED_BYTES) if lane.work else Tuning()
    return asyncio.run(Attempts(lane, control, tuning).run())


class Attempts:
    """Sessions one after the other, until the control or a later owner ends the lane."""

    def __init__(self, spec: LaneSpec, control: Control, tuning: Tuning) -> None:
        self._spec = spec
        self._control = control
        self._tuning = tuning
        self._identity: Identity | None = None
        self._former: Identity | None = None
        self._held: dict[Key, Condition] = {}
        self._copied: dict[Key, Copied] = {}
        self._counts: dict[Key, PartitionProgress] = {}
        self._transactions = 0
        self._retries = 0
        self._endings = Endings()
        self._unseen: frozenset[Key] = frozenset()
        self._latency = NO_LATENCY
        self._throttle = Throttle(control.rate)
        self._progress = LaneProgress(spec.flow, spec.lane, (), path="batch")

    async def run(self) -> LaneReport:
        clusters: list[Cluster] = []
        try:
            clusters += [cluster_of(self._spec.source), cluster_of(self._spec.target)]
            if self._spec.claim == AWAITED and not await self._claimed(clusters[0], clusters[1]):
                return LaneReport(self._end(), self._progress)
            return await self._sessions(clusters[0], clusters[1])
        except SupersededError as error:
            return LaneReport(LaneEnd.SUPERSEDED, self._progress, str(error))
        except LookupError as error:  # a secret reference
            return self._failed("secret_missing", str(error))
        except HangingTransactionError as error:
            return self._failed("hanging_transaction", str(error))
        except SettingError as error:
            return self._ended(setting_refused(self._spec.flow, error), str(error))
        except UnsupportedBrokerError as error:
            return self._failed("lane_failed", str(error))
        except AuthenticationFailedError as error:
            return self._failed("authentication_failed", str(error))
        except BrokerError as error:
            if error.code == TRANSACTION_TIMEOUT_REFUSED:
                return self._failed("transaction_timeout_refused", str(error))
            return self._failed("permission_denied" if error.code in (29, 30, 31, 53) else "lane_failed", str(error))
        finally:
            for cluster in clusters:
                cluster.close()

    async def _claimed(self, source: Cluster, target: Cluster) -> bool:
        """Gets all ready that can be without disturbing who copies now. False when the control ended the lane."""
        self._identity = self._new_identity(target)
        preparing = asyncio.ensure_future(prepare(self._control.partitions(), source, target, self._identity))
        told = False
        try:
            while (claim := self._control.claim()) == AWAITED:
                if leaving(self._control):
                    return False
                if preparing.done() and not told:
                    told = self._tell_prepared(preparing)
                await asyncio.sleep(LOOK_S)
        finally:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
        self._spec = replace(self._spec, claim=claim)
        return True

    def _tell_prepared(self, preparing: asyncio.Task[None]) -> bool:
        """What failed for good (a setting, a right) raises here as it would in a session."""
        preparing.result()
        self._control.prepared()
        return True

    def _end(self) -> LaneEnd:
        return LaneEnd.STOPPED if self._control.stopping() else LaneEnd.LEASE_OVER

    def _new_identity(self, target: Cluster) -> Identity:
        transactional_id = self._spec.transactional_id if self._spec.delivery == "exactly_once" else None
        return Identity(target, transactional_id, self._spec.group, endings=self._endings)

    async def _begin(self, identity: Identity, target: Cluster) -> None:
        """Fences whoever was there before, but nobody who came after this lane first began; puts right what a broker
        forgot of an earlier transaction."""
        await identity.start(self._former)
        self._former = identity
        if identity.transactional:
            keys = {(spec.target_topic, spec.partition) for spec in self._control.partitions()}
            await target.refresh({topic for topic, _ in keys})
            self._unseen = await settle(identity, target, keys)

    async def _sessions(self, source: Cluster, target: Cluster) -> LaneReport:
        pause = PAUSE_FIRST
        while True:
            before = self._transactions
            try:
                identity, self._identity = self._identity or self._new_identity(target), None
                if await self._unless_leaving(self._begin(identity, target)):
                    lane = Lane(self._spec, (source, target), identity, self._tuning)
                    lane.unseen = self._unseen
                    await self._session(lane)
                return LaneReport(self._end(), self._progress)
            except FencedError as error:
                return await self._fenced(target, error)
            except (RestartError, ConnectionLostError, MalformedResponseError) as error:
                why = str(error)
                if isinstance(error, RestartError) and error.hold is not None:
                    self._held[error.hold[0]] = error.hold[1]
            except BrokerError as error:
                if not error.retriable and error.code not in _BEGIN_AGAIN:
                    raise
                why = str(error)
            _log.warning("begins again", flow=self._spec.flow, lane=self._spec.lane, why=why)
            self._retries += 1
            pause = PAUSE_FIRST if self._transactions > before else min(PAUSE_LAST, pause * 2)
            self._control.report(replace(self._progress, conditions=(unreachable(self._spec, "target", why),)))
            if not await self._unless_leaving(asyncio.sleep(pause)):
                return LaneReport(self._end(), self._progress)

    async def _session(self, lane: Lane) -> None:
        lane.copied = self._copied
        lane.throttle = self._throttle
        session = Session(lane, _Counting(self._control, self), self._held)
        try:
            await session.run()
        finally:
            self._progress = self._total(session.progress())
            self._transactions, self._latency = self._progress.transactions, self._progress.latency
            self._counts = counted(self._progress.partitions)

    def total(self, progress: LaneProgress) -> LaneProgress:
        self._progress = self._total(progress)
        return self._progress

    def _total(self, progress: LaneProgress) -> LaneProgress:
        """With what earlier sessions of this call copied."""
        return replace(
            progress,
            partitions=tuple(self._added(p) for p in progress.partitions) if self._counts else progress.partitions,
            transactions=progress.transactions + self._transactions,
            retries=self._retries,
            latency=progress.latency.plus(self._latency),
            throttled_ms=int(self._throttle.waited_s * 1000),
        )

    def _added(self, now: PartitionProgress) -> PartitionProgress:
        before = self._counts.get((now.topic, now.partition))
        return now if before is None else now.plus(before)

    async def _unless_leaving(self, work: Awaitable[T]) -> bool:
        """False when the control ended the lane before ``work`` was done."""
        task = asyncio.ensure_future(work)
        while not task.done():
            if leaving(self._control):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return False
            await asyncio.wait({task}, timeout=0.2)
        task.result()
        return True

    async def _fenced(self, target: Cluster, error: FencedError) -> LaneReport:
        """Who fenced us? A later application writes its claim into the positions moments after it fences."""
        keys = [(spec.target_topic, spec.partition) for spec in self._control.partitions()]
        for _ in range(25):
            try:
                found = await target.positions(self._spec.group, keys)
            except (ConnectionLostError, BrokerError):
                found = {}
            if any(positions.decode(p.offset, p.metadata.rstrip(END)).claim > self._spec.claim for p in found.values()):
                return LaneReport(LaneEnd.SUPERSEDED, self._progress, "another application has taken the flow")
            await asyncio.sleep(0.2)
        text = f"fenced, but no later application owns the flow: {error}"
        return LaneReport(LaneEnd.FAILED, self._progress, text)

    def _failed(self, code: str, text: str) -> LaneReport:
        return self._ended(lane_failed(self._spec, code, text), text)

    def _ended(self, condition: Condition, text: str) -> LaneReport:
        told = replace(self._progress, conditions=(*self._progress.conditions, condition))
        return LaneReport(LaneEnd.FAILED, told, text)


class _Counting:
    """The control as a session sees it: reports count from the beginning of the call."""

    def __init__(self, control: Control, attempts: Attempts) -> None:
        self._attempts = attempts
        self._control = control
        self.stopping = control.stopping
        self.lease_over = control.lease_over
        self.partitions = control.partitions
        self.claim = control.claim
        self.prepared = control.prepared
        self.paused = control.paused
        self.rate = control.rate
        self.watch = control.watch

    def report(self, progress: LaneProgress) -> None:
        self._control.report(self._attempts.total(progress))
