"""A batch says itself where it lies, and no checksum covers that: one that cannot lie there moves no position."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.fetch.pieces import MOST_GROWN, delivered_pieces, pieces_of
from reconciler_mirror.lane.partition import Partition, SourceLog
from reconciler_mirror.model.lane import PartitionSpec

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records.batches import CONTROL, CorruptBatchError, scan
from tests.support.lanes.batches import batch_of

END = 40


def fetched(*bases: int) -> FetchedPartition:
    return answered(END, *bases)


def answered(end: int, *bases: int) -> FetchedPartition:
    raw = b"".join(batch_of([(1, None, b"value", [])] * 10, base) for base in bases)
    return FetchedPartition("orders", 0, 0, end, end, 0, (), -1, memoryview(raw))


def empty() -> Partition:
    return Partition(PartitionSpec("orders", 0, "east.orders", "id"), log=SourceLog(committed=0, reached=0, covered=0))


def copied(*answers: FetchedPartition) -> int:
    """The offset after all that was taken."""
    partition = empty()
    for answer in answers:
        partition.log.covered = pieces_of(partition, answer, None, delivered_pieces)[1]
    return partition.log.covered


def test_batches_in_their_order_are_taken_also_with_holes_and_beyond_the_end_as_it_was() -> None:
    assert copied(fetched(0, 10)) == 20
    assert copied(fetched(0, 15, 25)) == 35, "compaction took what lay between"
    assert copied(fetched(0, 10, 20, 30, END)) == END + 10, "the log has grown since its end was read"


def test_a_gap_before_the_last_batch_is_believed_after_two_answers() -> None:
    """One flipped bit of a base offset makes 10 of 10: 26, and no other batch of the answer contradicts it."""
    partition = empty()
    pieces, partition.log.covered = pieces_of(partition, fetched(0, 26), None, delivered_pieces)
    assert (len(pieces), partition.log.covered) == (1, 10), "what lies before it continues"
    pieces, partition.log.covered = pieces_of(partition, fetched(10), None, delivered_pieces)
    assert (len(pieces), partition.log.covered) == (1, 20), "it was a flipped bit"
    for covered in (20, 35):
        pieces, partition.log.covered = pieces_of(partition, fetched(25), None, delivered_pieces)
        assert (len(pieces), partition.log.covered) == (covered > 20, covered), "this one is a gap"
    assert copied(fetched(26), fetched(18), fetched(10, 20)) == 30, "every other answer is damaged"


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8), st.data())
def test_whatever_bit_is_set_in_a_base_offset_no_batch_is_passed_over_or_taken_twice(
    log: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """``log``: the offsets that compaction took before each batch of ten, and whether an answer ends with it."""
    bases, after = [], 0
    for gap, _ in log:
        bases.append(after + gap)
        after = bases[-1] + 10
    partition, taken, damaged = empty(), 0, False
    while partition.log.covered < after:
        first = next(index for index, base in enumerate(bases) if base + 10 > partition.log.covered)
        last = next((index for index in range(first, len(log)) if log[index][1]), len(log) - 1)
        told = bases[first : last + 1]
        damaged = not damaged and data.draw(st.booleans())  # twice the same damage would be believed
        if damaged:
            told[data.draw(st.integers(0, len(told) - 1))] |= 1 << data.draw(st.integers(0, 40))
        with suppress(MalformedResponseError):
            pieces, partition.log.covered = pieces_of(partition, answered(after, *told), None, delivered_pieces)
            taken += sum(piece.records for piece in pieces)
    assert taken == 10 * len(log)


def test_a_damaged_batch_is_not_left_out_for_what_its_header_says() -> None:
    """A bit of its attributes makes it a control batch, which nobody copies."""
    raw = bytearray(fetched(0, 10).records)
    raw[len(raw) // 2 + 22] |= CONTROL
    partition = empty()
    pieces, partition.log.covered = pieces_of(
        partition, FetchedPartition("orders", 0, 0, 20, 20, 0, (), -1, memoryview(raw)), None, delivered_pieces
    )
    assert (len(pieces), partition.log.covered) == (1, 10)
    rest = memoryview(raw)[len(raw) // 2 :]
    with pytest.raises(CorruptBatchError):
        pieces_of(partition, FetchedPartition("orders", 0, 0, 20, 20, 0, (), -1, rest), None, delivered_pieces)


@pytest.mark.parametrize("bases", [(1 << 31,), (0, 1 << 31), (0, 5), (20, 10), (0, END + MOST_GROWN)])
def test_one_that_cannot_lie_there_is_corrupt(bases: tuple[int, ...]) -> None:
    """A flipped bit of its base offset; a soak found a position 2^31 ahead."""
    answer = fetched(*bases)
    assert len(list(scan(answer.records))) == len(bases), "nothing else is wrong with them"
    with pytest.raises(MalformedResponseError, match="a batch says it holds offsets"):
        copied(answer)
