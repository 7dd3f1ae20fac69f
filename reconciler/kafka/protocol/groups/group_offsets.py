"""OffsetFetch and OffsetCommit: committed offsets of thousands of partitions at little cost.

OffsetFetch layout 8 carries many groups in one request (KIP-709), layout 7 one. OffsetCommit layout 8.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reconciler.kafka.client.errors import LEFT_OUT
from reconciler.kafka.protocol.flexible import NO_TAGS, NULL, ResponseReader, count, reading, string, topics_of, uvarint

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
ONE_GROUP, MANY_GROUPS = 7, 8
COMMIT_VERSION = 8

Key = tuple[str, int]
_PARTITION = struct.Struct(">iqi")
_ERROR = struct.Struct(">ih")
NO_GROUP = 69
"""GROUP_ID_NOT_FOUND: how some brokers answer for a group without offsets; Kafka itself names no offsets then."""
NO_MEMBER = struct.pack(">i", -1) + uvarint(1) + NULL
"""Generation, member and instance of a client that is no member."""
_NOTHING_MORE = b"\1\0\0\0"  # of a partition, as a rule: no metadata, no error, no tagged fields


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """``leader_epoch`` -1: not known. ``metadata`` is the committer's own text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """All committed offsets of a group. ``error`` concerns the whole group, ``unstable`` single partitions whose
    transactional commit is still undecided (KIP-447)."""

    offsets: Mapping[Key, CommittedOffset]
    error: int = 0
    unstable: tuple[Key, ...] = ()


def pack_fetch(version: int, groups: Sequence[str], *, stable: bool) -> bytes:
    """Asks for every partition the groups have committed. Layout 7 takes exactly one group."""
    if version == ONE_GROUP:
        (group,) = groups
        return b"".join((string(group), NULL, bytes((stable,)), NO_TAGS))
    entries = (string(group) + NULL + NO_TAGS for group in groups)
    return b"".join((count(len(groups)), *entries, bytes((stable,)), NO_TAGS))


@reading("an OffsetFetch")
def unpack_fetch(version: int, groups: Sequence[str], frame: memoryview) -> tuple[int, dict[str, GroupOffsets]]:
    """(throttle in ms, offsets of each group). Raises MalformedResponseError."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    group_offsets: dict[str, GroupOffsets] = {}
    if version == ONE_GROUP:
        group_offsets[groups[0]] = _offsets(reader)
    else:
        for _ in range(reader.count()):
            name = reader.string()
            group_offsets[name] = _offsets(reader)
            reader.tags()
    reader.finish()
    return throttle, group_offsets


def _offsets(reader: ResponseReader) -> GroupOffsets:
    """One group of an OffsetFetch response. Most partitions have neither metadata nor an error, so those bytes are
    compared at once. An error of a partition means that a transaction over its offset is undecided (KIP-447)."""
    offsets: dict[Key, CommittedOffset] = {}
    unstable: list[Key] = []
    frame = reader.frame
    for _ in range(reader.count()):
        topic = reader.string()
        for _ in range(reader.count()):
            partition, offset, epoch = _PARTITION.unpack_from(frame, reader.at)
            reader.at += 16
            metadata, error = "", 0
            if frame.startswith(_NOTHING_MORE, reader.at):
                reader.at += len(_NOTHING_MORE)
            else:
                metadata = reader.string()
                error = reader.int16()
                reader.tags()
            if error and error != NO_GROUP:
                unstable.append((topic, partition))
            elif offset >= 0:
                offsets[topic, partition] = CommittedOffset(offset, epoch, metadata)
        reader.tags()
    error = reader.int16()
    return GroupOffsets(offsets, 0 if error == NO_GROUP else error, tuple(unstable))


def pack_commit(group: str, offsets: Mapping[Key, CommittedOffset]) -> bytes:
    """OffsetCommit without a member: the coordinator refuses it while the group has members."""
    return b"".join((string(group), NO_MEMBER, pack_offsets(offsets), NO_TAGS))


