"""Every broker takes filler batches, and readers can tell them. A marker that lies before its hole is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest
from reconciler_mirror.lane.same_offsets.holes import DisplacedError, Fillers, fill, filler_batch

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.records.batches import TRANSACTIONAL, scan, seal
from reconciler.kafka.records.fields import headers_at, headers_of
from reconciler.kafka.records.records import key_and_value, records_of


@pytest.mark.parametrize(("count", "named"), [(1, True), (20, True), (21, True), (10_000, True), (100_000, False)])
def test_a_batch_has_as_many_records_as_asked_for(count: int, named: bool) -> None:
    raw = memoryview(filler_batch(count, 77))
    seal(raw, (5, 2), 9, transactional=True)
    (batch,) = scan(raw)
    assert (batch.records, batch.last_delta, batch.producer_id, batch.base_sequence) == (count, count - 1, 5, 9)
    assert batch.attributes & TRANSACTIONAL
    assert len(raw) < 1_000_000, "what a topic takes by default"
    records = records_of(raw, batch)
    assert [record.offset for record in records] == list(range(count))
    for record in (records[0], records[-1]):
        assert (record.timestamp, key_and_value(record)) == (77, (b"", None))
        headers = list(headers_of(record.tail, headers_at(record.tail)))
        assert headers == ([(b"mirror.filler", None)] if named else [])


class ElectedMeanwhile:
    """The leader that the coordinator writes its marker to has a log that ends at ``end``."""

    def __init__(self, end: int) -> None:
        self.end = end

    async def add(self, keys: Iterable[Key]) -> None: ...

    async def append(self, batches: Mapping[Key, Fillers]) -> Mapping[Key, int]:
        return dict.fromkeys(batches, 10)

    async def abort(self, keys: Iterable[Key], *, announce: bool) -> Mapping[Key, int]:
        return dict.fromkeys(keys, self.end + 1)


@pytest.mark.parametrize(("after", "end"), [(11, 9), (11, 3), (13, 11), (13, 5)])
def test_a_marker_before_its_hole_is_displaced(after: int, end: int) -> None:
    """After an unclean election it lies in the place of a record that was copied, and is lost."""
    with pytest.raises(DisplacedError) as displaced:
        asyncio.run(fill(ElectedMeanwhile(end), {("t", 0): (10, after, 7)}))
    assert displaced.value.base < displaced.value.expected


@pytest.mark.parametrize("after", [11, 13])
def test_a_marker_at_the_end_of_its_hole_is_in_its_place(after: int) -> None:
    assert asyncio.run(fill(ElectedMeanwhile(after - 1), {("t", 0): (10, after, 7)})) == {("t", 0): after}
