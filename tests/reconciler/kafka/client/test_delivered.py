"""Records of an answer that readers get, also in the formats of brokers before 0.11, where a message that holds others
has the offset of the last of them."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest
from kafka.record import MemoryRecordsBuilder

from reconciler.kafka.client import log_ends, small_topics
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Leader, TopicMetadata
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.replication.offsets.close_gaps import Log
from reconciler.replication.offsets.parting import LogSpan, span_from

NONE, GZIP = 0, 1


def answer_of(magic: int, codec: int, base: int = 0) -> FetchedPartition:
    """Six records from offset ``base`` on, with their numbers as timestamps."""
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20)
    for number in range(6):
        assert builder.append(number, b"k", b"v%d" % number, []) is not None
    builder.close()
    raw = bytearray(builder.buffer())
    if magic == 2 or codec:
        struct.pack_into(">q", raw, 0, base if magic == 2 else 5)  # as the broker does that appends it
    return FetchedPartition("t", 0, 0, 10, 10, 0, (), -1, memoryview(raw))


@pytest.mark.parametrize(("magic", "codec"), [(0, NONE), (1, NONE), (1, GZIP), (2, NONE), (2, GZIP)])
def test_a_stretch_within_a_message_or_batch_is_delivered_whole(magic: int, codec: int) -> None:
    records = list(small_topics.delivered(answer_of(magic, codec), 2, 4))
    assert [record.offset for record in records] == [2, 3]


def test_what_lies_outside_is_not_opened() -> None:
    answer = answer_of(2, GZIP, base=20)
    answer.records[70] ^= 0xFF
    assert list(small_topics.delivered(answer, 0, 20)) == []
    assert list(small_topics.delivered(answer, 26, 40)) == []


@pytest.mark.parametrize(("magic", "codec"), [(1, GZIP), (2, GZIP)])
@pytest.mark.parametrize(("begin", "end", "span"), [(0, 6, LogSpan(6, 0, 5)), (2, 4, LogSpan(2, 2, 3))])
def test_records_are_counted_one_by_one_where_a_message_holds_several(
    magic: int, codec: int, begin: int, end: int, span: LogSpan, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def known(*_: object) -> None: ...

    async def read(*_: object, committed: bool) -> AsyncIterator[FetchedPartition]:
        assert committed
        yield answer_of(magic, codec)

    monkeypatch.setattr(small_topics, "leaders", known)
    monkeypatch.setattr(small_topics, "read", read)
    log = Log(ClusterClient("east", ("127.0.0.1:1",), {}), ("t", 0))  # type: ignore[arg-type]  # never connects
    assert asyncio.run(span_from(log, begin, end)) == span


@pytest.mark.parametrize(
    ("local", "read"),
    [
        ({("t", 0): 9}, [0, 1, 2, 3, 4, 5]),
        ({("t", 0): 0}, []),
        ({}, []),
    ],
    ids=["in remote storage", "removed by compaction", "a broker that knows no remote storage"],
)
def test_an_answer_without_records_is_no_end_while_they_are_in_remote_storage(
    local: dict[tuple[str, int], int], read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose remote storage is slow answers an empty set of records and no error (KIP-405)."""
    whole = answer_of(2, NONE)
    answers = [whole._replace(records=memoryview(b"")), whole]

    async def fetch(*_: object) -> AsyncIterator[tuple[FetchedPartition, bool]]:
        answer = answers.pop(0)
        yield answer, not answer.records

    async def local_begins(*_: object) -> dict[tuple[str, int], int]:
        return local

    async def offsets() -> list[int]:
        cluster = ClusterClient("east", ("127.0.0.1:1",), {})  # type: ignore[arg-type]  # never connects
        cluster.topics["t"] = TopicMetadata("t", NO_ID, 0, {0: Leader(1, 0)})
        answered = small_topics.read(cluster, {("t", 0): 0}, {("t", 0): 6})
        return [record.offset async for answer in answered for record in small_topics.delivered(answer)]

    monkeypatch.setattr(small_topics, "_fetch", fetch)
    monkeypatch.setattr(log_ends, "local_begins", local_begins)
    assert asyncio.run(offsets()) == read