def pack_offsets(offsets: Mapping[Key, CommittedOffset]) -> bytes:
    """Offsets by topic, in the layout of all commit requests."""
    packed = _PARTITION.pack
    entries = {
        key: packed(key[1], at.offset, at.leader_epoch) + string(at.metadata) + NO_TAGS for key, at in offsets.items()
    }
    return topics_of(entries)


@reading("an OffsetCommit")
def unpack_commit(frame: memoryview) -> tuple[int, dict[Key, int]]:
    """(throttle in ms, Kafka's error code of each partition). Raises MalformedResponseError."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    errors = {(topic, partition): error for topic, (partition, error) in reader.by_partition(_ERROR)}
    reader.finish()
    return throttle, errors


# DescribeShareGroupOffsets and AlterShareGroupOffsets, both layout 0 (KIP-932): start offsets of share groups.
#
# A share group has no committed offsets. Its start offset in a partition is that of the first unacknowledged record;
# only the broker knows acknowledgements after it.

DESCRIBE_SHARE_OFFSETS, ALTER_SHARE_OFFSETS = 90, 91
VERSION = 0
FEATURE = "share.version"
"""Finalized at 1 or more where the cluster has share groups at all."""

_START = struct.Struct(">iqih")
_OFFSET = struct.Struct(">iq")


def pack_describe(groups: Iterable[str]) -> bytes:
    """Asks for every partition that the groups have read."""
    entries = [string(group) + NULL + NO_TAGS for group in groups]
    return b"".join((count(len(entries)), *entries, NO_TAGS))


@reading("a DescribeShareGroupOffsets")
def unpack_describe(frame: memoryview) -> tuple[int, dict[str, GroupOffsets]]:
    """(throttle in ms, start offsets of each group). Partitions without one, and refused ones, are left out. Raises
    MalformedResponseError."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    groups: dict[str, GroupOffsets] = {}
    for _ in range(reader.count()):
        name, offsets = reader.string(), dict[Key, CommittedOffset]()
        for _ in range(reader.count()):
            topic = reader.string()
            reader.uuid()
            for _ in range(reader.count()):
                partition, start, epoch, error = reader.fixed(_START)
                reader.string()
                reader.tags()
                if not error and start >= 0:
                    offsets[topic, partition] = CommittedOffset(start, epoch)
            reader.tags()
        error = reader.int16()
        reader.string()
        reader.tags()
        groups[name] = GroupOffsets(offsets, error)
    reader.finish()
    return throttle, groups


def pack_alter(group: str, offsets: Mapping[Key, CommittedOffset]) -> bytes:
    """The coordinator refuses it while the group has members (NON_EMPTY_GROUP), and takes offsets beyond the log's end
    without a word: the caller looks."""
    entries = {key: _OFFSET.pack(key[1], committed.offset) + NO_TAGS for key, committed in offsets.items()}
    return b"".join((string(group), topics_of(entries), NO_TAGS))


@reading("an AlterShareGroupOffsets")
def unpack_alter(frame: memoryview, asked: Iterable[Key]) -> tuple[int, dict[Key, int]]:
    """(throttle in ms, Kafka's error code of each partition that was ``asked``). An error of the group is that of each
    of its partitions; a partition that is left out has ``LEFT_OUT``. Raises MalformedResponseError."""
    reader = ResponseReader(frame)
    throttle, error = reader.int32(), reader.int16()
    reader.string()
    codes = dict.fromkeys(asked, error or LEFT_OUT)
    for _ in range(reader.count()):
        topic = reader.string()
        reader.uuid()
        for _ in range(reader.count()):
            partition, code = reader.fixed(_ERROR)
            reader.string()
            reader.tags()
            codes[topic, partition] = code or error
        reader.tags()
    reader.finish()
    return throttle, codes
