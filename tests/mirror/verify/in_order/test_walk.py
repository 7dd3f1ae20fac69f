"""Both sides in step, whatever their batches: what is called equal is, and what differs is named where it lies."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder
from reconciler_mirror.verify.in_order import walk
from reconciler_mirror.verify.in_order.sides import SidePiece
from reconciler_mirror.verify.in_order.walk import Walk, Walked, WalkState
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange
from reconciler_mirror.verify.own_client import canonical, pieces_in

from reconciler.kafka.records.batches import seal
from reconciler.kafka.records.codecs import LZ4
from reconciler.kafka.records.records import Record, encode, tail_of
from reconciler.replication.handover import Endpoint

EAST, WEST = Endpoint("east", ("e:1",)), Endpoint("west", ("w:1",))
Content = tuple[int, bytes]
"""Timestamp and value."""
Log = list[list[Content]]
"""Batches; the offsets have no gaps."""


def view_of(log: Log, first: int, producer: int, codec: int = LZ4) -> memoryview:
    """As a broker sends it: each side has producers, offsets and leader epochs of its own."""
    pieces, offset = [], first
    for batch in log:
        records = [Record(i, at, 0, tail_of(b"k", value, ((b"h", b"x"),))) for i, (at, value) in enumerate(batch)]
        raw = encode(records, codec)
        seal(memoryview(raw), (producer, 3), offset % 7, transactional=producer > 5)
        raw[:8], raw[12:16] = offset.to_bytes(8, "big"), producer.to_bytes(4, "big")
        pieces.append(bytes(raw))
        offset += len(batch)
    return memoryview(b"".join(pieces))


def flat(log: Log) -> list[Content]:
    return [record for batch in log for record in batch]


def walked(
    ours: Log,
    theirs: Log,
    *,
    position: int | None = None,
    first: int = 0,
    codec: int = LZ4,
    part: bool = False,
    over: Callable[[], bool] = lambda: False,
    **changes: object,
) -> Walked:
    """``first``: the target's first offset; ``codec``: of the target."""
    length = len(flat(ours))
    source = OffsetSpan(EAST, "t", 0, "read_committed", 0, length)
    target = OffsetSpan(WEST, "east.t", 0, "read_committed", first, first + len(flat(theirs)))
    plan = PartitionRange(0, "f", source, target, length if position is None else position, length)
    plan = replace(plan, **changes)  # type: ignore[arg-type]

    def opened(span: OffsetSpan) -> Iterator[SidePiece]:
        view = view_of(ours, 0, 1) if span.endpoint == EAST else view_of(theirs, first, 9, codec)
        yield from pieces_in(span, view, ())

    return Walk(plan, (opened(plan.source), opened(plan.target)), canonical, part=part).run(over)


def cut(records: Sequence[Content], sizes: Sequence[int]) -> Log:
    log: Log = []
    at = 0
    for size in sizes:
        log += [list(records[at : at + size])] if records[at : at + size] else []
        at += size
    return [*log, list(records[at:])] if records[at:] else log


def without(records: Sequence[Content], found: Walked, side: int, first: int = 0) -> list[Content]:
    """What is left of a side when the records that differ are taken out."""
    left: list[Content] = []
    at = 0
    for stretch in found.stretches:
        begin = (stretch.source, stretch.target)[side][0] - first
        left += records[at:begin]
        at = begin + stretch.counts[side]
    return left + list(records[at : (found.reading.source_next, found.reading.target_next)[side] - first])


sizes = st.lists(st.integers(1, 70), max_size=12)
contents = st.lists(st.tuples(st.integers(1_000, 1_200), st.binary(max_size=2)), min_size=1, max_size=200)
codecs = st.integers(0, 4)


def distinct(count: int) -> list[Content]:
    return [(1_000 + i, b"value %d" % i) for i in range(count)]


@given(contents, sizes, st.integers(0, 5))
def test_a_copy_in_the_batches_of_its_source_is_proved_unopened(
    records: list[Content], batches: list[int], first: int
) -> None:
    log = cut(records, batches)
    found = walked(log, log, first=first)
    assert (found.state, found.reading.equal, found.reading.by_bytes) == (WalkState.DONE, len(records), len(records))
    assert (found.reading.source_next, found.reading.target_next) == (len(records), first + len(records))
    assert not found.stretches


@given(contents, sizes, sizes, codecs, st.integers(0, 500))
def test_a_copy_in_other_batches_and_codecs_is_equal(
    records: list[Content], batches: list[int], copies: list[int], codec: int, first: int
) -> None:
    found = walked(cut(records, batches), cut(records, copies), codec=codec, first=first)
    assert (found.state, found.reading.equal, found.stretches) == (WalkState.DONE, len(records), ())


