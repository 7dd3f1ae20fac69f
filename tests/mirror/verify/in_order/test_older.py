"""The comparison on plain record streams: it must see every way in which a copy can be wrong, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.verify import tasks
from reconciler_mirror.verify.first_difference import differences, first_difference
from reconciler_mirror.verify.in_order import compare
from reconciler_mirror.verify.in_order.compare import HEAD, Beginning, Continued, beginning_of, offset_behind, shift_of
from reconciler_mirror.verify.in_order.sides import NotOpenedError, SeenRecord, SidePiece
from reconciler_mirror.verify.in_order.walk import Walked, WalkState
from reconciler_mirror.verify.model import (
    SOURCE,
    OffsetSpan,
    PartitionRange,
    PartitionReading,
    TimeWindow,
    VerifiedRecord,
    digest,
    encoded,
    within,
)
from reconciler_mirror.verify.read_partition import Readers

from reconciler.replication.handover import Endpoint
from reconciler.replication.runs.verification import FirstDifference

EAST, WEST = Endpoint("east", ("e:1",)), Endpoint("west", ("w:1",))
data = st.none() | st.binary(max_size=3)
contents = st.builds(
    VerifiedRecord,
    st.just(0),
    st.integers(0, 3),
    data,
    data,
    st.lists(st.tuples(st.text(max_size=2), data), max_size=2).map(tuple),
)


def numbered(count: int, first: int = 0, step: int = 1) -> list[VerifiedRecord]:
    """Offsets ``step`` apart, as transactions and compaction leave them."""
    return [
        VerifiedRecord(step * i, 1_000 + i, b"k%d" % i, b"v%d" % i, (("h", b"%d" % i),))
        for i in range(first, first + count)
    ]


def plan(position: int, *, source_cut: bool = False, target_cut: bool = False) -> PartitionRange:
    source = OffsetSpan(EAST, "t", 0, "read_committed", 0, position, source_cut)
    target = OffsetSpan(WEST, "east.t", 0, "read_committed", 0, 10**9, target_cut)
    return PartitionRange(0, "f", source, target, position, position)


def begun(ours: Sequence[VerifiedRecord], theirs: Sequence[VerifiedRecord], wanted: PartitionRange) -> Beginning:
    def open_side(side: str) -> Iterator[tuple[int, bytes]]:
        return ((one.offset, digest(encoded(one))) for one in (ours if side == SOURCE else theirs))

    found = beginning_of(wanted, open_side)
    if found.source:
        assert offset_behind(open_side(SOURCE), found.source, -1) == next((o.offset for o in ours[found.source :]), -1)
    return found


def altered(records: Sequence[VerifiedRecord], index: int, **changes: object) -> list[VerifiedRecord]:
    return [one._replace(**changes) if i == index else one for i, one in enumerate(records)]  # type: ignore[arg-type]


@given(contents, contents)
def test_only_equal_records_have_equal_bytes(one: VerifiedRecord, other: VerifiedRecord) -> None:
    assert (encoded(one) == encoded(other)) == (one[1:] == other[1:])


@given(st.lists(contents, max_size=8), st.lists(contents, max_size=8))
def test_there_is_a_difference_exactly_when_records_differ(
    ours: list[VerifiedRecord], theirs: list[VerifiedRecord]
) -> None:
    ours = [one._replace(offset=i) for i, one in enumerate(ours)]
    theirs = [one._replace(offset=2 * i) for i, one in enumerate(theirs)]
    same = [one[1:] for one in ours] == [one[1:] for one in theirs]
    assert (first_difference(ours, theirs) is None) == same
    found = list(differences(ours, theirs))
    assert (not found) == same
    if not same:
        first = first_difference(ours, theirs)
        assert first is not None
        assert found[0].record <= first.record


@pytest.mark.parametrize("lost", [1, 3, HEAD - 1, HEAD, 5 * HEAD])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_side_that_lost_its_oldest_records_is_aligned(lost: int, side: str) -> None:
    whole, rest = numbered(400), numbered(400 - lost, lost)
    if side == "source":
        assert begun(rest, whole, plan(400, source_cut=True)) == Beginning(target=lost)
    else:
        assert begun(whole, rest, plan(400, target_cut=True)) == Beginning(source=lost)


@pytest.mark.parametrize("both", [False, True])
def test_alignment_survives_an_altered_record(both: bool) -> None:
    ours = numbered(300)
    theirs = altered(numbered(290, 10), 0, value=b"other")
    assert begun(ours, theirs, plan(300, target_cut=True, source_cut=both)) == Beginning(source=10)


def test_a_missing_first_record_is_not_taken_for_retention() -> None:
    ours = numbered(20)
    assert begun(ours, ours[1:], plan(20)) == begun(ours[1:], ours, plan(20)) == Beginning()
    assert begun(ours, ours[1:], plan(20, source_cut=True)) == Beginning(), "the target has lost nothing"


def test_a_source_whose_retention_removed_everything_leaves_older_records_only() -> None:
    assert begun([], numbered(7), plan(7, source_cut=True)) == Beginning(target=7)
    assert begun(numbered(7), [], plan(7, target_cut=True)) == Beginning(source=7)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=HEAD), st.integers(0, 40))
def test_shift_is_found_among_repeated_records(head: list[int], before: int) -> None:
    digests = [b"%d" % one for one in head] + [b"only here"]
    other = [b"older%d" % i for i in range(before)] + digests
    assert shift_of(digests, other) == (before, len({d for d in digests if digests.count(d) == 1}))


OLDER, BOTH = 70, 30


def read_from(
    monkeypatch: pytest.MonkeyPatch,
    ours: Sequence[VerifiedRecord],
    theirs: Sequence[VerifiedRecord],
    own: list[SidePiece],
) -> PartitionReading:
    """By the comparison itself. Librdkafka reads ``ours`` and ``theirs``, our own client gets ``own``."""
    wanted = plan(OLDER + BOTH, target_cut=True)

    def by_librdkafka(span: OffsetSpan, *_: object, **__: object) -> Iterator[VerifiedRecord]:
        side = ours if span.endpoint == EAST else theirs
        return (record for record in side if span.start <= record.offset < span.end)

    monkeypatch.setattr(tasks, "records", by_librdkafka)
    monkeypatch.setattr(compare, "records", by_librdkafka)
    monkeypatch.setattr(compare, "as_it_is_now", lambda given, _: given)
    readers = Readers()
    monkeypatch.setattr(readers, "own", lambda _: SimpleNamespace(pieces=lambda _: iter(own)))
    [reading] = compare.compared(Continued(wanted), readers)
    return reading


def not_opened() -> list[SeenRecord]:
    raise NotOpenedError


def test_older_records_in_a_batch_that_only_librdkafka_opens_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a side has lost its oldest records, our own client looks for the first common one."""
    ours, theirs = numbered(OLDER + BOTH), numbered(BOTH, OLDER)
    reading = read_from(monkeypatch, ours, theirs, [SidePiece(not_opened)])
    assert (reading.error, reading.older_source, reading.equal, reading.differing) == ("", OLDER, BOTH, 0)


