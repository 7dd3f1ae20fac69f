"""Filler batches are such that every broker takes them, and that readers can tell them."""

from __future__ import annotations

import pytest
from reconciler_mirror.lane.same_offsets.holes import filler_batch

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
