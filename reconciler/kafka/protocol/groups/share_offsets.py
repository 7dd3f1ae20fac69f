"""DescribeShareGroupOffsets and AlterShareGroupOffsets, both layout 0 (KIP-932): start offsets of share groups.

A share group has no committed offsets. Its start offset in a partition is that of the first unacknowledged record; only
the broker knows acknowledgements after it.
"""

import struct
from collections.abc import Iterable, Mapping

from reconciler.kafka.client.errors import LEFT_OUT
from reconciler.kafka.protocol.flexible import NO_TAGS, NULL, ResponseReader, count, reading, string, topics_of
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset, GroupOffsets, Key

DESCRIBE_SHARE_OFFSETS, ALTER_SHARE_OFFSETS = 90, 91
VERSION = 0
FEATURE = "share.version"
"""Finalized at 1 or more where the cluster has share groups at all."""

_START = struct.Struct(">iqih")
_OFFSET = struct.Struct(">iq")
_ERROR = struct.Struct(">ih")


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