@pytest.mark.parametrize("alone", [(), ("east",), ("west",)])
def test_only_records_that_librdkafka_read_on_both_sides_count_as_read_again(
    monkeypatch: pytest.MonkeyPatch, alone: tuple[str, ...]
) -> None:
    readers, both = Readers(), ((0, 5), (0, 5))
    readers.one_client.update(dict.fromkeys(alone, "no mechanism"))
    monkeypatch.setattr(compare, "records", lambda *_, **__: iter(numbered(5)))
    walked = Walked(WalkState.DONE, PartitionReading(0), samples=(both,))
    assert compare._seen_again(plan(5), walked, readers) == (0 if alone else 5)


def same_kind(ours: Iterable[VerifiedRecord], theirs: Iterable[VerifiedRecord]) -> FirstDifference:
    found = first_difference(ours, theirs)
    assert found is not None
    return found


def test_each_kind_of_difference_has_its_name() -> None:
    ours = numbered(10)
    cases = {
        ("value",): altered(ours, 4, value=b"x"),
        ("key",): altered(ours, 4, key=None),
        ("headers",): altered(ours, 4, headers=()),
        ("timestamp",): altered(ours, 4, timestamp=5),
        ("key", "value"): altered(ours, 4, key=b"", value=None),
        ("missing",): ours[:4] + ours[7:],
        ("extra",): [*ours[:4], VerifiedRecord(99, 1, b"new", None, ()), *ours[4:]],
        ("swapped",): [*ours[:4], ours[5], ours[4], *ours[6:]],
    }
    for what, theirs in cases.items():
        found = same_kind(ours, theirs)
        assert found.what == what
        assert found.record == 4
        assert found.source_offset == 4
        assert found.count == (3 if what == ("missing",) else 1)
        [again] = differences(ours, theirs)
        swapped = what == ("swapped",)
        assert (again.what, again.record, again.source_offset, again.target_offset) == (
            found.what,
            found.record,
            found.source_offset,
            found.target_offset,
        )
        assert again.count == (2 if swapped else found.count)


def test_all_differences_of_a_stretch_are_reported_with_both_offsets() -> None:
    ours = numbered(10)
    theirs = [*ours[:2], ours[2]._replace(value=b"x"), *ours[4:6], VerifiedRecord(99, 1, b"new", None, ()), *ours[6:9]]
    theirs = [one._replace(offset=100 + i) for i, one in enumerate(theirs)]
    told = [(one.what, one.record, one.source_offset, one.target_offset) for one in differences(ours, theirs, 5)]
    assert told == [
        (("value",), 7, 2, 102),
        (("missing",), 8, 3, 103),
        (("extra",), 11, 6, 105),
        (("missing",), 14, 9, None),
    ]


def test_null_and_empty_differ_and_header_order_counts() -> None:
    one = VerifiedRecord(0, 1, b"k", None, (("a", b"1"), ("b", None)))
    for other in (one._replace(value=b""), one._replace(headers=one.headers[::-1]), one._replace(key=None)):
        assert digest(encoded(one)) != digest(encoded(other))


def test_the_ends_are_reported() -> None:
    ours = numbered(5)
    lacking = same_kind(ours, ours[:3])
    assert (lacking.what, lacking.source_offset, lacking.target_offset) == (("missing",), 3, None)
    more = same_kind(ours[:3], ours)
    assert (more.what, more.source_offset, more.target_offset) == (("extra",), None, 3)


def test_nothing_of_a_value_is_shown() -> None:
    secret = b"the secret itself"
    ours = altered(numbered(3), 1, value=secret, key=secret, headers=((secret.decode(), secret),))
    text = repr(same_kind(ours, numbered(3)))
    assert "secret" not in text
    assert f"length={len(secret)}" in text


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 9), st.integers(0, 9))
def test_a_window_cuts_both_sides_at_the_same_records(times: list[int], low: int, high: int) -> None:
    records = [VerifiedRecord(i, time, None, None, ()) for i, time in enumerate(times)]
    sparse = [replace_offset(one) for one in records]
    window = TimeWindow(low, high)
    assert [one[1:] for one in within(records, window)] == [one[1:] for one in within(sparse, window)]
    found = list(within(records, window))
    assert all(one.timestamp < high for one in found)
    assert not found or found[0].timestamp >= low


def replace_offset(record: VerifiedRecord) -> VerifiedRecord:
    return record._replace(offset=3 * record.offset + 1)
