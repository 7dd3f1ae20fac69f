"""Equal batches prove what they hold, and nothing else: against the comparison of the records themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.verify import whole_batches
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange
from reconciler_mirror.verify.own_client import batches_in
from reconciler_mirror.verify.whole_batches import DataBatch, EqualBatches, equal_batches, rest

from reconciler.kafka.records.batches import seal
from reconciler.kafka.records.codecs import LZ4
from reconciler.kafka.records.records import Record, encode, tail_of
from reconciler.replication.handover import Endpoint

EAST, WEST = Endpoint("east", ("e:1",)), Endpoint("west", ("w:1",))
Content = tuple[int, bytes]
"""Timestamp and value."""
Log = list[list[Content]]
"""Batches; the offsets have no gaps."""


def view_of(log: Log, first: int, producer: int) -> memoryview:
    """As a broker sends it: each side has producers, offsets and leader epochs of its own."""
    pieces, offset = [], first
    for batch in log:
        records = [Record(i, at, 0, tail_of(b"k", value, ((b"h", b"x"),))) for i, (at, value) in enumerate(batch)]
        raw = encode(records, LZ4)
        seal(memoryview(raw), (producer, 3), offset % 7, transactional=producer > 5)
        raw[:8], raw[12:16] = offset.to_bytes(8, "big"), producer.to_bytes(4, "big")
        pieces.append(bytes(raw))
        offset += len(batch)
    return memoryview(b"".join(pieces))


def flat(log: Log) -> list[Content]:
    return [record for batch in log for record in batch]


def proved(
    ours: Log, theirs: Log, *, position: int | None = None, first: int = 0, **changes: object
) -> tuple[EqualBatches | None, PartitionRange]:
    """``first``: the target's first offset."""
    length = len(flat(ours))
    source = OffsetSpan(EAST, "t", 0, "read_committed", 0, length)
    target = OffsetSpan(WEST, "east.t", 0, "read_committed", first, first + len(flat(theirs)))
    plan = PartitionRange(0, "f", source, target, length if position is None else position, length)
    plan = replace(plan, **changes)  # type: ignore[arg-type]

    def opened(span: OffsetSpan) -> Iterator[DataBatch]:
        view = view_of(ours, 0, 1) if span.endpoint == EAST else view_of(theirs, first, 9)
        yield from batches_in(span, view, ())

    return equal_batches(plan, opened), plan


def cut(records: Sequence[Content], sizes: Sequence[int]) -> Log:
    log: Log = []
    at = 0
    for size in sizes:
        log += [list(records[at : at + size])] if records[at : at + size] else []
        at += size
    return [*log, list(records[at:])] if records[at:] else log


sizes = st.lists(st.integers(1, 4), max_size=12)
contents = st.lists(st.tuples(st.integers(1_000, 1_003), st.binary(max_size=2)), min_size=1, max_size=30)


@given(contents, sizes, st.integers(0, 5))
def test_a_copy_in_the_batches_of_its_source_is_proved_unopened(
    records: list[Content], batches: list[int], first: int
) -> None:
    log = cut(records, batches)
    equal, _ = proved(log, log, first=first)
    assert equal is not None
    assert (equal.whole, equal.records, equal.by_bytes) == (True, len(records), len(records))
    assert (equal.source_next, equal.target_next) == (len(records), first + len(records))


@given(contents, contents, sizes, sizes, st.integers(0, 30), st.booleans())
def test_what_is_proved_is_equal_whatever_the_batches(
    records: list[Content], others: list[Content], batches: list[int], copies: list[int], keep: int, plus: bool
) -> None:
    """``keep``: records that are the same on both sides; then the target ends, or has others."""
    theirs = records[:keep] + (others if plus else [])
    equal, plan = proved(cut(records, batches), cut(theirs, copies))
    if equal is None:
        return
    assert records[: equal.records] == theirs[: equal.records]
    assert (equal.source_next, equal.target_next) == (equal.records, equal.records)
    left = rest(plan, equal)
    assert (left.source.start, left.target.start) == (equal.records, equal.records)
    assert equal.whole is (records == theirs)


