"""Takes a flow over from an earlier application: claims its positions and fences its transactional ids.

Before anybody is disturbed, positions say whether the flow is this environment's. For an exactly-once flow, in this
order, so that no lane of an earlier application can commit behind our back, however
many lanes it had and whatever it was doing (a stopped process that wakes up later included):

1. Take the transactional.id of lane 0 and write our claim into all positions, as a transaction that stays open. From
   now on no lane can read a position of the flow, since lanes only read stable ones. Ours are read that way too,
   just before: no later answer may have fewer.
2. Fence every other transactional.id the flow can ever have had. A lane that held one can no longer commit; one that
   takes it again afterwards has to wait for the positions, and then finds our claim and leaves.
3. Read the positions once more; what was committed between 1 and 2 goes into the transaction. End it.

The claim makes no position ours: one that another client committed gets it without a proof, and its lane stops it. Such
a one is no proof either that the flow has run before.

An at-least-once lane looks for a later claim before each commit instead. The very first time (no positions at all), and
if the flow starts at latest or a timestamp, the start of every partition is resolved and all are committed in the same
transaction. Whatever has no position after this appeared later and is copied from its beginning. Explicit offsets are
the lanes' own: they hold for any such partition without a position.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from reconciler.kafka.client.cluster import Key, parsed_id
from reconciler.kafka.client.errors import UNKNOWN_TOPIC, UNSTABLE, BrokerError, WireError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.client.hanging_transactions import settle
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.handover import AGAIN, MOST_LANES, FlowSettings
from reconciler.replication.names import position_group, transactional_id
from reconciler.replication.offsets.codec import Ids
from reconciler.replication.offsets.map_topic import copied_before, last_committed
from reconciler.replication.offsets.position_metadata import NO_OWNER, Owner, PositionMark, stranger, ways_on, whose
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.driver import provenance_start as provenance_ground
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.first_start import copied_by_others
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.model.lane import NO_CLAIM, Claim, Condition, PartitionSpec, work_of

T = TypeVar("T")
_CONNECTIONS = 4
"""A broker fences one id a connection at a time."""
_APPLIED_S = 0.1
"""A group coordinator of old applies a decided commit a moment after the transaction counts as complete."""
OLD_WITHIN_S, _LOOK_AGAIN_S = 60.0, 0.2
"""So long a coordinator that answers with older positions is asked again. Then theirs are left as they are. It may
still be reading its log, and a commit would end that. So the other partitions wait, too: their positions are in the
same group, and their first commit would be the one after which the missing ones are never read (decision 131)."""
_DECIDED_WITHIN_S = 2.0
"""So long commits that are under way are waited for. A lane that hangs holds its own until it is fenced."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """``started`` counts the partitions whose start was resolved now; None when the flow has run before."""

    claim: Claim
    started: int | None


class WireTakeover:
    """Owned by one thread. Its connections stay open between ``prepare`` and ``take``.

    ``prepare`` disturbs no lane; after it ``take`` is quick. Both may be called again after they have raised WireError
    or LookupError (a secret reference); ``take`` also raises NotReadyError while provenance waits for another flow,
    and where the flow is another environment's.
    """

    def __init__(
        self,
        flow: FlowSettings,
        waits: Callable[[int], None] = lambda _: None,
        *,
        environment: str = "",
        moved_from: Collection[str] = (),
    ) -> None:
        """``waits`` is called once positions are asked for again because so many are older than known, or missing.
        ``environment``: whose flow it is; ``moved_from``: names that it had. Without one no owner is asked for."""
        self._flow = flow
        self._waits = waits
        self._environment = environment
        self._moved_from = moved_from
        self._loop = asyncio.new_event_loop()
        self._open: _Open | None = None

    def prepare(self) -> None:
        self._run(_Open.prepare)

    def take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        """``specs``: all partitions the flow mirrors now."""
        return self._run(lambda opened: opened.take(application, specs))

    def close(self) -> None:
        self._let_go()
        self._loop.close()

    def _run(self, work: Callable[[_Open], Awaitable[T]]) -> T:
        """On the same connections until something fails."""
        opened = self._open = self._open or _Open(self._flow, self._waits, self._environment, self._moved_from)
        try:
            self._loop.run_until_complete(opened.prepare())
            return self._loop.run_until_complete(work(opened))
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._open is None:
            return
        self._open.cluster.close()
        self._open = None
        # Where one identity was refused, the others still ask: of a closed loop they could not even end.
        if left := asyncio.all_tasks(self._loop):
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


class _Open:
    """The target with one identity for each transactional.id."""

    def __init__(
        self,
        flow: FlowSettings,
        waits: Callable[[int], None],
        environment: str = "",
        moved_from: Collection[str] = (),
    ) -> None:
        self.flow = flow
        self.waits = waits
        self.owner = Owner(environment) if environment else NO_OWNER
        self.moved_from = moved_from
        self.group = position_group(flow.state_name)
        self.cluster = cluster_of(flow.target)
        self.groups = GroupClient(self.cluster)
        once = flow.delivery == "exactly_once"
        # Lane 0 fences first and writes the claim; the others follow at once over few connections, since a broker
        # answers requests of one connection one after the other. An at-least-once flow has no transactional ids to
        # fence.
        self.first = Identity(self.cluster, transactional_id(flow.state_name, 0) if once else None, self.group)
        self.others = [
            Identity(self.cluster, transactional_id(flow.state_name, lane), self.group, f"fence {lane % _CONNECTIONS}")
            for lane in range(1, MOST_LANES if once else 1)
        ]
        self._prepared = False
        # What a coordinator that has just started must at least return (read from the offset map), what it returned
        # before the fence, and until when older answers are asked for again.
        self._least: Mapping[Key, int] = {}
        self._decided: Mapping[Key, LanePosition] = {}
        self._until = 0.0

    async def prepare(self) -> None:
        """The coordinators are looked up again by the request that finds that they moved."""
        if not self._prepared:
            await asyncio.gather(self.first.prepare(), *(other.prepare() for other in self.others))
            await self.groups.offsets([self.group])
            if self.owner.environment:
                with suppress(WireError), closing(cluster_of(self.flow.source)) as source:
                    self.owner = replace(self.owner, source=await provenance_ground.cluster_id(source))
            self._prepared = True

    async def take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        """The order is what keeps records single: nothing of a former application may commit once its positions were
        read, and no lane begins before every position has our claim."""
        mine = {(spec.target_topic, spec.partition) for spec in specs}
        await self._require_ours(specs)
        self._least, self._decided = await self._committed(specs), {}
        self._until = time.monotonic() + OLD_WITHIN_S
        if self.first.transactional:
            claim, lane_positions = await self._claim_and_fence(application, mine)
        else:
            self._decided = await self._stable()
            lane_positions = await self._positions()
            claim = self._above(self._known(lane_positions), application)
        # Outside of transactions the claim is only written beside positions that have to be written anyway: without a
        # fence, a former lane may be committing the same ones just now.
        changed = {
            **(_of(lane_positions, mine) if self.first.transactional else {}),
            **(await provenance_ground.marks(self.cluster, lane_positions) if self.flow.provenance is not None else {}),
        }
        # An old position, written with our claim, would become the true one, and its records would be copied twice. It
        # is left as it is, and its lane stops with it.
        old = self._old(lane_positions)
        changed = {key: position for key, position in changed.items() if key not in old}
        await self._claim(claim, changed)
        # Claims, and marks of provenance, count all together from here on.
        if changed and self.first.transactional:
            await self.first.end(committed=True)
        if self.flow.provenance is not None:
            claim = replace(claim, ground=await provenance_ground.resolve(self.flow, self.cluster))

        claim = replace(claim, clusters=(self.owner.source, self.cluster.cluster_id))
        # Where another client has written over all positions, the offset map remembers that it has run.
        known = self._known(lane_positions)
        if any(at.proved for at in known) or (known and self._least):
            return Takeover(claim, None)
        fresh = [spec for spec in specs if (spec.target_topic, spec.partition) not in lane_positions]
        return Takeover(claim, await self._begin(claim, fresh))

    async def _claim_and_fence(self, application: str, mine: Collection[Key]) -> tuple[Claim, dict[Key, LanePosition]]:
        """Steps 1 and 2, and the positions, which no other lane can change any more."""
        await self.first.start()
        keys = {*mine, *await self._positions()}
        await self.cluster.refresh({topic for topic, _ in keys})
        # A transaction whose coordinator forgot it would keep its partitions undecided for good; it is ended before
        # positions are read as decided ones.
        await settle(self.cluster, keys, self.first)
        self._decided = await self._stable()
        lane_positions = await self._positions()
        while True:
            # Written while only the first lane is fenced, so that the others, which are fenced next, find a later claim
            # instead of a stranger's fence. What they committed in between is read again.
            claim, old = self._above(self._known(lane_positions), application), self._old(lane_positions)
            await self._claim(claim, _of(lane_positions, {*mine} - old))
            before, lane_positions = lane_positions, await self._fence_others(keys)
            if self._old(lane_positions) - old:
                raise BrokerError(UNSTABLE, f"group {self.group} on {self.flow.target.cluster} tells old positions")
            if before or not lane_positions:
                return self._above(self._known(lane_positions), application), lane_positions

    async def _require_ours(self, specs: Sequence[PartitionSpec]) -> None:
        """Raises NotReadyError where another environment has begun the flow: its lanes would be fenced, and their
        partitions left alone, since their positions are not of our source."""
        if not self.owner.environment:
            return
        lane_positions = await positions.read_all(self.groups, self.group)
        by = {
            key: PositionMark(at.claim.owner, at.topic_id, at.claim.application, at.hour)
            for key, at in lane_positions.items()
        }
        ids = {(spec.target_topic, spec.partition): spec.topic_id for spec in specs}
        if (foreign := stranger(self.owner, self.moved_from, by, ids)) is not None:
            text = (
                f"{self.flow.name} is not copied: {whose(self.group, self.flow.target.cluster, self.owner, *foreign)}"
            )
            todo = ways_on(self.flow.name, self.group, self.owner, foreign[1])
            raise provenance_ground.NotReadyError(Condition("flow_not_ours", text, todo, stops=True))

    def _above(self, known: Sequence[LanePosition], application: str) -> Claim:
        """Who committed a position without ours removed the claim beside it; one made of the time is above
        it."""
        lost = any(not at.proved and at.claim == NO_CLAIM for at in known)
        number = 1 + max((int(time.time()) if lost else 0, *(at.claim.number for at in known)))
        return Claim(number, application, owner=self.owner)

    async def _fence_others(self, keys: Collection[Key]) -> dict[Key, LanePosition]:
        """Once all are fenced, what they had under way is decided. Returns the positions as of then."""
        await asyncio.gather(*(other.start() for other in self.others))
        await settle(self.cluster, keys, *self.others)
        if not self.first.version_2:
            await asyncio.sleep(_APPLIED_S)
        return await self._positions()

    async def _stable(self) -> dict[Key, LanePosition]:
        """Before our claim makes all of them undecided (KIP-447). Without those that are, for longer than is waited."""
        decided = await self.groups.decided(self.group, _DECIDED_WITHIN_S)
        return {key: positions.decode(key, at.offset, at.metadata) for key, at in decided.items() if at is not None}

    async def _positions(self) -> dict[Key, LanePosition]:
        """As the coordinator answers: a broker that has just started may give old ones, which must not be written
        again with our claim."""
        while True:
            lane_positions = await positions.read_all(self.groups, self.group)
            old = self._old(lane_positions)
            if not old or time.monotonic() > self._until:
                return lane_positions
            self.waits(len(old))
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _old(self, lane_positions: Mapping[Key, LanePosition]) -> set[Key]:
        """Those below what had been committed, or not known at all; their lanes stop them and say so."""
        older = {key for key, at in self._decided.items() if positions.is_older(lane_positions.get(key), at)}
        below = {key for key, at in lane_positions.items() if positions.went_back(at, self._least.get(key))}
        return older | below | (self._least.keys() - lane_positions.keys())

    def _known(self, lane_positions: Mapping[Key, LanePosition]) -> Sequence[LanePosition]:
        """Also those of an earlier, stable answer."""
        return [*self._decided.values(), *lane_positions.values()]

    async def _committed(self, specs: Sequence[PartitionSpec]) -> dict[Key, int]:
        """By target topic and partition: up to where the flow had been committed, at least, as the offset map says. Not
        of missing remote topics: their positions were deleted with them, and no coordinator has them.
        """
        await self.cluster.refresh({spec.target_topic for spec in specs})
        specs = [spec for spec in specs if self.cluster.topics[spec.target_topic].error != UNKNOWN_TOPIC]
        least = await last_committed(self.cluster, self.flow.state_name, self._ids(specs))
        ends = {(s.target_topic, s.partition): least.get((s.topic, s.partition)) for s in specs}
        return {key: end for key, end in ends.items() if end is not None}

    def _ids(self, specs: Sequence[PartitionSpec]) -> Mapping[Key, Ids]:
        topics = self.cluster.topics
        return {(s.topic, s.partition): (parsed_id(s.topic_id), topics[s.target_topic].topic_id) for s in specs}

    async def _claim(self, claim: Claim, lane_positions: Mapping[Key, LanePosition]) -> None:
        hour = positions.hour_now()
        await self._commit({key: replace(position, claim=claim, hour=hour) for key, position in lane_positions.items()})

    async def _begin(self, claim: Claim, specs: Sequence[PartitionSpec]) -> int:
        """All starts or none: a crash in between must not leave some partitions to a later start's idea of latest."""
        flow = self.flow
        unknown = claim.ground.unknown
        others = [
            s for s in specs if flow.starts_at(s.topic, s.partition) is None and (s.topic, s.partition) not in unknown
        ]
        # What another flow copied before, or another environment copies, is left out: its lanes stop it and say so.
        if flow.start_kind not in ("earliest", AGAIN):
            await self.cluster.refresh({spec.target_topic for spec in others})
            before = await copied_before(self.cluster, self._ids(others))
            others = [spec for spec in others if (spec.topic, spec.partition) not in before]
            if flow.provenance is None:
                targets = {(spec.target_topic, spec.partition) for spec in others}
                strange = await copied_by_others(self.cluster, self.group, claim.owner, targets)
                others = [spec for spec in others if (spec.target_topic, spec.partition) not in strange]
        # Latest, or a time, is resolved once for all partitions and committed: a start that is resolved later, after a
        # crash or by a later lane, would skip what came in between.
        if flow.start_kind not in ("earliest", AGAIN) and others:
            begun = {(spec.topic, spec.partition): spec for spec in others}
            kind, committed = (flow.start_kind, flow.start.timestamp_ms), flow.isolation == "read_committed"
            with closing(cluster_of(flow.source)) as source:
                offsets = await positions.start_offsets(source, begun, *kind, committed=committed)
            hour, mark = positions.hour_now(), work_of(flow).first_mark
            first: dict[Key, LanePosition] = {}
            for key, spec in begun.items():
                begin = claim.ground.not_before(key, offsets[key])
                position = LanePosition(begin, spec.topic_id, -1, claim, hour, mark(begin))
                first[spec.target_topic, spec.partition] = position
            await self._commit(first)
            if self.first.transactional:
                await self.first.end(committed=True)
        return len(specs)

    async def _commit(self, lane_positions: Mapping[Key, LanePosition]) -> None:
        await self.first.commit_positions({key: positions.to_commit(key, at) for key, at in lane_positions.items()})


def _of(lane_positions: Mapping[Key, LanePosition], keys: Iterable[Key]) -> dict[Key, LanePosition]:
    return {key: lane_positions[key] for key in keys if key in lane_positions}
