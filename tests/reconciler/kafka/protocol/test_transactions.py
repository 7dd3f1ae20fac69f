"""Requests about transactions by hand, held against the bytes of the protocol's own description, and against the codec
that is made from it."""

from __future__ import annotations

import struct

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, TxnOffsetCommitRequest

from reconciler.kafka.client.cluster import by_topic
from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.client.log_ends import pack as pack_ends
from reconciler.kafka.client.log_ends import unpack as unpack_ends
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.kafka.protocol.transactions import (
    TransactionalProducer,
    TransactionState,
    pack,
    pack_add,
    pack_commit,
    pack_end,
    pack_list,
    unpack,
    unpack_add,
    unpack_end,
    unpack_list,
)


def answer(error: int, state: str) -> bytes:
    """Response header 1 and body 0: throttle, one transaction, its id, state, timeout, start, producer, topics."""
    name = b"\x0bmirror.f.0"
    told = bytes((len(state) + 1,)) + state.encode()
    rest = struct.pack(">iqqh", 60_000, 1, 7, 3) + b"\x01\x00"
    return struct.pack(">i", 9) + b"\0" + struct.pack(">i", 5) + b"\x02" + struct.pack(">h", error) + name + told + rest


def test_one_transaction_is_asked_for() -> None:
    assert pack("mirror.f.0") == b"\x02\x0bmirror.f.0\x00"


@pytest.mark.parametrize(
    ("state", "waits"), [("PrepareCommit", True), ("PrepareAbort", True), ("CompleteCommit", False), ("Empty", False)]
)
def test_the_state_shows_whether_markers_are_still_written(state: str, waits: bool) -> None:
    told = unpack(memoryview(answer(0, state) + b"\0"))
    assert told == TransactionState(5, 0, state, producer_id=7, epoch=3)
    assert told.undecided is waits


def test_a_denial_is_an_error_and_no_state() -> None:
    told = unpack(memoryview(answer(53, "")))
    assert (told.error, told.state, told.committed) == (53, "", None)


@pytest.mark.parametrize(
    ("state", "committed", "epochs"),
    [
        ("PrepareCommit", True, (3, 2)),
        ("CompleteCommit", True, (3, 2)),
        ("CompleteAbort", False, (3, 2)),
        ("Ongoing", False, (3,)),
        ("Empty", None, (3, 2)),
    ],
)
def test_how_the_last_transaction_ends(state: str, committed: bool | None, epochs: tuple[int, ...]) -> None:
    """Version 2 raises the epoch when a transaction ends; the classic protocol when a producer begins."""
    told = unpack(memoryview(answer(0, state) + b"\0"))
    assert told.committed is committed
    assert told.epochs(version_2=True) == epochs
    assert told.epochs(version_2=False) == (3,)


@pytest.mark.parametrize("size", range(4, 24))
def test_half_an_answer_is_malformed(size: int) -> None:
    with pytest.raises(MalformedResponseError):
        unpack(memoryview(answer(0, "Empty")[:size]))


HOLDER = TransactionalProducer("mirror.f.0", 7001, 3)


def body(request: object) -> bytes:
    """Without its header, which is of version 2 with an empty client id."""
    framed = protocol.encode(request, 9, "")
    return framed[4 + 2 + 2 + 4 + 2 + 1 :]


def test_partitions_are_added_as_the_codec_has_it() -> None:
    request = AddPartitionsToTxnRequest
    topics = {"a": [0, 300], "b" * 200: [1]}
    of_topics = [request.AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()]
    made = request(
        v3_and_below_transactional_id="mirror.f.0",
        v3_and_below_producer_id=7001,
        v3_and_below_producer_epoch=3,
        v3_and_below_topics=of_topics,
        version=3,
    )
    assert pack_add(HOLDER, [(name, each) for name, numbers in topics.items() for each in numbers]) == body(made)


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_ended_as_the_codec_has_it(committed: bool) -> None:
    made = protocol.EndTxnRequest(
        transactional_id="mirror.f.0", producer_id=7001, producer_epoch=3, committed=committed, version=3
    )
    assert pack_end(HOLDER, committed=committed) == body(made)


