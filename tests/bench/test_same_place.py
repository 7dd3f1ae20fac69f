"""What ``bench.soak.kills`` calls the same, and what not."""

from __future__ import annotations

import pytest

from bench.soak.kills import Round, table
from bench.soak.same_place import PartitionLog, Record, difference


def log(end: int, **records: int) -> PartitionLog:
    """``k3=1``: key k at offset 3 with content 1."""
    placed = {int(name[1:]): Record(name[:1].encode(), b"%d" % content) for name, content in records.items()}
    return PartitionLog(dict(sorted(placed.items())), end)


def test_equal_logs_with_holes_are_the_same() -> None:
    assert difference(log(9, a0=1, b4=2), log(9, a0=1, b4=2)) == ""


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (log(8, a0=1, b4=2), "the source ends at 9, its copy at 8"),
        (log(9, a0=1), "1 offsets differ, the first is 4: source a record, copy none"),
        (log(9, a0=1, b4=3), "1 offsets differ, the first is 4: source a record, copy a record"),
        (log(9, a0=1, c4=2), "1 offsets differ, the first is 4: source a record, copy a record"),
        (log(9, a0=1, b5=2), "2 offsets differ, the first is 4: source a record, copy none"),
        (log(9, a0=1, b4=2, b5=2), "1 offsets differ, the first is 5: source none, copy a record"),
    ],
)
def test_one_offset_that_differs_is_named(copy: PartitionLog, said: str) -> None:
    assert difference(log(9, a0=1, b4=2), copy) == said


def test_compaction_of_one_side_is_no_difference_and_a_lost_last_record_is() -> None:
    source = log(9, a0=1, b1=1, a4=2)
    assert difference(source, log(9, b1=1, a4=2), compacted=True) == ""
    assert difference(log(9, b1=1, a4=2), source, compacted=True) == ""
    assert difference(source, log(9, a0=1, b1=1), compacted=True).startswith("1 offsets differ, the first is 0")
    assert difference(source, log(9, a4=2), compacted=True).startswith("1 offsets differ, the first is 1")
    assert difference(source, log(9, b1=1, a4=2, c5=1), compacted=True).startswith("1 offsets differ, the first is 5")
    assert difference(source, log(9, b1=1, a4=3), compacted=True).startswith("1 offsets differ, the first is 4")


def test_rounds_are_summed_by_what_was_killed() -> None:
    done = [Round(1, "a", 3.0, 1.0), Round(2, "b", 1.0, 1.0), Round(3, "a", 5.0, 1.0), Round(4, "a", 4.0, 1.0)]
    assert table(done).splitlines()[2:] == ["| a | 3 | 4.0, 5.0 |", "| b | 1 | 1.0, 1.0 |"]
