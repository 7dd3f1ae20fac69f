"""A batch says itself where it lies, and no checksum covers that: one that cannot lie there moves no position."""

from __future__ import annotations

import pytest
from reconciler_mirror.lane.fetch.pieces import MOST_GROWN, pieces_of
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.model import PartitionSpec

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.fetch_response import FetchedPartition
from reconciler.kafka.records.batches import scan
from tests.support.lanes.batches import batch_of

END = 40


def fetched(*bases: int) -> FetchedPartition:
    raw = b"".join(batch_of([(1, None, b"value", [])] * 10, base) for base in bases)
    return FetchedPartition("orders", 0, 0, END, END, 0, (), -1, memoryview(raw))


def copied(answer: FetchedPartition) -> int:
    partition = Partition(PartitionSpec("orders", 0, "east.orders", "id"), committed=0, reached=0, covered=0)
    return pieces_of(partition, answer, None)[1]


def test_batches_in_their_order_are_taken_also_with_holes_and_beyond_the_end_as_it_was() -> None:
    assert copied(fetched(0, 10)) == 20
    assert copied(fetched(0, 25)) == 35, "compaction took what lay between"
    assert copied(fetched(0, END)) == END + 10, "the log has grown since its end was read"


@pytest.mark.parametrize("bases", [(1 << 31,), (0, 1 << 31), (0, 5), (20, 10), (0, END + MOST_GROWN)])
def test_one_that_cannot_lie_there_is_corrupt(bases: tuple[int, ...]) -> None:
    """A flipped bit of its base offset; a soak found a position 2^31 ahead."""
    answer = fetched(*bases)
    assert len(list(scan(answer.records))) == len(bases), "nothing else is wrong with them"
    with pytest.raises(MalformedResponseError, match="a batch says it holds offsets"):
        copied(answer)
