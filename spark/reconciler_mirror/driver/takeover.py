"""Takes a flow over from an earlier application: claims its positions and fences its transactional ids.

It disturbs no lane before the positions have shown that the flow is this environment's. For an exactly-once flow it
then takes these steps in order, so that no lane of an earlier application can commit unnoticed, however many lanes it
had and whatever it was doing (even a stopped process that resumes later):

1. Take the transactional.id of lane 0, and write this application's claim into all positions, in a transaction that
   stays open. From then on no lane can read a position of the flow, since lanes read only stable ones (KIP-447). This
   application has read the stable positions just before; no later answer may have fewer.
2. Fence every other transactional.id that the flow can ever have had. A lane that held one can no longer commit; a lane
   that takes one afterwards has to wait for the positions, and then finds the claim and leaves.
3. Read the positions again, add the commits from between steps 1 and 2 to the transaction, and end it.

The claim does not prove a position: one that another client committed gets the claim without a proof, its lane stops
the partition, and it is no evidence that the flow has run before.

An at-least-once lane instead looks for a later claim before each commit. A flow that has never run (no positions, and
none that the offset map knows of) and starts at latest or a timestamp resolves the start of every partition, and
commits all in the same transaction. A partition without a position after that appeared later, and is copied from its
beginning. Lanes apply explicit offsets themselves, to any partition without a position.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from reconciler.kafka.client.cluster import Key, parsed_id
from reconciler.kafka.client.errors import UNKNOWN_TOPIC, UNSTABLE, BrokerError, PartitionsDeniedError, WireError, check
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.client.hanging_transactions import settle
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.handover import AGAIN, MOST_LANES, FlowSettings
from reconciler.replication.names import is_own_topic, position_group, transactional_id
from reconciler.replication.offsets.codec import Ids
from reconciler.replication.offsets.map_topic import copied_before, last_committed, name_on
from reconciler.replication.offsets.position_metadata import NO_OWNER, Owner, mark_of, stranger, ways_on, whose
from reconciler_mirror import log_lines as logs
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.driver import provenance_start as provenance_ground
from reconciler_mirror.lane import positions
from reconciler_mirror.lane.first_start import copied_by_others
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.model.lane import NO_CLAIM, Claim, Condition, PartitionSpec, work_of

T = TypeVar("T")
_log = logs.logger("takeover")
_CONNECTIONS = 4
"""Connections for fencing, because a broker fences one id per connection at a time."""
_APPLIED_S = 0.1
"""Before KIP-890, a group coordinator applies a commit a moment after its transaction counts as complete."""
OLD_WITHIN_S, _LOOK_AGAIN_S = 60.0, 0.2
"""Seconds for which a coordinator with older positions is asked again; then these positions stay unchanged. It may
still be loading its log, and a commit would end that. So the other partitions wait, too: after their first commit in
the same group, the coordinator would never load the missing positions (decision 131)."""
_MARKED_WITHIN_S = 5.0
_DECIDED_WITHIN_S = 2.0
"""Seconds to wait for open commits. A hanging lane keeps its own open until it is fenced."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """``started``: number of partitions with a newly resolved start; None if the flow has run before."""

    claim: Claim
    started: int | None


class WireTakeover:
    """Owned by one thread. Its connections stay open between ``prepare`` and ``take``.

    ``prepare`` disturbs no lane, and makes ``take`` quick. Both may be called again after a WireError or LookupError
    (a secret reference). ``take`` also raises NotReadyError, while provenance waits for another flow, or if the flow
    belongs to another environment.
    """

    def __init__(
        self,
        flow: FlowSettings,
        waits: Callable[[int], None] = lambda _: None,
        *,
        environment: str = "",
        moved_from: Collection[str] = (),
    ) -> None:
        """``waits`` gets the number of positions that are older than known, or missing, before they are read again.
        ``environment``: the flow's owner; ``moved_from``: former names of it. Empty: ownership is not checked."""
        self._connect = partial(_Open, flow, waits, environment, moved_from)
        self._runner = asyncio.Runner()
        self._open: _Open | None = None

    def prepare(self) -> None:
        self._run(_Open.prepare)

    def take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        """``specs``: all present partitions of the flow."""
        return self._run(lambda opened: opened.take(application, specs))

    def close(self) -> None:
        if self._open is not None:
            self._open.cluster.close()
            self._open = None
        self._runner.close()  # ends what is still in flight: when one identity is refused, requests of the others are

    def _run(self, work: Callable[[_Open], Coroutine[Any, Any, T]]) -> T:
        """Runs ``work`` on the same connections as before, and closes them after a failure."""
        try:
            opened = self._open = self._open or self._connect()
            self._runner.run(opened.prepare())
            return self._runner.run(work(opened))
        except BaseException:
            self.close()
            self._runner = asyncio.Runner()
            raise


