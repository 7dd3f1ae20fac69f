"""Records that a killed copier left after its stored position, found from both logs: against one that is killed at
random."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.offsets.in_flight import pair


@dataclass(frozen=True)
class Killed:
    """``stored``: the position in the end, ``reached``: up to where records were ever copied."""

    source: list[int]
    target: list[int]
    stored: int
    reached: int


@st.composite
def killed(draw: st.DrawFn, *, distinct: bool) -> Killed:
    """Each run begins at the stored position, copies some records, stores how far it came, copies on, and is killed."""
    source = draw(st.lists(st.integers(0, 300 if distinct else 4), max_size=25, unique=distinct))
    stored, reached, target = 0, 0, list[int]()
    for _ in range(draw(st.integers(1, 4))):
        end = draw(st.integers(stored, len(source)))
        target += source[stored:end]
        stored, reached = draw(st.integers(stored, end)), max(reached, end)
    return Killed(source, target, stored, reached)


def told(it: Killed) -> tuple[int, int]:
    return pair(it.source[: it.stored], it.source[it.stored :], it.target)


@given(killed(distinct=True))
def test_records_that_differ_are_found_to_the_last_one(it: Killed) -> None:
    assert told(it) == (it.reached - it.stored, 0)


@given(killed(distinct=False))
def test_none_is_passed_over_and_none_doubles_untold(it: Killed) -> None:
    """Also where records are equal: by brute force, what was copied is all up to ``reached``."""
    copied, again = told(it)
    assert it.stored + copied <= it.reached
    assert it.reached - (it.stored + copied) <= again


@given(killed(distinct=True), st.data())
def test_records_of_other_writers_between_them_change_nothing(it: Killed, data: st.DataObject) -> None:
    for other in data.draw(st.lists(st.integers(1000, 1010), max_size=5)):
        it.target.insert(data.draw(st.integers(0, len(it.target))), other)
    assert told(it) == (it.reached - it.stored, 0)


@given(killed(distinct=True), st.data())
def test_what_follows_a_record_that_is_missing_is_counted_and_not_skipped(it: Killed, data: st.DataObject) -> None:
    """Filtered, changed or compacted on the way."""
    behind = it.source[it.stored : it.reached]
    if not behind:
        return
    gone = data.draw(st.integers(0, len(behind) - 1))
    target = [record for record in it.target if record != behind[gone]]
    assert pair(it.source[: it.stored], it.source[it.stored :], target) == (gone, len(behind) - gone - 1)
