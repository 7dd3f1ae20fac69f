"""The leader epoch beside a position is that of the records before it, also of those not acknowledged yet (KIP-320)."""

from __future__ import annotations

from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.model.lane import PartitionSpec


def piece(next_offset: int, epoch: int) -> Piece:
    return Piece(memoryview(b""), 1, next_offset, epoch, 0, ((next_offset - 1, 1),))


def partition(acknowledged: int, epoch: int) -> Partition:
    made = Partition(PartitionSpec("t", 0, "east.t", ""))
    made.log.committed = made.log.reached = made.log.covered = acknowledged
    made.log.leader_epoch = made.log.covered_epoch = epoch
    return made


def test_a_planned_position_has_the_epoch_of_what_was_sent() -> None:
    one = partition(100, 4)
    one.outbox.unacked.append(piece(110, 5))
    one.log.covered, one.log.covered_epoch = 110, 5
    assert one.planned() == 110
    assert one.epoch_at(one.planned()) == 5
    one.outbox.queue.append(piece(120, 6))
    one.log.covered, one.log.covered_epoch = 120, 6
    assert one.planned() == 110
    assert one.epoch_at(one.planned()) == 5, "what was not sent does not count"
    assert one.epoch_at(one.log.reached) == 4


def test_markers_alone_move_the_epoch_on() -> None:
    one = partition(100, 4)
    one.log.covered, one.log.covered_epoch = 102, 5
    assert one.epoch_at(one.planned()) == 5


def test_what_was_dropped_takes_its_epoch_along() -> None:
    one = partition(100, 4)
    one.outbox.queue.append(piece(110, 5))
    one.outbox.queued_bytes = 0
    one.outbox.queue[0].raw = memoryview(b"12")
    one.outbox.queued_bytes = 2
    one.log.covered, one.log.covered_epoch = 110, 5
    assert one.drop_unsent() == 2
    assert (one.log.covered, one.epoch_at(one.log.covered)) == (100, 4)
