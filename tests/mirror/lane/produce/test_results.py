"""A batch that the target's broker finds damaged: read and sent again, then narrowed down to the record, never told as
a matter of size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import ANY_SIZE, Piece
from reconciler_mirror.lane.produce.results import failed
from reconciler_mirror.lane.transactional import Transactional
from reconciler_mirror.model.lane import Condition, PartitionSpec

CORRUPT, INVALID_RECORD = 2, 87


class FakeLane:
    """Keeps what is asked of it. Whatever ``continue_on`` says, ``goes_on`` is true."""

    def __init__(self) -> None:
        self.routes = self
        self.delivery = Transactional(cast(Any, self))
        self.looks: list[str] = []
        self.stopped: list[tuple[Condition, int]] = []
        self.left_out: list[int] = []
        self.tuning = SimpleNamespace(delivery_timeout=20.0)

    def give_up(self, partition: Partition) -> None:
        partition.outbox.unacked.clear()

    def recheck(self, _partition: Partition, why: str) -> None:
        self.looks.append(why)

    def goes_on(self, _code: str) -> bool:
        return True

    def move_on(self, _partition: Partition, position: int, _loss: object) -> None:
        self.left_out.append(position)

    def stop(self, _partition: Partition, condition: Condition, *, at: int) -> None:
        self.stopped.append((condition, at))


def answered(lane: FakeLane, partition: Partition, records: int, code: int) -> None:
    partition.log.reached = 7
    raw = memoryview(bytes(400))
    partition.outbox.unacked.append(Piece(raw, records, 7 + records, 0, 1, ((7, records),)))
    failed(cast(Any, lane), partition, (code, ""))


def test_a_batch_that_is_damaged_once_is_sent_again_without_a_word() -> None:
    lane, partition = FakeLane(), Partition(PartitionSpec("orders", 1, "east.orders", "id"))
    answered(lane, partition, 5, CORRUPT)
    assert (lane.stopped, len(lane.looks), partition.sizes.sought) == ([], 1, ANY_SIZE)


def test_damage_that_stays_is_reported_as_damage_with_its_record_and_is_never_left_out() -> None:
    lane, partition = FakeLane(), Partition(PartitionSpec("orders", 1, "east.orders", "id"))
    for records in (5, 5, 1):
        assert lane.stopped == []
        answered(lane, partition, records, CORRUPT)
    assert partition.sizes.sought < ANY_SIZE, "the record was looked for"
    [(condition, at)] = lane.stopped
    assert (condition.code, at, lane.left_out) == ("record_refused", 7, [])
    assert "found the record at source offset 7 damaged, again and again: CORRUPT_MESSAGE (2)" in condition.text
    assert "max.message.bytes" not in condition.todo
    assert "read and sent again automatically" in condition.todo


def test_what_a_broker_refuses_for_what_it_is_may_be_left_out() -> None:
    lane, partition = FakeLane(), Partition(PartitionSpec("orders", 1, "east.orders", "id"))
    answered(lane, partition, 1, INVALID_RECORD)
    assert (lane.stopped, lane.left_out) == ([], [8])
