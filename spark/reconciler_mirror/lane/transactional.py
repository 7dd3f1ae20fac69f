"""Delivery by the lane's own producer: in transactions with the positions, or idempotently with positions after."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import DUPLICATE_SEQUENCE, BrokerError, WireError
from reconciler.kafka.client.transaction_ends import Endings
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.offsets.position_metadata import is_ours
from reconciler_mirror.lane.commit import Committer
from reconciler_mirror.lane.fetch.pieces import delivered_pieces
from reconciler_mirror.lane.partition import Partition, Phase, Tuning
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.start import Starter
from reconciler_mirror.lane.state import Lane, RestartError
from reconciler_mirror.model.counters import Loss
from reconciler_mirror.model.lane import LaneSpec

POSITIONS_EVERY, MOST_POSITIONS = 10.0, 1_000
"""Seconds, and partitions a look; of more, the next ones at the next look."""
OURS_BEGINS = '{"'


class Transactional:
    """A ``LaneDelivery``. Copies get the target's next offsets and count as copied with the position that is committed
    with them; whatever the lane cannot be sure of begins the session again from the committed positions."""

    written = frozenset({0, DUPLICATE_SEQUENCE})
    """A repetition of a batch that the broker has: an answer was lost."""
    pieces = staticmethod(delivered_pieces)

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._starter = Starter(lane)
        self._committer = Committer(lane)
        self.begin = self._starter.add
        self.commit = self._committer.run

    def work(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (self._starter.run(),)

    def reads(self) -> Iterable[Coroutine[Any, Any, None]]:
        return (GroupPositions(self._lane).run(),)

    def continues(self, _partition: Partition, _pieces: Sequence[Piece]) -> bool:
        return True

    def may_send(self, partition: Partition) -> bool:
        """In the classic protocol once its partition has been added to the open transaction."""
        lane = self._lane
        if partition in lane.added or lane.identity.version_2 or not lane.identity.transactional:
            return True
        lane.routes.announce(partition)
        return False

    def sealed_as(self, _partition: Partition) -> tuple[int, int]:
        return self._lane.identity.producer_id, self._lane.identity.epoch

    def acknowledged(self, partition: Partition, piece: Piece, base_offset: int) -> None:
        """Its records count as copied once the transaction is committed."""
        outbox = partition.outbox
        if base_offset >= 0:
            if base_offset < outbox.target_end:
                raise RestartError(
                    f"{partition.target[0]}-{partition.target[1]} went back from {outbox.target_end} to {base_offset}: "
                    "it was deleted and recreated, or its leader lost records"
                )
            outbox.target_end = base_offset + piece.records
        if self._lane.identity.version_2:
            self._lane.added.add(partition)

    def refused(self, _partition: Partition, error: BrokerError) -> None:
        raise RestartError(str(error))

    def left_out(self, partition: Partition, piece: Piece, loss: Loss) -> None:
        self._lane.move_on(partition, piece.next_offset, loss)

    def holes(self) -> None:
        return None


class GroupPositions:
    """Sees that another client commits the position of a partition to which nothing comes, so that this lane does not
    write it either. Seen here, not at the next start only, when it would be followed.

    What this lane or its successor commits has a proof, and while it is undecided brokers tell nothing (KIP-447). So a
    decided one without a proof is a stranger's. The start, which reads it once more, stops the partition.
    """

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def run(self) -> None:
        """Until cancelled."""
        lane, begin = self._lane, 0
        while True:
            await asyncio.sleep(POSITIONS_EVERY)
            quiet = [p for p in lane.partitions.values() if self._is_quiet(p)]
            begin = begin if begin < len(quiet) else 0
            places = {p: p.log.committed for p in quiet[begin : begin + MOST_POSITIONS]}
            begin += MOST_POSITIONS
            try:
                async with asyncio.timeout(POSITIONS_EVERY):
                    answers = await lane.target.positions(lane.spec.group, [p.target for p in places]) if places else {}
            except (WireError, TimeoutError):
                continue  # who commits there says what is wrong
            for partition, committed in places.items():
                at = answers[partition.target]
                if at.offset < 0 or (at.offset == committed and at.metadata.startswith(OURS_BEGINS)):
                    continue  # most: no proof is worked out for them
                same = self._is_quiet(partition) and partition.log.committed == committed
                if same and not is_ours(partition.target, at.offset, at.metadata):
                    lane.routes.begin_again(partition)

    def _is_quiet(self, partition: Partition) -> bool:
        copied = partition.hold.phase is Phase.COPYING and partition.log.committed >= 0
        return copied and self._lane.at_rest(partition)


class Sessions:
    """Begins the sessions of one lane; holds what the delivery needs beyond a session's end."""

    def __init__(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self._endings, self._classic = Endings(), False

    def identity(self, spec: LaneSpec, target: ClusterClient) -> Identity:
        """Of the next session. Once it is started, no former holder of the lane can write."""
        transactional_id = spec.transactional_id if spec.delivery == "exactly_once" else None
        return Identity(target, transactional_id, spec.group, endings=self._endings, classic=self._classic)

    async def started(self, spec: LaneSpec, target: ClusterClient) -> None:
        """The identity has been started."""

    def lane(self, spec: LaneSpec, clusters: tuple[ClusterClient, ClusterClient], identity: Identity) -> Lane:
        lane = Lane(spec, clusters, identity, self._tuning)
        lane.delivery = Transactional(lane)
        return lane