@given(contents, contents, sizes, sizes, st.integers(0, 200), st.integers(0, 30), st.booleans())
def test_equal_is_said_of_nothing_else_whatever_the_batches(
    records: list[Content],
    others: list[Content],
    batches: list[int],
    copies: list[int],
    keep: int,
    skip: int,
    timed: bool,
) -> None:
    """``keep``: records that are the same on both sides; then the target has others, and lacks some."""
    theirs = records[:keep] + others[:20] + records[keep + skip :]
    found = walked(cut(records, batches), cut(theirs, copies), timestamps=timed)
    assert found.state is WalkState.DONE

    def seen(side: list[Content]) -> list[object]:
        return [record if timed else record[1] for record in side]

    assert (not found.stretches) == (seen(records) == seen(theirs))
    assert seen(without(records, found, 0)) == seen(without(theirs, found, 1))
    ours, copied = (sum(stretch.counts[side] for stretch in found.stretches) for side in (0, 1))
    assert (found.reading.equal + ours, found.reading.equal + copied) == (len(records), len(theirs))


@given(sizes, sizes, st.integers(100, 300), st.lists(st.integers(0, 299), max_size=6, unique=True), st.data())
def test_each_difference_is_reported_where_it_lies(
    batches: list[int], copies: list[int], count: int, places: list[int], data: st.DataObject
) -> None:
    records = distinct(count)
    theirs: list[Content] = []
    wanted: list[tuple[int, int, tuple[int, int]]] = []
    for index, record in enumerate(records):
        how = data.draw(st.sampled_from(("altered", "missing", "twice"))) if index in places else ""
        at = len(theirs)
        theirs += {"altered": [(record[0], b"other")], "missing": [], "twice": [record, record], "": [record]}[how]
        if how:
            # The one behind is as well the one too many.
            wanted.append((index + (how == "twice"), at + (how == "twice"), _COUNTS[how]))
    found = walked(cut(records, batches), cut(theirs, copies))
    assert found.state is WalkState.DONE
    near = any(b - a < 2 * walk.SURE for a, b in zip(sorted(places), sorted(places)[1:], strict=False))
    assert sum(stretch.differing for stretch in found.stretches) <= len(wanted), "near ones may be told as fewer"
    if not near:
        told = [(stretch.source[0], stretch.target[0], stretch.counts) for stretch in found.stretches]
        assert told == wanted
        assert sum(stretch.differing for stretch in found.stretches) == len(wanted)


_COUNTS = {"altered": (1, 1), "missing": (1, 0), "twice": (0, 1)}


@given(contents, sizes, sizes, st.integers(0, 200))
def test_records_behind_the_position_need_no_copy_yet(
    records: list[Content], batches: list[int], copies: list[int], position: int
) -> None:
    position = min(position, len(records))
    found = walked(cut(records, batches), cut(records[:position], copies), position=position)
    assert (found.state, found.stretches, found.reading.equal) == (WalkState.DONE, (), position)
    if position:
        lacks = walked(cut(records, batches), cut(records[: position - 1], copies), position=position)
        assert [(one.counts, one.source) for one in lacks.stretches] == [((1, 0), (position - 1, position))]


@given(sizes, sizes, st.integers(1, 30))
def test_a_copy_beyond_the_position_may_be_altered_nowhere(batches: list[int], copies: list[int], beyond: int) -> None:
    records = distinct(100)
    theirs = [*records[: 60 + beyond - 1], (1, b"other")]
    found = walked(cut(records, batches), cut(theirs, copies), position=60)
    assert [one.counts for one in found.stretches] == [(1, 1)]
    assert found.reading.source_end == 60 + beyond


@given(contents, sizes, sizes, st.integers(1, 5))
def test_it_goes_on_where_it_paused(records: list[Content], batches: list[int], copies: list[int], steps: int) -> None:
    ours, theirs = cut(records, batches), cut(records, copies)
    looks = iter(range(10**6))
    first = walked(ours, theirs, over=lambda: next(looks) >= steps)
    length = len(records)
    source = OffsetSpan(EAST, "t", 0, "read_committed", first.reading.source_next, length)
    target = OffsetSpan(WEST, "east.t", 0, "read_committed", first.reading.target_next, length)
    rest = walked(ours, theirs, source=source, target=target)
    assert (rest.state, first.reading.equal + rest.reading.equal, rest.stretches) == (WalkState.DONE, length, ())


def test_sides_with_nothing_in_common_any_more_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "AHEAD", (4, 16))
    records = distinct(400)
    found = walked(cut(records, [10] * 40), cut([*records[:100], *((5, b"%d" % i) for i in range(300))], [7] * 60))
    assert (found.state, found.reading.equal, found.reading.source_next) == (WalkState.LOST, 100, 100)
    [stretch] = found.stretches
    assert stretch.lost
    assert (stretch.source[0], stretch.target[0]) == (100, 100)


def test_batches_are_compared_again_behind_a_difference() -> None:
    records = distinct(1_000)
    theirs = [*records[:500], (0, b"other"), *records[501:]]
    found = walked(cut(records, [100] * 10), cut(theirs, [100] * 10))
    assert (found.reading.equal, found.reading.by_bytes) == (999, 900)


