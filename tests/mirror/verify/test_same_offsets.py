"""Copies that should lie at the source's offsets, on plain record streams: an offset that differs is a difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.model.lane import PartitionSpec
from reconciler_mirror.verify import report
from reconciler_mirror.verify.bounds import FlowOffsets, at_the_end, judge
from reconciler_mirror.verify.first_difference import confirmed, first_difference
from reconciler_mirror.verify.in_order.sides import SeenRecord, SidePiece
from reconciler_mirror.verify.in_order.walk import Walk
from reconciler_mirror.verify.model import (
    OffsetSpan,
    PartitionRange,
    PartitionReading,
    TimeWindow,
    Unread,
    VerifiedRecord,
    digest,
    encoded,
)
from reconciler_mirror.verify.report import Writer, words, writer_at
from reconciler_mirror.verify.tasks import KeyCounts

from reconciler.kafka.records.batches import Batch
from reconciler.replication.handover import Endpoint, FlowSettings, Naming, Start
from reconciler.replication.offsets.same import producer_of
from reconciler.replication.runs.verification import Equality, FirstDifference

EAST, WEST = Endpoint("east", ("e:1",)), Endpoint("west", ("w:1",))
FLOW = FlowSettings(
    "f", "", EAST, WEST, ("t",), (), Naming(), "exactly_once", "read_committed", Start(), 1, offsets="same"
)
SPEC = PartitionSpec("t", 0, "east.t", "")
PLAN = PartitionRange(
    0,
    "f",
    OffsetSpan(EAST, "t", 0, "read_committed", 0, 1000),
    OffsetSpan(WEST, "east.t", 0, "read_committed", 0, 1000),
    1000,
    1000,
    same_offsets=True,
)


def lying(*offsets: int) -> list[VerifiedRecord]:
    return [VerifiedRecord(offset, 7, b"k", b"%d" % number, ()) for number, offset in enumerate(offsets)]


def equal(ours: Sequence[VerifiedRecord], theirs: Sequence[VerifiedRecord], plan: PartitionRange = PLAN) -> bool:
    def pieces(side: Sequence[VerifiedRecord]) -> Iterator[SidePiece]:
        yield SidePiece(lambda: [SeenRecord(one.offset, one.timestamp, encoded(one)) for one in side])

    return not Walk(plan, (pieces(ours), pieces(theirs))).run().stretches


@given(st.lists(st.integers(0, 900), unique=True, max_size=30).map(sorted), st.data())
def test_equal_means_each_record_at_its_offset(offsets: list[int], data: st.DataObject) -> None:
    assert equal(lying(*offsets), lying(*offsets))
    if offsets:
        at = data.draw(st.integers(0, len(offsets) - 1))
        moved = [offset + (number >= at) for number, offset in enumerate(offsets)]
        assert not equal(lying(*offsets), lying(*moved))
        assert equal(lying(*offsets), lying(*moved), replace(PLAN, same_offsets=False))
        found = first_difference(lying(*offsets), lying(*moved), offsets=True)
        assert found is not None
        assert (found.what, found.source_offset, found.target_offset) == (("offset",), offsets[at], offsets[at] + 1)
        assert first_difference(lying(*offsets), lying(*moved)) is None


def test_the_last_record_of_a_key_has_its_offset_too() -> None:
    (one,), (other,) = lying(5), lying(6)
    key = digest(b"k")
    found = confirmed(PLAN, (key,), {key: one}, {key: other})
    assert found is not None
    assert found.what == ("offset",)
    assert confirmed(PLAN, (key,), {key: one}, {key: one}) is None


def offsets(*, low: int = 0, end: int = 100, target_low: int = 0, target_end: int = 100) -> FlowOffsets:
    there = {("east.t", 0): target_end}
    return FlowOffsets(
        at_the_end({}, there), there, frozenset(), {("t", 0): end}, {("t", 0): low}, {("east.t", 0): target_low}
    )


@pytest.mark.parametrize(("low", "target_low"), [(30, 0), (0, 30), (30, 30)])
def test_what_retention_took_on_one_side_is_left_out_on_both(low: int, target_low: int) -> None:
    judged = judge(FLOW, SPEC, offsets(low=low, target_low=target_low), TimeWindow(), {})
    assert isinstance(judged, PartitionRange)
    assert (judged.source.start, judged.target.start) == (30, 30)
    assert (judged.source.cut, judged.target.cut) == (False, False)
    assert (judged.position, judged.same_offsets) == (100, True)


def test_a_copy_that_is_not_at_the_first_offset_yet_is_unknown() -> None:
    judged = judge(FLOW, SPEC, offsets(low=50, target_end=20), TimeWindow(), {})
    assert isinstance(judged, Unread)
    assert "ends at 20, and east begins at 50" in judged.reason


def test_a_target_that_goes_on_beyond_the_source_is_compared_to_its_end() -> None:
    judged = judge(FLOW, SPEC, offsets(end=90, target_end=100), TimeWindow(), {})
    assert isinstance(judged, PartitionRange)
    found = first_difference(lying(1, 2), lying(1, 2, 95), offsets=True)
    assert found is not None
    assert (found.what, found.target_offset) == (("extra",), 95)


def test_the_position_is_where_the_target_ends() -> None:
    before = {("east.t", 0): LanePosition(3, "id")}
    assert at_the_end(before, {("east.t", 0): 9}) == {("east.t", 0): LanePosition(9, "id")}


def batch(base: int, last: int, producer: tuple[int, int]) -> Batch:
    return Batch(base, 0, 0, 2, 0, 0, last, 0, 0, *producer, 0, last + 1, 0, 0)


def test_who_wrote_is_reported_by_the_batch_that_holds_the_offset() -> None:
    assert writer_at(batch(0, 4, (7, 1)), 3) == Writer(7, 1)
    assert writer_at(batch(5, 0, (-1, -1)), 5) == Writer()
    for gone in (None, batch(7, 0, (7, 1))):
        assert writer_at(gone, 6) == Writer(unknown="offset 6 no longer exists")


@pytest.mark.parametrize(
    ("writer", "mirrors", "said"),
    [
        (Writer(7, 1), None, "producer id 7, epoch 1, wrote it"),
        (Writer(7, 1), 7, "producer id 7, epoch 1, wrote it, which is the mirror's"),
        (Writer(7, 1), 5, "producer id 7, epoch 1, wrote it; the mirror's is 5"),
        (Writer(), 5, "a producer without a producer id wrote it, so not the mirror"),
        (Writer(unknown="no answer"), 5, "who wrote it is not known: no answer"),
    ],
)
def test_whose_the_writer_is(writer: Writer, mirrors: int | None, said: str) -> None:
    assert writer.words(mirrors) == said


@pytest.mark.parametrize(
    ("metadata", "producer"),
    [('{"p":7,"o":1}\0', 7), ('{"o":1}', None), ("", None), ("x", None), ("[1]", None), ("[" * 4000, None)],
)
def test_the_producer_of_the_mirror_is_beside_its_positions(metadata: str, producer: int | None) -> None:
    assert producer_of(metadata) == producer


def test_the_report_names_the_first_offset_the_writer_and_what_to_do() -> None:
    found = FirstDifference(3, ("extra",), None, 95, None, None)
    read, counts = PartitionReading(0, differing=1, differences=(found,)), KeyCounts()
    told = report.partition(PLAN, read, counts, None, Writer(7, 1))
    assert told.state is Equality.DIFFERENT
    assert told.reason.startswith("offsets_diverged: from offset 95 of east.t-0 at west on")
    assert told.reason.endswith("producer id 7, epoch 1, wrote it")
    assert "diverged export" in told.todo
    plain = report.partition(replace(PLAN, same_offsets=False), read, counts, None)
    assert (plain.reason, plain.todo) == ("", "")


def test_a_record_that_the_copy_lacks_is_reported_as_such() -> None:
    what, _ = words(PLAN, FirstDifference(0, ("missing",), 12, None, None, None), None)
    assert what == "offsets_diverged: east.t-0 at west lacks what east has at offset 12"
