"""Groups and their offsets packed by hand, read by kafka-python's generated classes and the other way round."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.flexible import count, string
from reconciler.kafka.protocol.groups import describe_groups as group_members
from reconciler.kafka.protocol.groups import group_offsets
from reconciler.kafka.protocol.groups.describe_groups import DescribedGroup, GroupKind, ListedGroup
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset, GroupOffsets

NAMES = st.text(min_size=1, max_size=200)
OFFSETS = st.dictionaries(
    st.tuples(NAMES, st.integers(0, 9_999)),
    st.builds(CommittedOffset, st.integers(0, 2**62), st.integers(-1, 2**30), st.text(max_size=300)),
    max_size=20,
)


def frame(response: Any) -> memoryview:
    """Correlation id and empty tags, as a flexible header has them, before the body."""
    return memoryview(struct.pack(">ib", 7, 0) + bytes(response.encode()))


def by_topic(offsets: dict[tuple[str, int], Any]) -> dict[str, list[tuple[int, Any]]]:
    found: dict[str, list[tuple[int, Any]]] = {}
    for (topic, partition), one in offsets.items():
        found.setdefault(topic, []).append((partition, one))
    return found


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.booleans())
def test_all_offsets_of_many_groups_are_asked_for(groups: list[str], stable: bool) -> None:
    packed = group_offsets.pack_fetch(group_offsets.MANY_GROUPS, groups, stable=stable)
    read = OffsetFetchRequest.decode(BytesIO(packed), version=8)
    assert [(one.group_id, one.topics) for one in read.groups] == [(group, None) for group in groups]
    assert read.require_stable is stable


@given(NAMES, st.booleans())
def test_one_group_from_an_older_broker(group: str, stable: bool) -> None:
    packed = group_offsets.pack_fetch(group_offsets.ONE_GROUP, [group], stable=stable)
    read = OffsetFetchRequest.decode(BytesIO(packed), version=7)
    assert (read.group_id, read.topics, read.require_stable) == (group, None, stable)


@given(st.dictionaries(NAMES, OFFSETS, min_size=1, max_size=3))
def test_offsets_of_groups_are_read(groups: dict[str, dict[tuple[str, int], CommittedOffset]]) -> None:
    group_type = OffsetFetchResponse.OffsetFetchResponseGroup
    topic_type = group_type.OffsetFetchResponseTopics
    entry = topic_type.OffsetFetchResponsePartitions

    def topics(offsets: dict[tuple[str, int], CommittedOffset]) -> list[Any]:
        return [
            topic_type(
                name=topic,
                partitions=[
                    entry(
                        partition_index=partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        metadata=one.metadata,
                        error_code=0,
                    )
                    for partition, one in members
                ],
            )
            for topic, members in by_topic(offsets).items()
        ]

    answer = OffsetFetchResponse(
        throttle_time_ms=3,
        groups=[group_type(group_id=name, topics=topics(offsets), error_code=0) for name, offsets in groups.items()],
        version=8,
    )
    throttle, found = group_offsets.unpack_fetch(8, list(groups), frame(answer))
    assert throttle == 3
    assert {name: one.offsets for name, one in found.items()} == groups


def test_a_group_that_a_broker_does_not_know_has_no_offsets() -> None:
    """Kafka names none and no error; others answer GROUP_ID_NOT_FOUND (69)."""
    body = struct.pack(">i", 0) + count(1) + string("g") + count(0) + struct.pack(">h", 69) + b"\0" + b"\0"
    _, found = group_offsets.unpack_fetch(8, ["g"], memoryview(struct.pack(">ib", 1, 0) + body))
    assert found == {"g": GroupOffsets({})}


def test_undecided_and_absent_offsets_are_distinguished() -> None:
    partitions = b"".join(
        struct.pack(">iqi", number, offset, -1) + b"\x01" + struct.pack(">h", error) + b"\0"
        for number, offset, error in ((0, 5, 0), (1, -1, 0), (2, -1, 88), (3, -1, 69))
    )
    body = struct.pack(">i", 0) + count(1) + string("g") + count(1) + string("t") + count(4) + partitions + b"\0"
    raw = memoryview(struct.pack(">ib", 1, 0) + body + struct.pack(">h", 0) + b"\0" + b"\0")
    _, found = group_offsets.unpack_fetch(8, ["g"], raw)
    assert found["g"].offsets == {("t", 0): CommittedOffset(5)}
    assert found["g"].unstable == (("t", 2),)


@given(NAMES, OFFSETS)
def test_a_commit_is_what_a_client_outside_the_group_sends(
    group: str, offsets: dict[tuple[str, int], CommittedOffset]
) -> None:
    read = OffsetCommitRequest.decode(BytesIO(group_offsets.pack_commit(group, offsets)), version=8)
    assert (read.group_id, read.member_id, read.generation_id_or_member_epoch) == (group, "", -1)
    assert read.group_instance_id is None
    assert {
        (topic.name, p.partition_index): CommittedOffset(
            p.committed_offset, p.committed_leader_epoch, p.committed_metadata
        )
        for topic in read.topics
        for p in topic.partitions
    } == offsets


@given(st.dictionaries(st.tuples(NAMES, st.integers(0, 99)), st.sampled_from([0, 25, 16]), max_size=9))
def test_the_answer_to_a_commit(errors: dict[tuple[str, int], int]) -> None:
    topic_type = OffsetCommitResponse.OffsetCommitResponseTopic
    entry = topic_type.OffsetCommitResponsePartition
    topics = [
        topic_type(name=topic, partitions=[entry(partition_index=p, error_code=code) for p, code in members])
        for topic, members in by_topic(errors).items()
    ]
    answer = OffsetCommitResponse(throttle_time_ms=0, topics=topics, version=8)
    assert group_offsets.unpack_commit(frame(answer)) == (0, errors)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_listing_of_groups(version: int) -> None:
    assert ListGroupsRequest.decode(BytesIO(group_members.pack_list(version)), version=version) is not None
    entry = ListGroupsResponse.ListedGroup
    listed = [("a", "consumer", "Stable", "Classic"), ("b", "consumer", "Empty", "Consumer"), ("c", "share", "", "x")]
    groups = [
        entry(group_id=name, protocol_type=kind, group_state=state, group_type=type_, version=version)
        for name, kind, state, type_ in listed
    ]
    answer = ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=groups, version=version)
    _, (error, found) = group_members.unpack_list(version, frame(answer), 4)
    kinds = [GroupKind.CLASSIC, GroupKind.CONSUMER, GroupKind.OTHER] if version == 5 else [GroupKind.CLASSIC] * 3
    states = ["Stable", "Empty", ""] if version >= 4 else [""] * 3
    assert error == 0
    assert found == [
        ListedGroup(name, kind, state, protocol, 4)
        for (name, protocol, _, _), kind, state in zip(listed, kinds, states, strict=True)
    ]


def test_members_and_what_they_read() -> None:
    read = DescribeGroupsRequest.decode(BytesIO(group_members.pack_describe(["g", "h"])), version=5)
    assert (read.groups, read.include_authorized_operations) == (["g", "h"], False)
    _, (found,) = described(struct.pack(">hih", 1, 1, 1) + b"t" + struct.pack(">iiii", 2, 0, 3, -1))
    assert (found.group, found.state, found.assignor) == ("g", "Stable", "range")
    assert found.members[0].assigned == (("t", 0), ("t", 3))


def described(assignment: bytes) -> tuple[int, list[DescribedGroup]]:
    """A group's leader writes the assignment; brokers pass it on as it is."""
    group = DescribeGroupsResponse.DescribedGroup
    member = group.DescribedGroupMember(
        member_id="m-1",
        group_instance_id=None,
        client_id="app",
        client_host="/10.0.0.1",
        member_metadata=b"",
        member_assignment=assignment,
    )
    answer = DescribeGroupsResponse(
        throttle_time_ms=0,
        groups=[
            group(
                error_code=0, group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range",
                members=[member], authorized_operations=set(),
            )
        ],
        version=5,
    )  # fmt: skip
    return group_members.unpack_describe(frame(answer))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "assignment",
    [
        b"",
        b"\0",
        struct.pack(">hi", 1, 2**31 - 1),
        struct.pack(">hihi", 1, 2**31 - 1, 0, 0) + struct.pack(">hq", -6, 0),  # a name that leads back to its beginning
        struct.pack(">hih", 1, 1_000_000, -1) + bytes(100),
        struct.pack(">hihi", 1, 1, 0, 2**31 - 1),
        struct.pack(">hih", 1, 1, 1) + b"\xff" + struct.pack(">ii", 1, 0),
    ],
)
def test_an_assignment_that_no_consumer_writes_assigns_nothing(assignment: bytes) -> None:
    _, (found,) = described(assignment)
    assert [member.assigned for member in found.members] == [()]


@given(st.binary(max_size=60))
def test_nothing_but_a_malformed_response_is_raised_for_noise(noise: bytes) -> None:
    raw = memoryview(b"\0\0\0\x01\0" + noise)
    for read in (
        lambda: group_offsets.unpack_fetch(8, ["g"], raw),
        lambda: group_offsets.unpack_commit(raw),
        lambda: group_members.unpack_list(5, raw, 1),
        lambda: group_members.unpack_describe(raw),
        lambda: group_members.unpack_consumer_describe(raw),
    ):
        try:
            read()
        except MalformedResponseError:
            continue