@given(contents, sizes, sizes, st.integers(0, 30))
def test_records_behind_the_position_need_no_copy_yet(
    records: list[Content], batches: list[int], copies: list[int], position: int
) -> None:
    position = min(position, len(records))
    theirs = records[:position]
    equal, _ = proved(cut(records, batches), cut(theirs, copies), position=position)
    assert (equal is not None and equal.whole) or position not in _ends(batches, len(records)), "both end there"
    assert equal is None or equal.records <= position


def _ends(batches: Sequence[int], length: int) -> set[int]:
    ends = {0}
    for size in batches:
        ends.add(min(length, max(ends) + size))
    return ends | {length}


@given(contents, sizes, st.integers(0, 4), st.booleans())
def test_a_side_that_lost_its_oldest_batches_is_aligned_or_not_proved(
    records: list[Content], batches: list[int], lost: int, at_source: bool
) -> None:
    log = cut(records, batches)
    shorter = log[lost:]
    ours, theirs = (shorter, log) if at_source else (log, shorter)
    wanted = replace(OffsetSpan(EAST, "t", 0, "read_committed", 0, len(flat(ours))), cut=at_source)
    target = OffsetSpan(WEST, "east.t", 0, "read_committed", 0, len(flat(theirs)), cut=not at_source)
    equal, _ = proved(ours, theirs, source=wanted, target=target)
    if equal is None:
        return
    assert equal.whole
    older = (equal.older_source, equal.older_target)
    assert (0 if at_source else older[0], older[1] if at_source else 0) == older
    longer = flat(log)
    assert longer[sum(older) : sum(older) + equal.records] == flat(shorter)[: equal.records]
    assert sum(older) + equal.records == len(longer)


@pytest.mark.parametrize("at", [17, 21, 34, 42, 61, 90, -1])
def test_a_byte_that_differs_is_not_proved(at: int) -> None:
    """In the checksum, attributes, timestamps, the first byte of the records, others, the last."""
    log = [[(1_000, b"abcdefgh" * 9)], [(1_001, b"later")]]
    source = OffsetSpan(EAST, "t", 0, "read_committed", 0, 2)
    plan = PartitionRange(0, "f", source, replace(source, endpoint=WEST), 2, 2)
    bad = bytearray(view_of(log, 0, 9))
    bad[at] ^= 1
    views = {"east": view_of(log, 0, 1), "west": memoryview(bad)}
    equal = equal_batches(plan, lambda span: batches_in(span, views[span.endpoint.cluster], ()))
    assert equal is None or not equal.whole


def test_the_same_bytes_at_other_offsets_are_no_copy_with_the_same_offsets() -> None:
    log = [[(1_000, b"a"), (1_001, b"b")]]
    equal, _ = proved(log, log, first=3, same_offsets=True)
    assert equal is None
    equal, _ = proved(log, log, same_offsets=True)
    assert equal is not None
    assert equal.whole


def test_a_copy_in_other_batches_is_proved_by_its_records_and_sampled() -> None:
    records = [(1_000 + i, b"%d" % i) for i in range(100)]
    equal, _ = proved(cut(records, [3] * 40), cut(records, [50, 50]))
    assert equal is not None
    assert (equal.whole, equal.records, equal.by_bytes) == (True, 100, 0)
    assert equal.samples, "librdkafka reads some of them, too"


def test_each_stripe_has_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_batches, "STRIPE", 1_000)
    log = [[(1_000 + i, b"%d" % i)] for i in range(200)]
    equal, _ = proved(log, log)
    assert equal is not None
    assert 2 <= len(equal.samples) <= whole_batches.MOST_SAMPLES
    assert all(ours == theirs and ours[1] == ours[0] + 1 for ours, theirs in equal.samples)
