"""Delivery at the source's own offsets: what runs in a session, and what its sessions have in common."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.transaction_ends import Aborted
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.names import data_producer, marker_producer
from reconciler_mirror.lane.partition import Tuning
from reconciler_mirror.lane.same_offsets.commit import PositionWriter
from reconciler_mirror.lane.same_offsets.copy import Copies
from reconciler_mirror.lane.same_offsets.place import DATA_EPOCH
from reconciler_mirror.lane.same_offsets.start import SameStarter
from reconciler_mirror.lane.same_offsets.target_ends import TargetEnds
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.transactional import Sessions
from reconciler_mirror.model.lane import LaneSpec


class SameOffsets(Copies):
    """A ``LaneDelivery``. Only the very next record fits at the end of the target's log, which is the position."""

    def __init__(self, lane: Lane, identity: Identity, producer: int, marker_producer: int) -> None:
        super().__init__(lane, identity, producer, marker_producer)
        self._starter = SameStarter(lane, self)
        self._writer = PositionWriter(lane, self)
        self._ends = TargetEnds(lane, self)
        self.begin = self._starter.add
        self.commit = self._writer.run

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._starter.run(), self.fill_holes())

    def reads(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._ends.run(),)


class SameOffsetsSessions(Sessions):
    """With the producer ids of a flow's data and of its markers, which are the same for all sessions and holders. The
    producer that is fenced writes no data, only fillers, which it aborts."""

    def __init__(self, tuning: Tuning) -> None:
        super().__init__(tuning)
        self._endings, self._classic = Aborted(), True
        self._producer = self._marker_producer = -1

    async def started(self, spec: LaneSpec, target: ClusterClient) -> None:
        if self._producer < 0:
            self._producer = await producer_id_of(target, data_producer(spec.state))
            self._marker_producer = await producer_id_of(target, marker_producer(spec.state))

    def lane(self, spec: LaneSpec, clusters: tuple[ClusterClient, ClusterClient], identity: Identity) -> Lane:
        data = Identity(clusters[1], None, spec.group)
        data.producer_id, data.epoch = self._producer, DATA_EPOCH
        lane = Lane(spec, clusters, data, self._tuning)
        lane.delivery = SameOffsets(lane, identity, self._producer, self._marker_producer)
        return lane


async def producer_id_of(target: ClusterClient, transactional_id: str) -> int:
    """The same for all lanes and holders: the coordinator keeps it with a transactional.id that has no transactions.

    It forgets one after a week without use, so each partition also names its producer in its position.
    """
    identity = Identity(target, transactional_id, "", purpose="data producer")
    state = await identity.state()
    if state is not None and state.producer_id >= 0:
        return state.producer_id
    await identity.start()
    return identity.producer_id
