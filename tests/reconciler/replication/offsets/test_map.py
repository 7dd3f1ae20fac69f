"""The offset map against brute force: whatever was copied, skipped, copied again or forgotten."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from replication.offset_map import Exactness, PartitionMap, Run, Stretch

EXACT = {Exactness.RECORD, Exactness.NEXT, Exactness.END}


@st.composite
def copies(draw: st.DrawFn) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """(source offset -> target offset, covered ranges of source offsets), as sessions of a lane leave them."""
    source, target = draw(st.integers(0, 50)), draw(st.integers(0, 50))
    pairs: dict[int, int] = {}
    covered = []
    for _ in range(draw(st.integers(1, 4))):
        begin = source
        for copied in draw(st.lists(st.booleans(), min_size=1, max_size=12)):
            if copied:
                pairs[source] = target
                target += 1
            elif draw(st.booleans()):
                target += 1  # a marker on the target
            source += 1
        covered.append((begin, source))
    return pairs, covered


def _stretches(pairs: dict[int, int], covered: list[tuple[int, int]]) -> list[Stretch]:
    found = []
    for index, (begin, end) in enumerate(covered):
        runs: list[Run] = []
        for source in range(begin, end):
            if source not in pairs:
                continue
            if runs and (source, pairs[source]) == (runs[-1].source_end, runs[-1].target_end):
                runs[-1] = runs[-1]._replace(records=runs[-1].records + 1)
            else:
                runs.append(Run(source, pairs[source], 1))
        if runs:
            found.append(Stretch(begin, end, tuple(runs), first=index == 0))
    return found


@given(copies())
def test_every_position_translates_to_the_first_record_at_or_after_it(
    made: tuple[dict[int, int], list[tuple[int, int]]],
) -> None:
    pairs, covered = made
    stretches = _stretches(pairs, covered)
    if len(stretches) < len(covered):
        return  # a range without a copy is not written: see the test of gaps
    ours = PartitionMap(reversed(stretches))
    for source in range(covered[0][0] - 3, covered[-1][1] + 1):
        later = [target for offset, target in pairs.items() if offset >= source]
        found = ours.downstream(source)
        assert found.exact
        assert found.offset == (min(later) if later else max(pairs.values()) + 1)
        assert (found.exactness is Exactness.RECORD) == (source in pairs)


@given(copies())
def test_and_back(made: tuple[dict[int, int], list[tuple[int, int]]]) -> None:
    pairs, covered = made
    stretches = _stretches(pairs, covered)
    if len(stretches) < len(covered):
        return
    ours = PartitionMap(stretches)
    for target in range(min(pairs.values()) - 2, max(pairs.values()) + 2):
        later = [offset for offset, copy in pairs.items() if copy >= target]
        found = ours.upstream(target)
        assert found.exact
        assert found.offset == (min(later) if later else covered[-1][1])


@given(copies(), st.sets(st.integers(0, 3)))
def test_with_stretches_lost_it_is_never_ahead_and_says_where_it_is_not_exact(
    made: tuple[dict[int, int], list[tuple[int, int]]], lost: set[int]
) -> None:
    pairs, covered = made
    kept = [stretch for index, stretch in enumerate(_stretches(pairs, covered)) if index not in lost]
    ours = PartitionMap(kept)
    for source in range(covered[-1][1] + 3):
        later = [target for offset, target in pairs.items() if offset >= source]
        right = min(later) if later else max(pairs.values(), default=-1) + 1
        found = ours.downstream(source)
        if found.offset is None:
            assert found.reason
            continue
        assert found.offset <= right
        if found.exact and found.exactness is not Exactness.END:
            assert found.offset == right
        if not found.exact:
            assert found.reason
            assert found.gap is not None


def test_what_was_copied_again_counts_once() -> None:
    """Somebody set the position back from 200 to 50: the later copies are the ones a consumer has to read."""
    ours = PartitionMap([Stretch(0, 200, (Run(0, 0, 200),), first=True), Stretch(50, 60, (Run(50, 300, 10),))])
    assert ours.downstream(49).offset == 49
    assert ours.downstream(50).offset == 300
    assert ours.downstream(60) == PartitionMap([Stretch(50, 60, (Run(50, 300, 10),))]).downstream(60)
    assert not ours.downstream(150).exact
    assert ours.upstream(100).offset == 100
    assert ours.upstream(305).offset == 55


def test_an_empty_map_knows_nothing() -> None:
    assert PartitionMap([]).downstream(7).exactness is Exactness.UNKNOWN
    assert PartitionMap([]).upstream(7).exactness is Exactness.UNKNOWN


@given(copies(), st.data())
def test_a_part_that_is_said_again_changes_nothing(
    made: tuple[dict[int, int], list[tuple[int, int]]], data: st.DataObject
) -> None:
    """A gap that was counted, and then written by its lane after all."""
    pairs, covered = made
    stretches = _stretches(pairs, covered)
    begin = data.draw(st.integers(covered[0][0], covered[-1][1]))
    end = data.draw(st.integers(begin, covered[-1][1]))
    pieces = [(max(begin, low), min(end, high)) for low, high in covered if max(begin, low) < min(end, high)]
    again = [replace(one, first=False) for one in _stretches(pairs, pieces)]
    once, twice = PartitionMap(stretches), PartitionMap([*stretches, *again])
    for offset in range(covered[-1][1] + 2):
        assert twice.downstream(offset) == once.downstream(offset)
        assert twice.upstream(offset) == once.upstream(offset)