@pytest.mark.parametrize("version", [3, 5])
def test_positions_are_committed_within_a_transaction_as_the_codec_has_it(version: int) -> None:
    request = TxnOffsetCommitRequest
    topic = request.TxnOffsetCommitRequestTopic
    partition = topic.TxnOffsetCommitRequestPartition
    offsets = {
        ("a", 0): CommittedOffset(7, 2, "{}"),
        ("a", 300): CommittedOffset(1 << 40),
        ("b", 1): CommittedOffset(0),
    }
    of_topics = [
        topic(
            name=name,
            partitions=[
                partition(
                    partition_index=number,
                    committed_offset=offsets[name, number].offset,
                    committed_leader_epoch=offsets[name, number].leader_epoch,
                    committed_metadata=offsets[name, number].metadata,
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(offsets).items()
    ]
    made = request(
        transactional_id="mirror.f.0",
        group_id="mirror.f",
        producer_id=7001,
        producer_epoch=3,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=of_topics,
        version=version,
    )
    assert pack_commit(HOLDER, "mirror.f", offsets) == body(made)


def test_version_2_learns_who_ends_the_next_transaction() -> None:
    frame = struct.pack(">ibihqh", 9, 0, 5, 0, 7001, 4) + b"\0"
    assert unpack_end(memoryview(frame), 5) == (5, (0, 7001, 4))


def test_log_ends_are_asked_for_as_the_codec_has_it() -> None:
    request = OffsetForLeaderEpochRequest
    partition = request.OffsetForLeaderTopic.OffsetForLeaderPartition
    asked = [partition(partition=p, current_leader_epoch=p + 5, leader_epoch=p + 5) for p in (0, 1)]
    made = request(replica_id=-1, topics=[request.OffsetForLeaderTopic(topic="a", partitions=asked)], version=4)
    assert pack_ends({("a", 0): 5, ("a", 1): 6}, current=True) == body(made)
    unknown = [partition(partition=p, current_leader_epoch=-1, leader_epoch=p + 5) for p in (0, 1)]
    made = request(replica_id=-1, topics=[request.OffsetForLeaderTopic(topic="a", partitions=unknown)], version=4)
    assert pack_ends({("a", 0): 5, ("a", 1): 6}, current=False) == body(made)


def test_what_is_refused_is_reported_by_partition() -> None:
    results = b"\x03" + struct.pack(">ih", 0, 0) + b"\0" + struct.pack(">ih", 1, 51) + b"\0"
    frame = struct.pack(">i", 9) + b"\0" + struct.pack(">i", 5) + b"\x02" + b"\x02a" + results + b"\0" + b"\0"
    assert unpack_add(memoryview(frame)) == (5, {("a", 1): 51})
    assert unpack_end(memoryview(struct.pack(">ibih", 9, 0, 5, 47) + b"\0")) == (5, (47, -1, -1))


def test_log_ends_are_reported_with_the_epoch_they_are_of() -> None:
    results = b"\x03" + struct.pack(">hiiq", 0, 0, 5, 77) + b"\0" + struct.pack(">hiiq", 74, 1, -1, -1) + b"\0"
    frame = struct.pack(">i", 9) + b"\0" + struct.pack(">i", 5) + b"\x02" + b"\x02a" + results + b"\0" + b"\0"
    assert unpack_ends(memoryview(frame)) == (5, {("a", 0): (0, 5, 77), ("a", 1): (74, -1, -1)})


def test_producers_are_asked_for_their_transactional_ids() -> None:
    assert pack_list([7, 258]) == b"\x01\x03" + struct.pack(">qq", 7, 258) + b"\x00"
    one = b"\x0bmirror.f.0" + struct.pack(">q", 7) + b"\x08Ongoing\x00"
    body = struct.pack(">ih", 5, 0) + b"\x02\x06Vague" + b"\x02" + one + b"\x00"
    assert unpack_list(memoryview(struct.pack(">i", 9) + b"\0" + body)) == (5, (0, {7: "mirror.f.0"}))
    with pytest.raises(MalformedResponseError, match="a ListTransactions"):
        unpack_list(memoryview(struct.pack(">i", 9) + b"\0" + body[:-9]))
