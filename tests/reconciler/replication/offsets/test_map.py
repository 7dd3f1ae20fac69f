"""The offset map against brute force: whatever was copied, skipped, copied again or forgotten."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reconciler.replication.offsets.map import CopiedRun, Exactness, PartitionMap, Stretch

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
        runs: list[CopiedRun] = []
        for source in range(begin, end):
            if source not in pairs:
                continue
            if runs and (source, pairs[source]) == (runs[-1].source_end, runs[-1].target_end):
                runs[-1] = runs[-1]._replace(records=runs[-1].records + 1)
            else:
                runs.append(CopiedRun(source, pairs[source], 1))
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
    for source in range(max(0, covered[0][0] - 3), covered[-1][1] + 1):
        later = [target for offset, target in pairs.items() if offset >= source]
        found = ours.downstream(source)
        if source < covered[0][0] and min(pairs.values()) > 0:
            assert found.offset is None  # another tool may have copied it
            assert found.gap is not None
            continue
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
    for target in range(max(0, min(pairs.values()) - 2), max(pairs.values()) + 2):
        later = [offset for offset, copy in pairs.items() if copy >= target]
        found = ours.upstream(target)
        if target < min(pairs.values()) and covered[0][0] > 0:
            assert found.offset is None
            assert found.gap is not None
            continue
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


@st.composite
def continued(draw: st.DrawFn) -> tuple[list[int | None], int, PartitionMap]:
    """A target log as a list of source offsets (None: a marker, or a record of somebody else): first what another tool
    copied from the source's beginning, some of it twice, then what a flow copied from where it was told to start, with
    seeks, losses and sessions whose map was never written. With the flow's position."""
    log: list[int | None] = []
    source = 0
    for step in draw(st.lists(st.sampled_from(["copy", "skip", "other", "again"]), max_size=15)):
        if step != "other":
            source = max(0, source - 2) if step == "again" else source + 1
        if step != "skip":
            log.append(source - 1 if step == "copy" else None)
    copied = max((offset + 1 for offset in log if offset is not None), default=0)
    start = source = copied + draw(st.sampled_from([0, 0, 3]))
    seeks = draw(st.sampled_from([(0, 2, 5), (0, 0, -3)]))
    stretches, left_out = [], draw(st.sets(st.integers(0, 40)))
    for session in range(draw(st.integers(1, 4))):
        if session:
            source = max(start, source + draw(st.sampled_from(seeks)))
        begin, runs = source, []
        for _ in range(draw(st.integers(1, 8))):
            if source not in left_out:
                runs.append(CopiedRun(source, len(log), 1))
                log.append(source)
            source += 1
        log.append(None)
        if draw(st.integers(0, 3)):
            stretches.append(Stretch(begin, source, tuple(runs), first=session == 0))
    return log, source, PartitionMap(stretches)


@given(continued())
def test_of_a_copy_that_another_tool_began_it_is_never_ahead(case: tuple[list[int | None], int, PartitionMap]) -> None:
    """A consumer that goes on where it says passes over no copy of a record it has still to read, whoever made it;
    but for those that the flow, set back, copies again."""
    log, position, ours = case
    for source in range(position + 2):
        offset = ours.downstream(source).offset
        if offset is not None:
            assert {at for at in log[:offset] if at is not None and source <= at < position} <= set(log[offset:])
    for target in range(len(log) + 1):
        offset = ours.upstream(target).offset
        if offset is not None:
            assert {at for at in log[target:] if at is not None and at < offset} <= set(log[:target])


def test_what_was_copied_again_counts_once() -> None:
    """Somebody set the position back from 200 to 50: the later copies are the ones a consumer has to read."""
    ours = PartitionMap(
        [Stretch(0, 200, (CopiedRun(0, 0, 200),), first=True), Stretch(50, 60, (CopiedRun(50, 300, 10),))]
    )
    assert ours.downstream(49).offset == 49
    assert ours.downstream(50).offset == 300
    assert ours.downstream(60) == PartitionMap([Stretch(50, 60, (CopiedRun(50, 300, 10),))]).downstream(60)
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


@given(copies(), st.integers(-1, 3), st.integers(0, 60), st.integers(0, 120))
def test_what_holds_no_copy_is_known_but_for_gaps_of_the_map(
    made: tuple[dict[int, int], list[tuple[int, int]]], forgotten: int, begin: int, size: int
) -> None:
    """``forgotten``: a session whose lane was killed before it could write."""
    pairs, covered = made
    stretches = _stretches(pairs, covered)
    if len(stretches) < len(covered):
        return
    whole = forgotten not in range(len(stretches))
    kept = PartitionMap(each for number, each in enumerate(stretches) if number != forgotten)
    free = {at for span in kept.uncopied(begin, begin + size, covered[-1][1]) for at in range(*span)}
    assert free <= set(range(begin, begin + size)) - {*pairs.values()}
    if whole:
        assert free == set(range(begin, begin + size)) - {*pairs.values()}
    assert not [at for at in free if at > max(pairs.values())] or forgotten != len(stretches) - 1


def test_a_repeated_stretch_leaves_what_lies_before_it_open() -> None:
    """After a seek backwards the copies before it may be missing in the map."""
    first, again = Stretch(0, 10, (CopiedRun(0, 0, 10),)), Stretch(4, 12, (CopiedRun(4, 20, 8),))
    assert PartitionMap([first, again]).uncopied(0, 40, 12) == [(28, 40)]
    assert PartitionMap([first, replace(again, begin=10)]).uncopied(0, 40, 12) == [(10, 20), (28, 40)]
    assert PartitionMap([first]).uncopied(0, 40, 12) == []
    assert PartitionMap([]).uncopied(3, 7, 0) == [(3, 7)]
