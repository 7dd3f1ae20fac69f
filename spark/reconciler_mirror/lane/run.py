"""Runs a lane: copies whole record batches, session after session (retries, pauses, limits).

A session fences, reads the positions at the target, fetches, patches batch headers, produces and commits. After any
failure a new session begins with the fence, because nothing counts before its transaction is committed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from reconciler.kafka.client import errors
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Key
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.client.hanging_transactions import HangingTransactionError, settle
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.names import ConditionCode
from reconciler.replication.offsets.codec import Ids
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.conditions.flow import setting_refused, waits_for_positions
from reconciler_mirror.conditions.lane import (
    SupersededError,
    fenced_by_stranger,
    group_has_members,
    lane_failed,
    unreachable,
)
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.partition import Tuning
from reconciler_mirror.lane.produce.throttle import Throttle
from reconciler_mirror.lane.same_offsets.delivery import SameOffsetsSessions
from reconciler_mirror.lane.session import LaneSession
from reconciler_mirror.lane.start import REPORT_AFTER
from reconciler_mirror.lane.state import LaneCounts, RestartError
from reconciler_mirror.lane.transactional import Sessions
from reconciler_mirror.model import lane as lanes

PAUSE_FIRST, PAUSE_LAST, POLL_S, PREPARE_PAUSE_S = 0.2, 5.0, 0.01, 1.0
"""Seconds: between sessions after a failure, first and last; between looks at the control; before preparing is tried
again."""
# Another client may have ended or replaced the transaction; a new session finds out which. A broker that fences during
# an EndTxn may answer UNKNOWN_SERVER_ERROR (-1).
_BEGIN_AGAIN = frozenset({-1, 45, 48, 49, 59, 120})
LOADS_WITHIN_S = 60.0  # as of a takeover
_OF_MEMBERS = frozenset({22, 25})  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID
WORKED_BYTES = 2 << 20  # decoding the records of one fetch must not delay acknowledgements for long
_log = logs.logger("batch path")
T = TypeVar("T")


def batch_path(lane: lanes.LaneSpec, control: lanes.Control, counts: LaneCounts | None = None) -> lanes.LaneReport:
    """Fences the lane, reads its positions at the target, copies until the control ends it, commits, returns.
    ``counts``: from earlier attempts of the same lease; None for the first.

    With the claim AWAITED, the lane fences only once ``Control.claim`` has one. Failures become a LaneReport, not an
    exception. Never loses or duplicates a record, whenever the process is killed.
    """
    tuning = Tuning(fetch_bytes=WORKED_BYTES, fetch_bytes_far=2 * WORKED_BYTES) if lane.work else Tuning()
    if lane.target.request_bytes:  # which one batch may fill
        tuning = replace(tuning, request_bytes=1)
    return asyncio.run(Attempt(lane, control, tuning, counts or LaneCounts()).run())


class Attempt:
    """Runs sessions one after the other, until the control or a later owner ends the lane, or the lane fails."""

    def __init__(self, spec: lanes.LaneSpec, control: lanes.Control, tuning: Tuning, counts: LaneCounts) -> None:
        self._spec = spec
        self._control = control
        self._delivering = (SameOffsetsSessions if spec.keeps_offsets else Sessions)(tuning)
        # ``_identity``: prepared for the next session. ``_former``: the identity started last, to tell a fence by this
        # lane itself from one by a later owner. ``_held``: conditions of partitions that copying stopped; they stay
        # stopped in the next session.
        self._identity: Identity | None = None
        self._former: Identity | None = None
        self._held: dict[Key, lanes.Condition] = {}
        self._copied: dict[Key, Copied] = {}
        self._known: dict[Key, tuple[int, Ids]] = {}
        self._counts = counts
        self._throttled_before_s = counts.throttled_s
        self._unseen: frozenset[Key] = frozenset()
        self._throttle = Throttle(control.rate)
        nothing = lanes.LaneProgress(spec.flow, spec.lane, (), at_work=False)
        self._progress = replace(nothing, transactions=counts.transactions, latency=counts.latency.snapshot())
        self._total(self._progress)

    async def run(self) -> lanes.LaneReport:
        """Turns each final failure into a condition with its own code: the driver tries again, and a user sees the
        repair. Transient failures never get here: ``_sessions`` retries them."""
        clusters: list[ClusterClient] = []
        try:
            clusters += [cluster_of(self._spec.source), cluster_of(self._spec.target)]
            if self._spec.claim == lanes.AWAITED and not await self._claimed(clusters[0], clusters[1]):
                return lanes.LaneReport(self._end(), self._progress)
            return await self._sessions(clusters[0], clusters[1])
        except SupersededError as error:
            return lanes.LaneReport(lanes.LaneEnd.SUPERSEDED, self._progress, str(error))
        except LookupError as error:  # an unresolved secret reference
            return self._failed("secret_missing", str(error))
        except HangingTransactionError as error:
            return self._failed("hanging_transaction", str(error))
        except errors.SettingError as error:
            return self._ended(setting_refused(self._spec.flow, error), str(error))
        except (errors.UnsupportedBrokerError, errors.MalformedResponseError) as error:
            return self._failed("lane_failed", str(error))
        except errors.AuthenticationFailedError as error:
            return self._failed("authentication_failed", str(error))
        except errors.BrokerError as error:
            if error.code == errors.TRANSACTION_TIMEOUT_REFUSED:
                return self._failed("transaction_timeout_refused", str(error))
            if error.code in _OF_MEMBERS:
                return self._ended(group_has_members(self._spec, str(error)), str(error))
            return self._failed("permission_denied" if error.code in (29, 30, 31, 53) else "lane_failed", str(error))
        finally:
            for cluster in clusters:
                cluster.close()

    async def _claimed(self, source: ClusterClient, target: ClusterClient) -> bool:
        """Prepares as far as possible without disturbing the present owner, then waits for the claim: that keeps the
        gap of a takeover short (decision 43). False if the control ended the lane."""
        self._identity = self._delivering.identity(self._spec, target)
        wanted = self._control.partitions()

        def report(side: str, why: str) -> None:
            self._control.report(replace(self._progress, conditions=(unreachable(self._spec, side, why),)))

        preparing = asyncio.ensure_future(prepare(wanted, source, target, self._identity, report))
        claimed = False
        try:
            while (claim := self._control.claim()) == lanes.AWAITED:
                if leaving(self._control):
                    return False
                if preparing.done() and not claimed:
                    preparing.result()  # a final failure (setting, permission) raises here as in a session
                    self._control.report(self._progress)
                    self._control.prepared()
                    claimed = True
                await asyncio.sleep(POLL_S)
        finally:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
        self._spec = replace(self._spec, claim=claim)
        return True

    def _end(self) -> lanes.LaneEnd:
        return lanes.LaneEnd.STOPPED if self._control.stopping() else lanes.LaneEnd.LEASE_OVER

    async def _begin(self, identity: Identity, target: ClusterClient) -> None:
        """Fences earlier holders, but none that began after this lane; ends transactions that an earlier holder left
        hanging on a broker."""
        if identity.transactional and self._known:
            await self._loaded(target)
        await identity.start(self._former)
        await self._delivering.started(self._spec, target)
        self._former = identity
        if identity.transactional:
            keys = {(spec.target_topic, spec.partition) for spec in self._control.partitions()}
            await target.refresh({topic for topic, _ in keys})
            self._unseen = await settle(target, keys, identity)

    async def _loaded(self, target: ClusterClient) -> None:
        """Waits until the group's coordinator reports what this lane has committed; at most ``LOADS_WITHIN_S``, since
        commits may be lost for good. A coordinator that still loads its log stops at the first write, which may be a
        marker, and reports old positions from then on, to all of its groups (decision 131)."""
        spec, began, groups = self._spec, time.monotonic(), GroupClient(target)
        remotes = {(p.topic, p.partition): (p.target_topic, p.partition) for p in self._control.partitions()}
        await target.refresh({topic for topic, _ in remotes.values()})
        known = {
            remotes[source]: offset
            for source, (offset, (_, remote_id)) in self._known.items()
            if source in remotes and NO_ID != remote_id == target.topics[remotes[source][0]].topic_id
        }
        while True:
            read = await positions.read_all(groups, spec.group)
            old = [key for key, at in known.items() if key not in read or positions.went_back(read[key], at)]
            waited = time.monotonic() - began
            if not old or waited > LOADS_WITHIN_S:
                return
            if waited > REPORT_AFTER:
                of = (f"lane {spec.lane} of {spec.flow}", spec.target.cluster, spec.group)
                condition = waits_for_positions(*of, len(old), LOADS_WITHIN_S)
                self._control.report(replace(self._progress, conditions=(condition, *self._held.values())))
            await asyncio.sleep(PAUSE_FIRST)

    async def _sessions(self, source: ClusterClient, target: ClusterClient) -> lanes.LaneReport:
        """Runs sessions until the control ends the lane, a later owner fences it, or a final failure is raised."""
        pause = PAUSE_FIRST
        while True:
            before = self._counts.transactions
            try:
                # If an address now leads to another cluster, the session must not copy (decision 289).
                for cluster, cluster_id in zip((source, target), self._spec.claim.clusters, strict=True):
                    cluster.mean(cluster_id)
                identity, self._identity = self._identity or self._delivering.identity(self._spec, target), None
                if await self._unless_leaving(self._begin(identity, target)):
                    lane = self._delivering.lane(self._spec, (source, target), identity)
                    # The throttle outlives a session, or each new one would get a full token bucket. The committed
                    # positions do too: they expose a group coordinator that has lost its own.
                    lane.unseen, lane.throttle = self._unseen, self._throttle
                    lane.copied, lane.known, lane.counts = self._copied, self._known, self._counts
                    session = LaneSession(
                        lane, self._control, self._held, lambda now: self._control.report(self._total(now))
                    )
                    try:
                        await session.run()
                    finally:
                        # A partition that copying stopped joins the next session as stopped: started afresh, it would
                        # fail at the same record, and might end the session for all others again.
                        for partition in lane.partitions.values():
                            if partition.hold.condition is not None and partition.hold.held_at is not None:
                                self._held[partition.source] = partition.hold.condition
                        self._total(session.progress())
                return lanes.LaneReport(self._end(), self._progress)
            except errors.FencedError as error:
                return await self._fenced(target, error)
            except (RestartError, errors.ConnectionLostError, errors.MalformedResponseError) as error:
                why = str(error)
                if isinstance(error, RestartError) and error.hold is not None:
                    self._held[error.hold[0]] = error.hold[1]
            except errors.BrokerError as error:
                if not error.retriable and error.code not in _BEGIN_AGAIN:
                    raise
                why = str(error)
            _log.warning("begins again", flow=self._spec.flow, lane=self._spec.lane, why=why)
            self._counts.retries += 1
            # A session that committed had begun well, so its failure is no reason for a longer pause.
            pause = PAUSE_FIRST if self._counts.transactions > before else min(PAUSE_LAST, pause * 2)
            conditions = (unreachable(self._spec, "target", why), *self._held.values())
            self._control.report(replace(self._progress, conditions=conditions, at_work=False))
            if not await self._unless_leaving(asyncio.sleep(pause)):
                return lanes.LaneReport(self._end(), self._progress)

    def _total(self, progress: lanes.LaneProgress) -> lanes.LaneProgress:
        """Adds retries and the time in which the rate limit held the lane back, which no session knows."""
        counts = self._counts
        counts.throttled_s = self._throttled_before_s + self._throttle.waited_s
        self._progress = replace(progress, retries=counts.retries, throttled_ms=int(counts.throttled_s * 1000))
        return self._progress

    async def _unless_leaving(self, work: Awaitable[T]) -> bool:
        """False if the control ended the lane before ``work`` was done."""
        task = asyncio.ensure_future(work)
        while not task.done():
            if leaving(self._control):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                return False
            await asyncio.wait({task}, timeout=0.2)
        task.result()
        return True

    async def _fenced(self, target: ClusterClient, error: errors.FencedError) -> lanes.LaneReport:
        """Finds out who fenced this lane: a later application writes its claim into the positions within moments."""
        keys = [(spec.target_topic, spec.partition) for spec in self._control.partitions()]
        for _ in range(25):
            try:
                committed_positions = await target.positions(self._spec.group, keys)
            except (errors.ConnectionLostError, errors.BrokerError):
                committed_positions = {}
            if (later := positions.superseding(committed_positions, self._spec.claim)) is not None:
                return lanes.LaneReport(
                    lanes.LaneEnd.SUPERSEDED, self._progress, str(SupersededError(self._spec.flow, later))
                )
            await asyncio.sleep(0.2)
        condition = fenced_by_stranger(self._spec, str(error))
        return self._ended(condition, condition.text)

    def _failed(self, code: ConditionCode, text: str) -> lanes.LaneReport:
        return self._ended(lane_failed(self._spec, code, text), text)

    def _ended(self, condition: lanes.Condition, text: str) -> lanes.LaneReport:
        lane_progress = replace(self._progress, conditions=(*self._progress.conditions, condition), at_work=False)
        return lanes.LaneReport(lanes.LaneEnd.FAILED, lane_progress, text)


def leaving(control: lanes.Control) -> bool:
    return control.stopping() or control.lease_over()


async def prepare(
    partitions: Iterable[lanes.PartitionSpec],
    source: ClusterClient,
    target: ClusterClient,
    identity: Identity,
    trouble: Callable[[str, str], None],
) -> None:
    """Warms a lane up before it may copy: returns once it has leaders, coordinators and connections. Retries transient
    failures, and reports their side and reason to ``trouble``; raises final ones."""
    taken = tuple(partitions)

    async def ready_source() -> None:
        await source.refresh({spec.topic for spec in taken})
        nodes = source.by_leader((spec.topic, spec.partition) for spec in taken)
        await _connect(source, nodes, ("fetch", "control"))

    async def ready_target() -> None:
        await target.refresh({spec.target_topic for spec in taken})
        nodes = target.by_leader((spec.target_topic, spec.partition) for spec in taken)
        await identity.prepare()
        await _connect(target, nodes, ("produce",))

    await asyncio.gather(
        _until_done(ready_source, partial(trouble, "source")), _until_done(ready_target, partial(trouble, "target"))
    )


async def _until_done(work: Callable[[], Coroutine[Any, Any, None]], trouble: Callable[[str], None]) -> None:
    """Retries ``work`` after transient failures, and reports them; raises final ones."""
    while True:
        try:
            await work()
            return
        except errors.ConnectionLostError as error:
            trouble(str(error))
        except errors.BrokerError as error:
            if not error.retriable:
                raise
            trouble(str(error))
        await asyncio.sleep(PREPARE_PAUSE_S)


async def _connect(cluster: ClusterClient, nodes: Iterable[int], purposes: tuple[str, ...]) -> None:
    await asyncio.gather(
        *(cluster.connection(node, description) for node in nodes if node >= 0 for description in purposes)
    )
