"""Fetch and Produce packed by hand, read by kafka-python's generated classes and the other way round."""

from __future__ import annotations

import uuid
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol import fetch as fetch_answers
from reconciler.kafka.protocol import fetch as fetching
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol.fetch import Fetched, FetchLimits, FetchSession, Want

LIMITS = FetchLimits(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, committed=True, rack="east-a")
IDS = {name: uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in ("orders", "payments")}
NAMES = {topic_id: name for name, topic_id in IDS.items()}


def want(topic: str, partition: int, offset: int = 7) -> Want:
    return Want(topic, IDS[topic], partition, offset, 3, 1000)


def fetch_request(version: int, session: FetchSession) -> Any:
    return FetchRequest.decode(fetching.pack(version, session, LIMITS), version=version)


def topic_of(entry: Any, version: int) -> str:
    return entry.topic if version == fetch_answers.NAMES else NAMES[entry.topic_id]


@pytest.mark.parametrize("version", [fetch_answers.NAMES, fetch_answers.IDS])
def test_a_full_fetch_request(version: int) -> None:
    session = FetchSession()
    for partition in range(3):
        session.want(want("orders", partition, 100 + partition))
    session.want(want("payments", 9, 2**40))
    request = fetch_request(version, session)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 1 << 20)
    assert (request.isolation_level, request.session_id, request.session_epoch) == (1, 0, 0)
    assert request.rack_id == "east-a"
    asked = {
        (topic_of(topic, version), p.partition): (p.fetch_offset, p.current_leader_epoch, p.partition_max_bytes)
        for topic in request.topics
        for p in topic.partitions
    }
    assert asked == {**{("orders", p): (100 + p, 3, 1000) for p in range(3)}, ("payments", 9): (2**40, 3, 1000)}
    assert not request.forgotten_topics_data


def accepted(session: FetchSession) -> None:
    assert session.accept(Fetched(0, 0, 55, ()))


@pytest.mark.parametrize("version", [fetch_answers.NAMES, fetch_answers.IDS])
def test_later_requests_carry_differences_only(version: int) -> None:
    session = FetchSession()
    for partition in range(3):
        session.want(want("orders", partition))
    fetch_request(version, session)
    accepted(session)
    session.want(want("orders", 1, 50))
    session.want(want("orders", 2))
    session.forget(("orders", 0))
    request = fetch_request(version, session)
    assert (request.session_id, request.session_epoch) == (55, 1)
    assert [(p.partition, p.fetch_offset) for topic in request.topics for p in topic.partitions] == [(1, 50)]
    forgotten = [(topic_of(t, version), p) for t in request.forgotten_topics_data for p in t.partitions]
    assert forgotten == [("orders", 0)]
    accepted(session)
    request = fetch_request(version, session)
    assert (request.session_epoch, request.topics, request.forgotten_topics_data) == (2, [], [])


def test_a_partition_that_comes_back_is_not_forgotten_in_the_same_request() -> None:
    session = FetchSession()
    session.want(want("orders", 0))
    fetch_request(fetch_answers.IDS, session)
    accepted(session)
    session.forget(("orders", 0))
    session.want(want("orders", 0, 9))
    request = fetch_request(fetch_answers.IDS, session)
    assert not request.forgotten_topics_data
    assert request.topics[0].partitions[0].fetch_offset == 9


@pytest.mark.parametrize("forget", [True, False])
def test_a_recreated_topic_gets_a_session_that_does_not_know_the_old_one(forget: bool) -> None:
    session = FetchSession()
    for partition in range(2):
        session.want(want("orders", partition))
    fetch_request(fetch_answers.IDS, session)
    accepted(session)
    anew = uuid.uuid4()
    for partition in range(2):
        if forget:
            session.forget(("orders", partition))
        session.want(replace(want("orders", partition), topic_id=anew))
    body = fetching.pack(fetch_answers.IDS, session, LIMITS)
    request = FetchRequest.decode(body, version=fetch_answers.IDS)
    assert (request.session_id, request.session_epoch, request.forgotten_topics_data) == (0, 0, [])
    assert sorted(p.partition for topic in request.topics for p in topic.partitions) == [0, 1]


@pytest.mark.parametrize("error", [70, 71])
def test_a_lost_session_sends_everything_again(error: int) -> None:
    session = FetchSession()
    session.want(want("orders", 0))
    fetch_request(fetch_answers.NAMES, session)
    accepted(session)
    fetch_request(fetch_answers.NAMES, session)
    assert not session.accept(Fetched(0, error, 0, ()))
    request = fetch_request(fetch_answers.NAMES, session)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert len(request.topics[0].partitions) == 1


def test_an_answer_to_an_older_offset_is_recognised() -> None:
    session = FetchSession()
    session.want(want("orders", 0, 7))
    fetch_request(fetch_answers.NAMES, session)
    session.want(want("orders", 0, 3))
    assert session.answers(("orders", 0), 7)
    assert not session.answers(("orders", 0), 3)


