"""The parts of a partition each keep their invariant, and figures outlive a session that ends without a commit."""

from __future__ import annotations

from reconciler_mirror.lane.partition import UNKNOWN, Partition, PartitionFigures, Phase
from reconciler_mirror.lane.produce.outbox import ANY_SIZE, Piece
from reconciler_mirror.model.counters import Loss
from reconciler_mirror.model.lane import Condition, PartitionSpec

SPEC = PartitionSpec("orders", 0, "east.orders", "id")
REFUSED = Condition("record_refused", "text", "todo", "orders", 0, stops=True)


def piece(first: int, epoch: int = 0, records: int = 10) -> Piece:
    return Piece(memoryview(bytes(100)), records, first + records, epoch, 1_000 + first, ((first, records),))


def at(position: int) -> Partition:
    partition = Partition(SPEC)
    partition.log.begin(position, 0)
    return partition


def test_what_is_dropped_before_it_is_sent_is_fetched_again_and_counts_as_nothing() -> None:
    partition = at(0)
    partition.outbox.unacked.append(piece(0, epoch=1))
    assert partition.outbox.add([piece(10, epoch=2), piece(20, epoch=3)]) == 200
    partition.log.covered, partition.log.covered_epoch = 30, 3
    for after in (10, 20, 30):
        partition.figures.passed.add(after, (1, 0))
        partition.figures.lost.add(after, Loss("corrupt_source_batch", 1))
    assert partition.planned() == 10
    assert partition.drop_unsent() == 200
    assert (partition.log.reached, partition.log.covered, partition.log.covered_epoch) == (0, 10, 1)
    assert partition.log.in_order
    partition.figures.committed(30, None)
    assert (partition.figures.filtered, partition.figures.losses[0].offsets) == (1, 1)


def test_what_a_session_has_not_committed_is_counted_by_the_next_one_alone() -> None:
    figures = PartitionFigures()
    figures.fetched([piece(0), piece(10)])
    figures.acknowledged(piece(0))
    figures.passed.add(5, (2, 1))
    figures.committed(10, 1_010)
    assert (figures.records, figures.bytes, figures.waiting_since) == (10, 100, 1_010)
    figures.acknowledged(piece(10))
    figures.passed.add(15, (7, 7))
    figures.lost.add(20, Loss("record_refused", 1, 1))
    figures.begin()
    assert figures.waiting_since is None
    figures.acknowledged(piece(10))
    figures.committed(20, None)
    assert (figures.records, figures.bytes) == (20, 200)
    assert (figures.filtered, figures.returning, figures.losses) == (2, 1, ())


def test_sequences_of_what_was_refused_are_used_again() -> None:
    outbox = at(0).outbox
    sent = [piece(0), piece(10)]
    for sequence, made in zip((70, 80), sent, strict=True):
        made.sequence = sequence
        outbox.unacked.append(made)
    outbox.sequence = 90
    outbox.resend.extend(sent)
    outbox.acknowledge()
    outbox.take_back()
    assert (outbox.sequence, outbox.first_acked, len(outbox.resend)) == (80, True, 0)


def test_a_condition_of_copying_itself_stays_until_the_position_is_another_one() -> None:
    hold = at(0).hold
    hold.stop(REFUSED, UNKNOWN, 1_000, 5.0)
    assert (hold.phase, hold.left_waiting) == (Phase.STOPPED, 1_000)
    hold.progressed()
    assert hold.left_waiting == 1_000, "what it stopped at still waits"
    hold.moved(7)
    assert (hold.condition, hold.held_at) == (REFUSED, 7)
    hold.moved(7)
    assert hold.condition is REFUSED
    hold.moved(8)
    assert hold.condition is None
    assert hold.held_at is None


def test_a_partition_that_leaves_does_nothing_else_whatever_is_answered_about_it_later() -> None:
    """The lane's spec has changed: the driver gave it away, or it joins again as another one."""
    hold = Partition(SPEC).hold
    hold.leave()
    for late in (
        hold.start,
        lambda: hold.copy(caught_up=True),
        lambda: hold.stop(REFUSED, UNKNOWN, 1_000, 5.0),
        lambda: hold.pause(None, 1.0, behind=False),
    ):
        late()
        assert hold.phase is Phase.LEAVING


def test_a_first_failure_may_be_one_of_the_way_until_something_is_copied() -> None:
    hold = at(0).hold
    assert [hold.strike(), hold.strike()] == [True, False]
    hold.check()
    hold.progressed()
    assert (hold.strike(), hold.checking) == (True, False)


def test_a_refused_size_holds_for_all_a_refused_record_only_below_its_offset() -> None:
    sizes = at(0).sizes
    sizes.seek(1_000, 50)
    sizes.seek(400, 40)
    assert [sizes.at(offset) for offset in (39, 49, 50)] == [200, 200, ANY_SIZE]
    sizes.refused(900, 3_600.0)
    sizes.try_larger()
    assert [sizes.at(offset) for offset in (39, 50)] == [200, 450]
    sizes.refused(900, 0.0)
    sizes.try_larger()
    assert sizes.at(50) == ANY_SIZE
