"""A batch that becomes more than the memory has is told, not opened: by whoever reads to compare, too."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from reconciler_mirror.verify import own_client, second_client
from reconciler_mirror.verify.model import OffsetSpan, PartitionReading, VerifiedRecord
from reconciler_mirror.verify.own_client import OwnClient, refuse_too_large
from reconciler_mirror.verify.read_partition import Readers, records
from reconciler_mirror.verify.report import document
from reconciler_mirror.verify.tasks import each, with_clients
from reconciler_mirror.verify.unreadable import UnreadableError

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.records import codecs
from reconciler.replication.handover import Endpoint
from tests.support.lanes.batches import batch_of

ROOM = 1 << 20
next_offset = small_topics.next_offset
SPAN = OffsetSpan(Endpoint("east", ("e:1",), {}), "orders", 3, "read_committed", 0, 30)


def batch(base: int, size: int, codec: int) -> bytes:
    return bytes(batch_of([(1_700_000_000_000, b"k", bytes(size), [])], base, codec))


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "MOST_OPENED", ROOM)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[bytes | BrokerError]:
    """What a broker answers, one after the other; each of ten offsets."""
    answers: list[bytes | BrokerError] = []

    async def read(
        _: object, begin: dict[Any, int], end: dict[Any, int], *, committed: bool = False
    ) -> AsyncIterator[Any]:
        ((place, at),) = begin.items()
        while at < end[place]:
            answer = answers.pop(0)
            if isinstance(answer, BrokerError):
                raise answer
            yield SimpleNamespace(records=memoryview(answer), aborted=(), committed=committed)
            at += 10

    async def leaders(*_: object) -> None:
        pass

    monkeypatch.setattr(small_topics, "read", read)
    monkeypatch.setattr(small_topics, "leaders", leaders)
    monkeypatch.setattr(small_topics, "next_offset", lambda _, offset: offset + 10)
    monkeypatch.setattr(own_client, "_AGAIN_S", 0.0)
    monkeypatch.setattr(own_client, "cluster_of", lambda _: SimpleNamespace(close=lambda: None))
    return answers


@pytest.mark.parametrize("codec", range(5))
def test_only_what_becomes_too_much_is_refused(codec: int) -> None:
    refuse_too_large(SPAN, memoryview(batch(0, 1000, codec) + batch(5, ROOM - 200, codec)), 0)
    if codec:
        with pytest.raises(UnreadableError, match="the batch at offset 5 is more than 1 MiB once decompressed"):
            refuse_too_large(SPAN, memoryview(batch(0, 1000, codec) + batch(5, 40 * ROOM, codec)), 0)


def test_what_lies_before_the_span_does_not_matter() -> None:
    refuse_too_large(SPAN, memoryview(batch(0, 40 * ROOM, codecs.ZSTD) + batch(5, 10, codecs.ZSTD)), 5)


def test_what_is_no_batch_is_left_to_its_reader() -> None:
    refuse_too_large(SPAN, memoryview(b"\xff" * 100), 0)
    broken = bytearray(batch(0, 40 * ROOM, codecs.ZSTD))
    broken[61:] = bytes(len(broken) - 61)
    refuse_too_large(SPAN, memoryview(broken), 0)


def test_all_of_a_span_is_looked_at_and_a_leader_may_move(log: list[bytes | BrokerError]) -> None:
    log += [batch(0, 10, 1), BrokerError(6, "orders-3"), batch(10, 10, 1), batch(20, 40 * ROOM, 1)]
    with closing(OwnClient(SPAN.endpoint)) as client, pytest.raises(UnreadableError, match="at offset 20 is more"):
        client.require_openable(SPAN)
    assert log == []


@pytest.fixture
def readers() -> Iterator[Readers]:
    with closing(Readers()) as made:
        yield made


def test_no_client_opens_it_and_the_partition_is_unread_with_words(
    log: list[bytes | BrokerError], readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Consumer:
        def assign(self, _: object) -> None:
            raise AssertionError("librdkafka would open it")

        def close(self) -> None: ...

    monkeypatch.setattr(second_client, "partition_reader", lambda *_, **__: Consumer())
    log += [batch(0, 40 * ROOM, codecs.GZIP)]
    with pytest.raises(UnreadableError, match="orders-3 at east is not read: the batch at offset 0") as caught:
        list(records(SPAN, readers))
    assert "--from" in caught.value.todo


@pytest.mark.parametrize("alone", [True, False], ids=["our own client", "librdkafka"])
def test_what_is_no_batch_makes_its_partition_unknown_and_ends_no_other(
    log: list[bytes | BrokerError], readers: Readers, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """Without librdkafka its words are ours; with it, librdkafka decides."""
    read = [VerifiedRecord(0, 1, b"k", b"v", ())]
    second = SimpleNamespace(records=lambda *_, **__: iter(read), rest=lambda: None, close=lambda: None)
    monkeypatch.setattr(second_client, "SecondClient", lambda *_, **__: second)
    if alone:
        readers.one_client["east"] = "no mechanism"
    monkeypatch.setattr(small_topics, "next_offset", next_offset)
    log += [b"\xff" * 100] * 3
    if alone:
        with pytest.raises(UnreadableError, match="orders-3 at east cannot be read: a batch announces a length of"):
            list(records(SPAN, readers))
    else:
        assert list(records(SPAN, readers)) == read


def test_records_that_are_gone_are_reported_as_before(log: list[bytes | BrokerError], readers: Readers) -> None:
    log += [BrokerError(1, "reading orders-3 on east")]
    with pytest.raises(UnreadableError, match="were removed while they were read"):
        list(records(SPAN, readers))


def test_a_log_that_ends_before_its_span_is_not_waited_for(
    log: list[bytes | BrokerError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_topics, "next_offset", lambda _, offset: offset)
    monkeypatch.setattr(own_client, "UNREAD_S", 0.0)
    log += [b"", b"", b""]
    with (
        closing(OwnClient(SPAN.endpoint)) as client,
        pytest.raises(UnreadableError, match="nothing was read of orders-3 at east"),
    ):
        client.require_openable(SPAN)


@pytest.mark.parametrize("missing", [True, False], ids=["no package", "no mechanism"])
def test_where_librdkafka_cannot_log_in_our_own_client_reads_and_says_so(
    log: list[bytes | BrokerError], readers: Readers, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    why = "No provider for SASL mechanism GSSAPI"

    def refused(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, why))

    if missing:
        monkeypatch.setitem(sys.modules, "reconciler_mirror.verify.second_client", None)
    monkeypatch.setattr(second_client, "partition_reader", refused)
    log += [batch(0, 10, 1), BrokerError(6, "orders-3"), batch(10, 10, 1), batch(20, 10, 1)]
    seen = list(records(SPAN, readers))
    assert seen == [VerifiedRecord(at, 1_700_000_000_000, b"k", bytes(10), ()) for at in (0, 10, 20)]
    assert (why in readers.one_client["east"]) is not missing
    row = next(each(lambda plan, _: [with_clients(PartitionReading(plan), readers)], [0]))
    [told] = document("app", [], [row])["one_client"]
    assert told.startswith("cluster east was read by the mirror's own client alone")


def test_a_damaged_batch_is_no_difference_and_no_record(log: list[bytes | BrokerError]) -> None:
    broken = bytearray(batch(0, 10, 0))
    broken[-1] ^= 1
    log += [bytes(broken)]
    with closing(OwnClient(SPAN.endpoint)) as client, pytest.raises(UnreadableError, match="checksum of the batch at"):
        list(client.records(replace(SPAN, end=10)))
    broken[:8] = (10).to_bytes(8)  # now it lies behind the span, in the same answer
    log += [batch(0, 10, 0) + bytes(broken)]
    with closing(OwnClient(SPAN.endpoint)) as client:
        assert [record.offset for record in client.records(replace(SPAN, end=10))] == [0]