def fetch_frame(version: int, records: bytes = b"batch", aborted: tuple[tuple[int, int], ...] = ((5, 6),)) -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    data = topic.PartitionData
    partition = data(
        partition_index=4,
        error_code=0,
        high_watermark=99,
        last_stable_offset=98,
        log_start_offset=2,
        aborted_transactions=[data.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted],
        preferred_read_replica=-1,
        records=records,
    )
    empty = data(partition_index=5, error_code=6, high_watermark=-1, last_stable_offset=-1, records=None)
    response = FetchResponse(
        throttle_time_ms=12,
        error_code=0,
        session_id=77,
        responses=[topic(topic="orders", topic_id=IDS["orders"], partitions=[partition, empty])],
        version=version,
    )
    response.with_header(correlation_id=1)
    return bytes(response.encode(header=True))


@pytest.mark.parametrize("version", [fetch_answers.NAMES, fetch_answers.IDS])
def test_a_fetch_response(version: int) -> None:
    fetched = fetch_answers.unpack(version, memoryview(fetch_frame(version)), NAMES)
    assert (fetched.throttle_ms, fetched.error, fetched.session_id) == (12, 0, 77)
    first, second = fetched.partitions
    assert (first.topic, first.partition, first.high_watermark, first.last_stable) == ("orders", 4, 99, 98)
    assert (first.log_start, first.aborted, first.preferred_replica) == (2, ((5, 6),), -1)
    assert bytes(first.records) == b"batch"
    assert (second.partition, second.error, bytes(second.records)) == (5, 6, b"")


@pytest.mark.parametrize("version", [fetch_answers.NAMES, fetch_answers.IDS])
def test_a_cut_fetch_response_is_an_error_at_every_byte(version: int) -> None:
    frame = fetch_frame(version)
    for size in range(4, len(frame)):
        with pytest.raises(MalformedResponseError):
            fetch_answers.unpack(version, memoryview(frame[:size]), NAMES)


@given(st.sampled_from([fetch_answers.NAMES, fetch_answers.IDS]), st.binary(min_size=4, max_size=200))
def test_rubbish_is_never_a_fetch_response_that_reads_beyond_itself(version: int, frame: bytes) -> None:
    try:
        fetched = fetch_answers.unpack(version, memoryview(frame), NAMES)
    except MalformedResponseError:
        return
    assert sum(len(p.records) for p in fetched.partitions) <= len(frame)


@given(st.sampled_from([fetch_answers.NAMES, fetch_answers.IDS]), st.data())
def test_a_damaged_fetch_response_is_an_error_or_stays_within_itself(version: int, data: st.DataObject) -> None:
    frame = bytearray(fetch_frame(version))
    frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        fetched = fetch_answers.unpack(version, memoryview(frame), NAMES)
    except MalformedResponseError:
        return
    assert sum(len(p.records) for p in fetched.partitions) <= len(frame)


@pytest.mark.parametrize("version", [producing.CLASSIC, producing.VERSION_2])
@pytest.mark.parametrize("transactional_id", [None, "mirror.flow.0"])
def test_a_produce_request(version: int, transactional_id: str | None) -> None:
    batches = {(t, p): memoryview(b"%s-%d" % (t.encode(), p) * 40) for t in ("a", "b") for p in range(3)}
    body = b"".join(producing.pack(version, transactional_id, batches, 1234))
    request = ProduceRequest.decode(body, version=version)
    assert (request.transactional_id, request.acks, request.timeout_ms) == (transactional_id, -1, 1234)
    sent = {(t.name, p.index): bytes(p.records) for t in request.topic_data for p in t.partition_data}
    assert sent == {key: bytes(raw) for key, raw in batches.items()}


def produce_frame(version: int) -> bytes:
    topic = ProduceResponse.TopicProduceResponse
    entry = topic.PartitionProduceResponse
    said = entry.BatchIndexAndErrorMessage
    errors = [said(batch_index=0, batch_index_error_message="null key")]
    good = entry(index=1, error_code=0, base_offset=2**40, log_append_time_ms=-1, log_start_offset=0)
    bad = entry(index=2, error_code=87, base_offset=-1, record_errors=errors, error_message="refused")
    response = ProduceResponse(
        responses=[topic(name="orders", partition_responses=[good, bad])], throttle_time_ms=9, version=version
    )
    response.with_header(correlation_id=1)
    return bytes(response.encode(header=True))


@pytest.mark.parametrize("version", [producing.CLASSIC, producing.VERSION_2])
def test_a_produce_response(version: int) -> None:
    throttle, (good, bad) = producing.unpack(version, memoryview(produce_frame(version)))
    assert throttle == 9
    assert (good.topic, good.partition, good.error, good.base_offset) == ("orders", 1, 0, 2**40)
    assert (bad.partition, bad.error, bad.message) == (2, 87, "null key; refused")


@pytest.mark.parametrize("version", [producing.CLASSIC, producing.VERSION_2])
def test_a_cut_produce_response_is_an_error_at_every_byte(version: int) -> None:
    frame = produce_frame(version)
    for size in range(4, len(frame)):
        with pytest.raises(MalformedResponseError):
            producing.unpack(version, memoryview(frame[:size]))


def test_the_second_opinion_is_independent() -> None:
    """kafka-python reads its own frames: a guard that these tests compare two different things."""
    frame = BytesIO(produce_frame(producing.VERSION_2))
    cls = ProduceResponse[producing.VERSION_2]
    cls.parse_header(frame)
    assert cls.decode(frame).responses[0].partition_responses[0].base_offset == 2**40
