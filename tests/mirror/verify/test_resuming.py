"""What is compared while Spark starts: as much as time allows, a piece at a time; the rest is left to its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from reconciler_mirror.verify import resuming
from reconciler_mirror.verify.in_order.compare import Continued
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange, PartitionReading
from reconciler_mirror.verify.read_partition import Readers
from reconciler_mirror.verify.resuming import ReadSoFar

from reconciler.replication.handover import Endpoint

EAST, WEST = (Endpoint(name, ("h:1",), {}) for name in ("east", "west"))


def plan(index: int, count: int, *, cut: bool = False) -> PartitionRange:
    ours, theirs = (OffsetSpan(endpoint, "orders", index, "read_committed", 0, count, cut) for endpoint in (EAST, WEST))
    return PartitionRange(index, "f", ours, theirs, count, count)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each look at the clock is a second; the comparison pauses after 100 offsets."""
    seconds = [0]

    def compared(given: Continued, readers: Readers, over: Callable[[], bool]) -> Iterator[PartitionReading]:
        assert isinstance(readers, Readers)
        begin, end = given.source_next or 0, given.plan.source.end
        at = begin
        while at < end and not (at > begin and over()):
            at = min(end, at + 100)
        reading = PartitionReading(given.plan.index, source_next=at, target_next=at, done=at == end)
        yield replace(reading, equal=at - begin)

    monkeypatch.setattr(resuming, "compared", compared)
    return seconds


def after(seconds: list[int], end: int) -> Callable[[], bool]:
    def over() -> bool:
        seconds[0] += 1
        return seconds[0] > end

    return over


def test_small_mirrors_are_compared_before_spark_is_there(clock: list[int]) -> None:
    so_far = ReadSoFar([plan(0, 300), plan(1, 50, cut=True)], {})
    so_far.read_here(after(clock, 99))
    assert (so_far.unfinished(), so_far.offsets_read) == ([], 700)


def test_the_rest_is_continued_where_time_was_over(clock: list[int]) -> None:
    so_far = ReadSoFar([plan(0, 1_000), plan(1, 1_000)], {})
    so_far.read_here(after(clock, 3))
    begun, fresh = map(so_far.continued, so_far.unfinished())
    assert (begun.source_next, fresh.source_next) == (300, None)
    assert so_far.offsets_read == 600
    so_far.read_here(after(clock, 99))
    assert so_far.readings[0].equal == 1_000, "pieces add up"
    assert so_far.offsets_read == 4_000


def test_spark_does_not_wait_for_what_cannot_be_left_in_its_middle(clock: list[int]) -> None:
    so_far = ReadSoFar([plan(0, 50_001, cut=True), replace(plan(1, 60_000), parts=((0, 60_000),)), plan(2, 9)], {})
    so_far.read_here(after(clock, 99))
    assert [each.index for each in so_far.unfinished()] == [0, 1]


def test_what_an_earlier_run_compared_is_not_read_again(clock: list[int]) -> None:
    so_far = ReadSoFar([plan(0, 300)], {0: PartitionReading(0, source_next=300, target_next=300, equal=300)})
    so_far.read_here(after(clock, 99))
    assert (so_far.offsets_read, clock) == (600, [0])
