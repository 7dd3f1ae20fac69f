"""MirrorMaker 2's internal topics: names, bytes of their records, and its own rule of offset translation.

Formats: OffsetSync, Checkpoint and Heartbeat of org.apache.kafka.connect.mirror, Kafka protocol types, big-endian.
"""

import struct
from dataclasses import dataclass
from functools import lru_cache

from reconciler.replication.policy import HEARTBEATS as HEARTBEATS

_PAIR = struct.Struct(">qq")
_CHECKPOINT = struct.Struct(">hqq")
_HEARTBEAT = struct.Struct(">hq")
_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")
_LONGEST = 32_767


def checkpoints_topic(source: str, separator: str = ".") -> str:
    """On the target, named after the source. ``separator``: of internal topics."""
    return f"{source}{separator}checkpoints{separator}internal"


def offset_syncs_topic(other: str, separator: str = ".") -> str:
    """``other``: the alias of the cluster on which the topic is *not*."""
    return f"mm2-offset-syncs{separator}{other}{separator}internal"


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at ``upstream`` of the source partition is at ``downstream`` of its remote partition."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    def record(self) -> tuple[bytes, bytes]:
        return _string(self.topic) + _INT.pack(self.partition), _PAIR.pack(self.upstream, self.downstream)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's offset on both sides, as MirrorMaker 2's tools read it."""

    group: str
    topic: str
    """The *remote* topic."""
    partition: int
    upstream: int
    """The committed offset on the source."""
    downstream: int
    """The same place in the remote topic."""
    metadata: str = ""

    def record(self) -> tuple[bytes, bytes]:
        """Raises ValueError when a text is longer than Kafka's STRING takes."""
        key = _string(self.group) + _string(self.topic) + _INT.pack(self.partition)
        return key, _CHECKPOINT.pack(0, self.upstream, self.downstream) + _string(self.metadata)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """``timestamp_ms`` is also the record's timestamp."""

    source: str
    target: str
    timestamp_ms: int

    def record(self) -> tuple[bytes, bytes]:
        return _string(self.source) + _string(self.target), _HEARTBEAT.pack(0, self.timestamp_ms)


def no_heartbeat(key: bytes | None, value: bytes | None) -> str:
    """Why a record is no heartbeat of any version of MirrorMaker 2; else empty. A tombstone is judged by its key,
    because tools clean up with tombstones."""
    if key is None:
        return "it has no key"
    try:
        _, at = _read_string(key, 0)
        _, at = _read_string(key, at)
        if at != len(key):
            raise ValueError("bytes after the two aliases")
        if value is not None:
            _read(_HEARTBEAT, value, 0)
    except ValueError:  # so is what is no UTF-8
        return "its key and value are not two aliases and a time"
    return ""


def read_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Raises ValueError."""
    group, at = _read_string(key, 0)
    topic, at = _read_string(key, at)
    version, upstream, downstream = _read(_CHECKPOINT, value, 0)
    if version != 0:
        raise ValueError(f"a checkpoint of version {version}")
    if upstream < 0 or downstream < 0:
        raise ValueError(f"a checkpoint of offsets {upstream} and {downstream}")
    return Checkpoint(group, topic, _read(_INT, key, at)[0], upstream, downstream, _read_string(value, 18)[0])


@lru_cache(4096)  # the same groups and topics, checkpoint after checkpoint
def _string(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > _LONGEST:
        raise ValueError(f"a text of {len(raw)} bytes; {_LONGEST} is the limit")
    return _SHORT.pack(len(raw)) + raw


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = _read(_SHORT, data, at)
    end = at + 2 + size
    if size < 0 or end > len(data):
        raise ValueError("a text is cut")
    return data[at + 2 : end].decode(), end


def _read(layout: struct.Struct, data: bytes, at: int) -> tuple[int, ...]:
    try:
        return layout.unpack_from(data, at)
    except struct.error as error:
        raise ValueError(str(error)) from None