class _Open:
    """The target with one identity for each transactional.id."""

    def __init__(
        self,
        flow: FlowSettings,
        waits: Callable[[int], None],
        environment: str,
        moved_from: Collection[str],
    ) -> None:
        self.flow = flow
        self.waits = waits
        self.owner = Owner(environment) if environment else NO_OWNER
        self.moved_from = moved_from
        self.group = position_group(flow.state_name)
        self.cluster = cluster_of(flow.target)
        self.groups = GroupClient(self.cluster)
        once = flow.delivery == "exactly_once"
        # Lane 0 fences first and writes the claim. The others follow at once, over several connections, since a broker
        # handles the requests of a connection in turn. An at-least-once flow has no transactional ids to fence.
        self.first = Identity(self.cluster, transactional_id(flow.state_name, 0) if once else None, self.group)
        self.others = [
            Identity(self.cluster, transactional_id(flow.state_name, lane), self.group, f"fence {lane % _CONNECTIONS}")
            for lane in range(1, MOST_LANES if once else 1)
        ]
        self._prepared = False
        # Lower bounds of the positions (from the offset map), the stable positions from before the fence, and the time
        # until which older answers are read again.
        self._least: Mapping[Key, int] = {}
        self._decided: Mapping[Key, LanePosition] = {}
        self._until = 0.0

    async def prepare(self) -> None:
        """Finds coordinators and opens connections, once. Later requests look up a moved coordinator themselves."""
        if not self._prepared:
            await asyncio.gather(self.first.prepare(), *(other.prepare() for other in self.others))
            await self.groups.offsets([self.group])
            if self.owner.environment:
                with suppress(WireError), closing(cluster_of(self.flow.source)) as source:
                    self.owner = replace(self.owner, source=await provenance_ground.cluster_id(source))
            self._prepared = True

    async def take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        """The order prevents duplicates: no former application may commit after its positions were read, and no lane
        begins before every position has this application's claim."""
        targets = {(spec.target_topic, spec.partition) for spec in specs}
        await self._require_ours(specs)
        self._least, self._decided = await self._committed(specs), {}
        self._until = time.monotonic() + OLD_WITHIN_S
        if self.first.transactional:
            claim, lane_positions = await self._claim_and_fence(application, targets)
        else:
            self._decided = await self._stable()
            lane_positions = await self._positions()
            claim = self._above(self._known(lane_positions), application)
        # Without transactions there is no fence, and a former lane may be committing the same positions right now. So
        # the claim is written only with positions that must be written anyway.
        changed = {
            **(_of(lane_positions, targets) if self.first.transactional else {}),
            **(await provenance_ground.marks(self.cluster, lane_positions) if self.flow.provenance is not None else {}),
        }
        # An old position with this application's claim would become the valid one, and its records would be copied
        # twice. It stays unchanged, and its lane stops the partition.
        old = self._old(lane_positions)
        changed = {key: position for key, position in changed.items() if key not in old}
        await self._claim(claim, changed)
        # All claims and provenance marks become valid together.
        if changed and self.first.transactional:
            await self.first.end(committed=True)
        if self.flow.provenance is not None:
            claim = replace(claim, ground=await provenance_ground.resolve(self.flow, self.cluster))

        claim = replace(claim, clusters=(self.owner.source, self.cluster.cluster_id))
        # If another client has overwritten or deleted all positions, the offset map still shows that the flow has run.
        # A second start at the end would skip the first records of partitions that were empty before.
        if self._least or any(at.proved for at in self._known(lane_positions)):
            return Takeover(claim, None)
        fresh = [spec for spec in specs if (spec.target_topic, spec.partition) not in lane_positions]
        return Takeover(claim, await self._begin(claim, fresh))

    async def _claim_and_fence(
        self, application: str, targets: Collection[Key]
    ) -> tuple[Claim, dict[Key, LanePosition]]:
        """Steps 1 and 2. Returns the claim and the positions, which no other lane can change any more."""
        # A fence writes markers, and a coordinator that still loads its log stops at the first write (decision 131): so
        # it has to report what is known before.
        keys = {*targets, *await self._positions()}
        await self.first.start()
        await self.cluster.refresh({topic for topic, _ in keys})
        # A hanging transaction, which its coordinator has forgotten, would block stable reads of its partitions for
        # good. It is ended before the stable positions are read.
        await settle(self.cluster, keys, self.first)
        self._decided = await self._stable()
        lane_positions = await self._positions()
        while True:
            # The claim is written while only lane 0 is fenced: the other lanes, which are fenced next, then find a
            # later claim, and not just an unexplained fence. Their commits from in between are read again.
            claim, old = self._above(self._known(lane_positions), application), self._old(lane_positions)
            await self._claim(claim, _of(lane_positions, {*targets} - old))
            before, lane_positions = lane_positions, await self._fence_others(keys)
            # Positions older than those from before the fence come from a coordinator that loads its log again
            # (decision 131). The takeover fails, and is tried again.
            if self._old(lane_positions) - old:
                raise BrokerError(UNSTABLE, f"group {self.group} on {self.flow.target.cluster} returns old positions")
            if before or not lane_positions:
                return self._above(self._known(lane_positions), application), lane_positions

    async def _require_ours(self, specs: Sequence[PartitionSpec]) -> None:
        """Raises NotReadyError if another environment has begun the flow: a takeover would fence its lanes, but could
        not continue from their positions, which are of another source."""
        if not self.owner.environment:
            return
        answer = (await self.groups.offsets([self.group]))[self.group]
        check(answer.error, f"positions of group {self.group} on {self.flow.target.cluster}")
        by = {key: mark_of(key, at.offset, at.metadata or "") for key, at in answer.offsets.items()}
        ids = {(spec.target_topic, spec.partition): spec.topic_id for spec in specs}
        if (foreign := stranger(self.owner, self.moved_from, by, ids)) is not None:
            text = (
                f"{self.flow.name} is not copied: {whose(self.group, self.flow.target.cluster, self.owner, *foreign)}"
            )
            todo = ways_on(self.flow.name, self.group, self.owner, foreign[1])
            raise provenance_ground.NotReadyError(Condition("flow_not_ours", text, todo, stops=True))

    def _above(self, known: Sequence[LanePosition], application: str) -> Claim:
        """The next claim. A client that committed a position without metadata has erased the claim in it; a number made
        from the time is higher than any erased one."""
        lost = any(not at.proved and at.claim == NO_CLAIM for at in known)
        number = 1 + max((int(time.time()) if lost else 0, *(at.claim.number for at in known)))
        return Claim(number, application, owner=self.owner)

    async def _fence_others(self, keys: Collection[Key]) -> dict[Key, LanePosition]:
        """Fences all other lanes, which decides their open transactions. Returns the positions after that."""
        await asyncio.gather(*(other.start() for other in self.others))
        await settle(self.cluster, keys, *self.others)
        if not self.first.version_2:
            await asyncio.sleep(_APPLIED_S)
        return await self._positions()

    async def _stable(self) -> dict[Key, LanePosition]:
        """The stable positions, before the open claim makes all of them unstable (KIP-447). Leaves out positions that
        stay unstable for too long."""
        decided = await self.groups.decided(self.group, _DECIDED_WITHIN_S)
        stable = {key: at for key, at in decided.items() if at is not None and not is_own_topic(key[0])}
        return {key: positions.decode(key, at.offset, at.metadata) for key, at in stable.items()}

    async def _positions(self) -> dict[Key, LanePosition]:
        """The positions of the group. A coordinator that has just started may return old ones, which must not be
        written with this application's claim, so it is asked again."""
        while True:
            lane_positions = await positions.read_all(self.groups, self.group)
            old = self._old(lane_positions)
            if not old or time.monotonic() > self._until:
                return lane_positions
            self.waits(len(old))
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _old(self, lane_positions: Mapping[Key, LanePosition]) -> set[Key]:
        """Positions before a known commit, or missing despite one; their lanes stop these partitions."""
        older = {key for key, at in self._decided.items() if positions.is_older(lane_positions.get(key), at)}
        below = {key for key, at in lane_positions.items() if positions.went_back(at, self._least.get(key))}
        return older | below | (self._least.keys() - lane_positions.keys())

    def _known(self, lane_positions: Mapping[Key, LanePosition]) -> Sequence[LanePosition]:
        """The positions of this answer and of the earlier, stable one."""
        return [*self._decided.values(), *lane_positions.values()]

    async def _committed(self, specs: Sequence[PartitionSpec]) -> dict[Key, int]:
        """Lower bounds of the committed positions, by target partition, from the offset map. Leaves out missing remote
        topics: Kafka has deleted their positions with them."""
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
        """Resolves and commits all starts or none: after a crash in between, some partitions would begin at a later
        "latest" than the others."""
        flow = self.flow
        unknown = claim.ground.unknown
        others = [
            s for s in specs if flow.starts_at(s.topic, s.partition) is None and (s.topic, s.partition) not in unknown
        ]
        # Leaves out partitions that another flow has copied, or another environment copies; their lanes stop them.
        if flow.start.unnamed not in ("earliest", AGAIN):
            await self.cluster.refresh({spec.target_topic for spec in others})
            before = await copied_before(self.cluster, self._ids(others))
            others = [spec for spec in others if (spec.topic, spec.partition) not in before]
            if flow.provenance is None:
                targets = {(spec.target_topic, spec.partition) for spec in others}
                strange = await copied_by_others(self.cluster, self.group, claim.owner, targets)
                others = [spec for spec in others if (spec.target_topic, spec.partition) not in strange]
        # "Latest", or a time, is resolved once for all partitions and committed: resolved again after a crash, or by a
        # later lane, it would skip the records from in between.
        if flow.start.unnamed not in ("earliest", AGAIN) and others:
            begun = {(spec.topic, spec.partition): spec for spec in others}
            kind, committed = (flow.start.unnamed, flow.start.timestamp_ms), flow.isolation == "read_committed"
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
        try:
            await self.first.commit_positions({key: positions.to_commit(key, at) for key, at in lane_positions.items()})
        except PartitionsDeniedError as error:
            # The others have the claim. The lane of a denied partition cannot commit either, and stops it alone.
            _log.warning(
                "positions may not be written", flow=self.flow.name, partitions=len(error.keys), why=str(error)
            )


def mark_owner(flow: FlowSettings, claim: Claim) -> bool:
    """Writes the owner of a flow that has no partition yet, and so no position. Without it, another environment could
    begin a flow of the same name, and each would fence the other once there are topics. The mark is a position of the
    offset map's topic, since a group keeps positions of existing topics only. False: not written, try again."""

    async def commit() -> None:
        with closing(cluster_of(flow.target)) as target:
            key = (name_on(target), 0)
            mark = LanePosition(0, claim=claim, hour=positions.hour_now())
            owner = Identity(target, None, position_group(flow.state_name), patience=_MARKED_WITHIN_S)
            await owner.commit_positions({key: positions.to_commit(key, mark)})

    try:
        asyncio.run(commit())
    except (WireError, LookupError) as error:
        _log.warning("the owner of the flow is not written yet", flow=flow.name, error=str(error))
        return False
    return True


def _of(lane_positions: Mapping[Key, LanePosition], keys: Iterable[Key]) -> dict[Key, LanePosition]:
    return {key: lane_positions[key] for key in keys if key in lane_positions}
