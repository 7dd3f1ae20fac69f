"""ListGroups, DescribeGroups, ConsumerGroupDescribe: which groups there are, and their members.

The three kinds of members: classic (JoinGroup), consumer (KIP-848). Share (KIP-932) and streams (KIP-1071) groups are
listed with their kind and not described.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.kafka.protocol.flexible import NO_TAGS, ClassicReader, ResponseReader, count, reading, string

LIST_GROUPS, DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE = 16, 15, 69
LIST_LOWEST, LIST_NEWEST = 3, 5
STATES_FROM, TYPES_FROM = 4, 5
DESCRIBE_VERSION, CONSUMER_VERSION = 5, 0

Key = tuple[str, int]


class GroupKind(StrEnum):
    """Group types as brokers name them. OTHER: a type made after this list."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in a ListGroups response."""

    group: str
    kind: GroupKind
    state: str
    """The broker's word (``Empty``, ``Stable``, ...), empty before Kafka 2.6."""
    protocol: str
    """The protocol type, ``consumer``, ``connect``, or empty for a group that never had members."""
    coordinator: int
    """Node id of the broker that listed it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a described group."""

    member_id: str
    """Given by the coordinator."""
    client_id: str
    host: str
    """Address from which it connects, as the coordinator sees it."""
    assigned: tuple[Key, ...]
    """Partitions of its assignment, empty while the group rebalances."""


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """A group in a DescribeGroups response."""

    group: str
    state: str
    assignor: str
    """The assignment strategy; ``stream`` means Kafka Streams."""
    members: tuple[Member, ...]
    error: int = 0
    """Kafka's code; if set, other fields are meaningless."""


def pack_list(version: int) -> bytes:
    filters = count(0) * (version - LIST_LOWEST)  # by state from 4 on, by type from 5 on
    return filters + NO_TAGS


@reading("a ListGroups")
def unpack_list(version: int, frame: memoryview, node: int) -> tuple[int, tuple[int, list[ListedGroup]]]:
    """(throttle in ms, (error, groups)). Raises MalformedResponseError."""
    reader = ResponseReader(frame)
    throttle, error = reader.int32(), reader.int16()
    groups = []
    for _ in range(reader.count()):
        group, protocol = reader.string(), reader.string()
        state = reader.string() if version >= STATES_FROM else ""
        kind = _kind(reader.string()) if version >= TYPES_FROM else GroupKind.CLASSIC
        reader.tags()
        groups.append(ListedGroup(group, kind, state, protocol, node))
    reader.finish()
    return throttle, (error, groups)


def _kind(word: str) -> GroupKind:
    try:
        return GroupKind(word.lower())
    except ValueError:
        return GroupKind.OTHER


def pack_describe(groups: Sequence[str]) -> bytes:
    """Both DescribeGroups 5 and ConsumerGroupDescribe 0."""
    return b"".join((count(len(groups)), *map(string, groups), b"\0", NO_TAGS))


@reading("a DescribeGroups")
def unpack_describe(frame: memoryview) -> tuple[int, list[DescribedGroup]]:
    return _described(frame, _classic)


def _described(
    frame: memoryview, group: Callable[[ResponseReader], DescribedGroup]
) -> tuple[int, list[DescribedGroup]]:
    """(throttle in ms, groups). ``group`` reads one of them."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    groups = [group(reader) for _ in range(reader.count())]
    reader.finish()
    return throttle, groups


def _classic(reader: ResponseReader) -> DescribedGroup:
    """DescribeGroups version 5. Assignments are in the consumer protocol's own format (``_assigned``), whatever the
    assignor is."""
    error, group, state = reader.int16(), reader.string(), reader.string()
    _, assignor = reader.string(), reader.string()
    members = []
    for _ in range(reader.count()):
        member_id, _, client_id, host = reader.string(), reader.string(), reader.string(), reader.string()
        _, assignment = reader.raw(), reader.raw()
        reader.tags()
        members.append(Member(member_id, client_id, host, _assigned(assignment)))
    reader.int32()
    reader.tags()
    return DescribedGroup(group, state, assignor, tuple(members), error)


def _assigned(raw: bytes) -> tuple[Key, ...]:
    """ConsumerProtocolAssignment of any version; other protocols (Connect's) have bytes of their own: nothing. Brokers
    pass on what a group's leader wrote without a look at it."""
    reader = ClassicReader(memoryview(raw), at=2)  # after the version
    entries: list[Key] = []
    try:
        for _ in range(reader.count()):
            topic, size = reader.string(), reader.count()
            entries += [(topic, partition) for partition in struct.unpack(f">{size}i", reader.take(4 * size))]
    except (struct.error, ValueError):
        return ()
    return tuple(entries)


@reading("a ConsumerGroupDescribe")
def unpack_consumer_describe(frame: memoryview) -> tuple[int, list[DescribedGroup]]:
    return _described(frame, _consumer)


def _consumer(reader: ResponseReader) -> DescribedGroup:
    error, _, group, state = reader.int16(), reader.string(), reader.string(), reader.string()
    _, _, assignor = reader.int32(), reader.int32(), reader.string()
    members = tuple(_consumer_member(reader) for _ in range(reader.count()))
    reader.int32()
    reader.tags()
    return DescribedGroup(group, state, assignor, members, error)


def _consumer_member(reader: ResponseReader) -> Member:
    """A member in ConsumerGroupDescribe (KIP-848). Of current and target assignment, the current one is what the member
    reads now."""
    member_id, _, _ = reader.string(), reader.string(), reader.string()
    reader.int32()
    client_id, host = reader.string(), reader.string()
    for _ in range(reader.count()):
        reader.string()
    reader.string()
    assigned, _ = _assignment(reader), _assignment(reader)
    reader.tags()
    return Member(member_id, client_id, host, assigned)


def _assignment(reader: ResponseReader) -> tuple[Key, ...]:
    """An assignment by topic names; skips the topic ids beside them."""
    entries: list[Key] = []
    for _ in range(reader.count()):
        reader.uuid()
        name = reader.string()
        entries += [(name, reader.int32()) for _ in range(reader.count())]
        reader.tags()
    reader.tags()
    return tuple(entries)