def test_a_part_of_the_source_lets_the_target_go_on() -> None:
    records = distinct(100)
    span = OffsetSpan(EAST, "t", 0, "read_committed", 0, 40)
    assert walked(cut(records, [7] * 20), cut(records, [9] * 20), source=span, position=40, part=True).stretches == ()
    last = [*records[:39], (0, b"other"), *records[40:]]
    found = walked(cut(records, [7] * 20), cut(last, [9] * 20), source=span, position=40, part=True)
    assert [(one.source[0], one.counts) for one in found.stretches] == [(39, (1, 1))]


@pytest.mark.parametrize("at", [17, 21, 34, 42, 61, 90, -1])
@pytest.mark.parametrize("batches", [[1, 1], [2]])
def test_a_byte_that_differs_is_not_equal(at: int, batches: list[int]) -> None:
    """In the checksum, attributes, timestamps, the first byte of the records, others, the last."""
    records = [(1_000, b"abcdefgh" * 9), (1_001, b"later")]
    source = OffsetSpan(EAST, "t", 0, "read_committed", 0, 2)
    plan = PartitionRange(0, "f", source, replace(source, endpoint=WEST), 2, 2)
    bad = bytearray(view_of(cut(records, batches), 0, 9))
    bad[at] ^= 1
    views = (view_of([records], 0, 1), memoryview(bad))
    pair = [pieces_in(span, view, ()) for span, view in zip((plan.source, plan.target), views, strict=True)]
    found = Walk(plan, (pair[0], pair[1]), canonical).run()
    assert found.state is not WalkState.DONE or found.stretches


@example(0)
@given(st.integers(0, 400))
def test_a_number_written_with_more_bytes_is_the_same_number(index: int) -> None:
    records = [Record(i, 1_000 + i, 0, tail_of(b"k", b"%d" % i)) for i in range(401)]
    longer = [
        r._replace(tail=memoryview(b"\x82\x00" + bytes(r.tail[1:]))) if i == index else r for i, r in enumerate(records)
    ]
    views = []
    for side in (records, longer):
        raw = encode(side, LZ4)
        seal(memoryview(raw), (1, 1), 0, transactional=False)
        views.append(memoryview(bytes(raw)))
    span = OffsetSpan(EAST, "t", 0, "read_committed", 0, 401)
    plan = PartitionRange(0, "f", span, replace(span, endpoint=WEST), 401, 401)
    pieces = [pieces_in(span, view, ()) for view in views]
    found = Walk(plan, (pieces[0], pieces[1]), canonical).run()
    assert (found.state, found.reading.equal, found.stretches) == (WalkState.DONE, 401, ())


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_what_old_clients_wrote_is_equal_to_its_copy_and_differs_as_any_other(magic: int, codec: int) -> None:
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20)
    for number in range(20):
        builder.append(1_000 + number if magic else None, b"k", b"%d" % number)
    builder.close()
    old = bytearray(builder.buffer())
    if codec:
        struct.pack_into(">q", old, 0, 19)  # as a broker does: a wrapper carries the offset of its last message
    copies = [Record(i, 1_000 + i if magic else -1, 0, tail_of(b"k", b"%d" % i)) for i in range(20)]
    span = OffsetSpan(EAST, "t", 0, "read_committed", 0, 20)
    plan = PartitionRange(0, "f", span, replace(span, endpoint=WEST), 20, 20)
    for theirs, stretches in ((copies, 0), (copies[:7] + copies[8:], 1)):
        raw = encode(theirs, LZ4)
        seal(memoryview(raw), (1, 1), 0, transactional=False)
        views = (memoryview(bytes(old)), memoryview(bytes(raw)))
        pieces = [pieces_in(side, view, ()) for side, view in zip((plan.source, plan.target), views, strict=True)]
        found = Walk(plan, (pieces[0], pieces[1]), canonical).run()
        assert (found.state, len(found.stretches), found.reading.equal) == (WalkState.DONE, stretches, 20 - stretches)
        assert not stretches or found.stretches[0].source[0] == 7


def test_the_same_bytes_at_other_offsets_are_no_copy_with_the_same_offsets() -> None:
    log = [[(1_000, b"a"), (1_001, b"b")]]
    found = walked(log, log, first=3, same_offsets=True)
    assert found.reading.equal == 0
    assert found.stretches
    found = walked(log, log, same_offsets=True)
    assert (found.reading.equal, found.stretches) == (2, ())


def test_a_copy_in_other_batches_is_sampled() -> None:
    records = distinct(100)
    found = walked(cut(records, [3] * 40), cut(records, [50, 50]))
    assert (found.reading.equal, found.reading.by_bytes) == (100, 0)
    assert found.samples, "librdkafka reads some of them, too"


def test_each_stripe_has_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "STRIPE", 1_000)
    log = [[(1_000 + i, b"%d" % i)] for i in range(200)]
    found = walked(log, log)
    assert 2 <= len(found.samples) <= walk.MOST_SAMPLES
    assert all(ours == theirs and ours[1] == ours[0] + 1 for ours, theirs in found.samples)
