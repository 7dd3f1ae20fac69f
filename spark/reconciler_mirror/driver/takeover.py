"""How an application takes a flow over, before any lane of it begins.

For an exactly-once flow, in this order, so that no lane of an earlier application can commit behind our back, however
many lanes it had and whatever it was doing (a stopped process that wakes up later included):

1. Take the transactional.id of lane 0 and write our claim into all positions, as a transaction that stays open. From
   now on nobody can read a position of the flow, because lanes only read stable ones.
2. Fence every other transactional.id the flow can ever have had. A lane that held one can no longer commit; one that
   takes it again afterwards has to wait for the positions, and then finds our claim and leaves.
3. Read the positions once more; what was committed between 1 and 2 goes into the transaction. End it.

An at-least-once lane looks for a later claim before each commit instead. The very first time (no positions at all), and
if the flow starts at latest or a timestamp, the start of every partition is resolved and all are committed in the same
transaction. Whatever has no position after this appeared later and is copied from its beginning. Explicit offsets are
the lanes' own: they hold for any such partition without a position.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from mirror import clients, positions, provenance_ground, starts
from mirror.batch_commit import END
from mirror.connecting import cluster_of
from mirror.lanes import Claim, PartitionSpec
from mirror.positions import Position
from mirror.settings import MOST_LANES, FlowSettings
from replication.names import position_group, transactional_id
from translation.history import copied_before
from wire.cluster import NO_ID, Key
from wire.errors import check
from wire.groups import Groups
from wire.hanging import settle, settle_all
from wire.position_requests import Committed
from wire.transactions import Identity

_CONNECTIONS = 4
"""A broker fences one id a connection at a time."""
_APPLIED_S = 0.1
"""A group coordinator of old applies a decided commit a moment after the transaction counts as complete."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """``started`` counts the partitions whose start was resolved now; None when the flow has run before."""

    claim: Claim
    started: int | None


class WireTakeover:
    """Owned by one thread. Its connections stay open between ``prepare`` and ``take``.

    ``prepare`` disturbs nobody; after it ``take`` is quick. Both may be called again after they have raised WireError,
    KafkaException or LookupError (a secret reference); ``take`` also raises NotReadyError while provenance waits for
    another flow.
    """

    def __init__(self, flow: FlowSettings) -> None:
        self._flow = flow
        self._loop = asyncio.new_event_loop()
        self._open: _Open | None = None

    def prepare(self) -> None:
        self._loop.run_until_complete(self._prepare())

    def take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        """``specs``: all partitions the flow mirrors now."""
        return self._loop.run_until_complete(self._take(application, specs))

    def close(self) -> None:
        self._let_go()
        self._loop.close()

    async def _prepare(self) -> _Open:
        if self._open is None:
            self._open = _Open(self._flow)
        try:
            await self._open.prepare()
        except BaseException:
            self._let_go()
            raise
        return self._open

    async def _take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        try:
            return await (await self._prepare()).take(application, specs)
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._open is not None:
            self._open.cluster.close()
            self._open = None


class _Open:
    """The target with one identity for each transactional.id."""

    def __init__(self, flow: FlowSettings) -> None:
        self.flow = flow
        self.group = position_group(flow.name)
        self.cluster = cluster_of(flow.target)
        self.groups = Groups(self.cluster)
        once = flow.delivery == "exactly_once"
        self.first = Identity(self.cluster, transactional_id(flow.name, 0) if once else None, self.group)
        self.others = [
            Identity(self.cluster, transactional_id(flow.name, lane), self.group, f"fence {lane % _CONNECTIONS}")
            for lane in range(1, MOST_LANES if once else 1)
        ]
        self._prepared = False

    async def prepare(self) -> None:
        """The coordinators are asked anew by whoever finds that they moved."""
        if not self._prepared:
            await asyncio.gather(self.first.prepare(), *(other.prepare() for other in self.others))
            await self.groups.offsets([self.group])
            self._prepared = True

    async def take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        mine = {(spec.target_topic, spec.partition) for spec in specs}
        if self.first.transactional:
            claim, found = await self._claim_and_fence(application, mine)
        else:
            found = await self._positions()
            claim = _above(found, application)
        changed = {**(_of(found, mine) if self.first.transactional else {}), **await self._marks(found)}
        await self._claim(claim, changed)
        if changed and self.first.transactional:
            await self.first.end(committed=True)
        if self.flow.work.provenance is not None:
            claim = replace(claim, ground=await asyncio.to_thread(provenance_ground.resolve, self.flow))
        return Takeover(claim, None if found else await self._begin(claim, specs))

    async def _claim_and_fence(self, application: str, mine: Collection[Key]) -> tuple[Claim, dict[Key, Position]]:
        """Steps 1 and 2, and the positions as nobody else can change them any more."""
        await self.first.start()
        keys = {*mine, *await self._positions()}
        await self.cluster.refresh({topic for topic, _ in keys})
        await settle(self.first, self.cluster, keys)
        found = await self._positions()
        while True:
            claim = _above(found, application)
            await self._claim(claim, _of(found, mine))
            before, found = found, await self._fence_others(keys)
            if before or not found:
                return _above(found, application), found

    async def _marks(self, found: Mapping[Key, Position]) -> dict[Key, Position]:
        before = provenance_ground.unmarked(found) if self.flow.work.provenance is not None else {}
        return await asyncio.to_thread(provenance_ground.marks, self.flow, before) if before else {}

    async def _fence_others(self, keys: Collection[Key]) -> dict[Key, Position]:
        """Once all are fenced, what they had under way is decided. Gives the positions as they stand then."""
        await asyncio.gather(*(other.start() for other in self.others))
        await settle_all(self.others, self.cluster, keys)
        if not self.first.version_2:
            await asyncio.sleep(_APPLIED_S)
        return await self._positions()

    async def _positions(self) -> dict[Key, Position]:
        """All the group holds, also of topics that are not mirrored any more; what is undecided does not count."""
        told = (await self.groups.offsets([self.group]))[self.group]
        check(told.error, f"positions of group {self.group} on {self.cluster.name}")
        return {key: positions.decode(one.offset, one.metadata.rstrip(END)) for key, one in told.offsets.items()}

    async def _claim(self, claim: Claim, found: Mapping[Key, Position]) -> None:
        hour = positions.hour_now()
        await self._commit({key: replace(position, claim=claim, hour=hour) for key, position in found.items()})

    async def _begin(self, claim: Claim, specs: Sequence[PartitionSpec]) -> int:
        """All starts or none: a crash in between must not leave some partitions to a later start's idea of latest."""
        flow = self.flow
        others = [spec for spec in specs if (spec.topic, spec.partition) not in flow.start_offsets]
        if flow.start_kind != "earliest" and (others := await self._never_copied(others)):
            reader = clients.admin(flow.source)
            asked = (reader, others, flow.start_kind, flow.start_timestamp_ms, flow.isolation)
            offsets = await asyncio.to_thread(starts.resolve, *asked)
            begins = {s: claim.ground.not_before((s.topic, s.partition), offset) for s, offset in offsets.items()}
            hour, mark = positions.hour_now(), flow.work.first_mark
            await self._commit(
                {
                    (spec.target_topic, spec.partition): Position(offset, spec.topic_id, -1, claim, hour, mark(offset))
                    for spec, offset in begins.items()
                }
            )
            if self.first.transactional:
                await self.first.end(committed=True)
        return len(specs)

    async def _never_copied(self, specs: Sequence[PartitionSpec]) -> list[PartitionSpec]:
        """Without those that another flow copied before; their lanes stop them and say so."""
        await self.cluster.refresh({spec.target_topic for spec in specs})
        ids = {(s.topic, s.partition): (_id(s.topic_id), self.cluster.topics[s.target_topic].topic_id) for s in specs}
        before = await copied_before(self.cluster, ids)
        return [spec for spec in specs if (spec.topic, spec.partition) not in before]

    async def _commit(self, found: Mapping[Key, Position]) -> None:
        await self.first.commit_positions(
            {
                key: Committed(position.offset, position.leader_epoch, positions.encode(position) + END)
                for key, position in found.items()
            }
        )


def _id(printed: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(f"{printed}==")) if printed else NO_ID


def _above(found: Mapping[Key, Position], application: str) -> Claim:
    return Claim(1 + max((position.claim.number for position in found.values()), default=0), application)


def _of(found: Mapping[Key, Position], keys: Iterable[Key]) -> dict[Key, Position]:
    return {key: found[key] for key in keys if key in found}
