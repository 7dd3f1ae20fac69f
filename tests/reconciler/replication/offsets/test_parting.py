"""Two logs, one of which was the beginning of the other: where they part, found without reading all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.offsets.close_gaps import LogBounds
from reconciler.replication.offsets.parting import LogRecord, Parting, find_parting, first_apart
from reconciler.replication.offsets.same import FILLER_LIMIT, above_limit, as_committed, filler_cost

Log = Mapping[int, int]


class Counted:
    """A log that knows how many of its offsets were asked for."""

    def __init__(self, log: Log) -> None:
        self.log, self.asked = log, 0

    async def read(self, begin: int, end: int) -> list[LogRecord]:
        self.asked += end - begin
        return [(offset, self.log[offset]) for offset in sorted(self.log) if begin <= offset < end]


def parting(source: Log, target: Log, ends: tuple[int, int], begins: tuple[int, int] = (0, 0)) -> Parting:
    sides = [LogBounds(begin, end) for begin, end in zip(begins, ends, strict=True)]
    return asyncio.run(find_parting(sides[0], sides[1], Counted(source).read, Counted(target).read))


def of(*offsets: int, by: int = 0) -> dict[int, int]:
    return {offset: offset * 1000 + by for offset in offsets}


shared = st.sets(st.integers(0, 3_000)).map(lambda offsets: of(*offsets))
own = st.sets(st.integers(0, 3_000))


@given(shared, own, own, st.integers(0, 3_000))
def test_it_is_the_first_record_that_only_one_side_has(
    common: dict[int, int], ours: set[int], theirs: set[int], failover: int
) -> None:
    """Everything below ``failover`` is common; above it each side has its own."""
    before = {offset: content for offset, content in common.items() if offset < failover}
    source = before | of(*(o for o in ours if o >= failover), by=1)
    target = before | of(*(o for o in theirs if o >= failover), by=2)
    ends = tuple(max(log, default=failover - 1) + 1 if log else 0 for log in (source, target))
    found = parting(source, target, (ends[0], ends[1]))
    apart = [o for o in {*source, *target} if source.get(o) != target.get(o)]
    expected = min([*(o for o in apart if o < min(ends)), min(ends)])
    assert found.at == expected
    assert found.proved
    assert all(source.get(o) == target.get(o) for o in {*source, *target} if o < found.at)


def test_a_long_log_is_not_read_to_its_beginning() -> None:
    log = of(*range(100_000))
    source, target = (
        Counted(log | of(*range(100_000, 100_010), by=1)),
        Counted(log | of(*range(100_000, 100_500), by=2)),
    )
    found = asyncio.run(find_parting(LogBounds(0, 100_010), LogBounds(0, 100_500), source.read, target.read))
    assert (found.at, found.diverged) == (100_000, True)
    assert source.asked < 2_000


def test_a_copy_that_is_only_behind_has_not_diverged() -> None:
    found = parting(of(*range(20)), of(*range(15)), (20, 15))
    assert (found.at, found.source_goes_on, found.target_goes_on, found.diverged) == (15, True, False, False)


def test_an_old_source_that_is_the_beginning_of_the_target_can_be_filled() -> None:
    found = parting(of(*range(15)), of(*range(20)), (15, 20))
    assert (found.at, found.target_goes_on, found.diverged) == (15, True, False)


def test_where_retention_took_the_proof_that_is_said() -> None:
    assert not parting(of(5, by=1), of(5, by=2), (6, 6), (5, 0)).proved
    assert parting({}, {}, (7, 7), (7, 7)).proved, "nothing is left that could differ"


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ([], [], (None, False)),
        ([(1, 1)], [(1, 1)], (None, True)),
        ([(1, 1)], [], (1, False)),
        ([(1, 1), (2, 2)], [(1, 1), (2, 9)], (2, True)),
        ([(1, 1)], [(0, 1), (1, 1)], (0, False)),
        ([(1, 1), (4, 4)], [(1, 1)], (4, True)),
    ],
)
def test_two_stretches(here: list[LogRecord], there: list[LogRecord], expected: tuple[int | None, bool]) -> None:
    assert first_apart(here, there) == expected


def test_what_fillers_cost() -> None:
    cost = filler_cost([0, 150_000, 50_000])
    assert (cost.partitions, cost.offsets, cost.bytes) == (2, 200_000, 168_000)
    assert (above_limit(FILLER_LIMIT, None), above_limit(FILLER_LIMIT + 1, None), above_limit(5, 4)) == (
        False,
        True,
        True,
    )


@pytest.mark.parametrize(("end", "offset", "exact"), [(10, 10, True), (9, 9, False), (None, None, False)])
def test_one_committed_offset(end: int | None, offset: int | None, exact: bool) -> None:
    translation = as_committed(10, end)
    assert (translation.offset, translation.exact) == (offset, exact)


def test_an_offset_beyond_the_log_it_is_of_is_not_called_a_copy_that_is_behind() -> None:
    assert as_committed(10, 9).reason == "the copy ends at 9, and the group is at 10"
    assert as_committed(10, 9, "beyond").reason == "beyond"
