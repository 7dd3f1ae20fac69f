"""Two implementations of record work, over bytes and over decoded records, say the same of every record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.model.lane import PartitionSpec, ProvenanceSettings, RecordWork
from reconciler_mirror.record_work import provenance_header as provenance
from reconciler_mirror.record_work.on_bytes import RecordWorker
from reconciler_mirror.record_work.on_records import Decoded, DecodedWorker, NotCopied, RecordRoute

from reconciler.kafka.records import fields
from reconciler.kafka.records.records import Record
from reconciler.replication.expressions.record_filter import AddedHeader
from reconciler.replication.handover import FORWARD, LOCAL, Provenance
from tests.support.lanes.record_filters import wheres

EAST, WEST, NORTH = (provenance.short_id(name) for name in ("east", "west", "north"))
PLACE = RecordRoute("flow", "east", "orders", 3, "orders")
SPEC = PartitionSpec("orders", 3, "orders", "id")

_data = st.none() | st.binary(max_size=6)
_paths = st.lists(st.sampled_from([EAST, WEST, NORTH]), min_size=1, max_size=3, unique=True).map(tuple)
_own = st.lists(st.tuples(st.sampled_from(["a", "b", "é"]), _data), max_size=3)
_marks = st.lists(_paths | st.sampled_from([b"", b"\x01", b"\x02rubbish", b"\x01" * 11]), max_size=2)
_works = st.builds(
    RecordWork,
    st.none() | wheres,
    st.sampled_from([(), (AddedHeader("a", "{offset}"), AddedHeader("x", "{{{flow}}}"))]),
    st.none() | st.builds(Provenance, st.sampled_from([LOCAL, FORWARD])),
)


@given(_works, st.integers(0, 9), _data, _data, _own, _marks)
def test_bytes_and_decoded_records_agree(
    work: RecordWork,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    own: list[tuple[str, bytes | None]],
    marks: list[provenance.Path | bytes],
) -> None:
    ground = ProvenanceSettings(EAST, WEST)
    check = provenance.check_of("orders", fields.body(key, value))
    told = [provenance.value(check, mark) if isinstance(mark, tuple) else mark for mark in marks]
    texts = [*own, *(("mirror.path", mark) for mark in told)]
    decoded = Decoded(7, timestamp, key, value, texts)
    encoded = [(name.encode(), data) for name, data in texts]
    body = fields.body(key, value)
    tail = fields.with_headers(memoryview(body + b"\0"), len(body), encoded)
    done = RecordWorker(work, SPEC, ("flow", "east"), ground).apply([Record(7, timestamp, 0, tail)])
    found = DecodedWorker(work, ground, PLACE).headers(decoded)
    if isinstance(found, NotCopied):
        assert done.kept == []
        assert (done.filtered, done.returning) == (found is NotCopied.FILTERED, found is NotCopied.RETURNING)
        return
    (kept,) = done.kept
    at = fields.headers_at(kept.tail)
    assert fields.headers_of(kept.tail, at) == [(name.encode(), data) for name, data in found]
    assert bytes(kept.tail[:at]) == body
    if work.provenance is not None:
        copy = Decoded(0, timestamp, key, value, found)
        assert DecodedWorker(work, ground, PLACE).arrived(copy)
        assert not DecodedWorker(work, ProvenanceSettings(NORTH, WEST), PLACE).arrived(copy)


@given(st.tuples(_data, _data), st.sampled_from(["orders", "pay"]))
def test_a_record_of_another_topic_or_content_is_not_taken_for_a_copy(
    content: tuple[bytes | None, bytes | None], topic: str
) -> None:
    check = provenance.check_of("orders", fields.body(*content))
    mark = provenance.value(check, (WEST,))
    other = provenance.check_of(topic, fields.body(b"other", b"content"))
    assert provenance.path_of(mark, other) == ()
    if topic != "orders":
        assert provenance.path_of(mark, provenance.check_of(topic, fields.body(*content))) == ()
