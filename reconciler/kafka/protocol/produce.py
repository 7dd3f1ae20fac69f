"""Produce requests: versions 8 (idempotent) and 12 (KIP-890), one batch per partition per request.

Of two batches of one partition in a request, the broker would silently drop the first, so a request is a mapping by
partition, which cannot contain two.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from reconciler.kafka.protocol.flexible import NULL, ClassicReader, ResponseReader, count, reading, string, uvarint

CLASSIC, VERSION_2 = 8, 12
ACKS_ALL = -1

# Of ProduceResponse: partition, error, base offset, append time, log start offset.
_ANSWER = struct.Struct(">ihqqq")
_I = struct.Struct(">i")
_ENTRY = struct.Struct(">ii")
_NO_RECORD_ERRORS = b"\x01\0\0"  # no record errors, no message, no tagged fields; in layout 8 no list begins so

Key = tuple[str, int]


class Produced(NamedTuple):
    """One partition's result."""

    topic: str
    partition: int
    error: int
    """Kafka's code; 0: appended."""
    base_offset: int
    """Of the batch; -1 after an error."""
    message: str
    """The broker's text for a refusal."""
    stamp: int = -1
    """The time in ms that LogAppendTime gives records, -1 if they keep their own."""


def pack(
    version: int, transactional_id: str | None, batches: Mapping[Key, memoryview], timeout_ms: int
) -> list[bytes | memoryview]:
    """The body of a Produce request in pieces; the batches are not copied. ``transactional_id`` None: of an idempotent
    producer, or of none. ``timeout_ms``: how long the leader may wait for its replicas (acks is always all)."""
    by_topic: dict[str, list[tuple[int, memoryview]]] = {}
    for (topic, partition), raw in batches.items():
        by_topic.setdefault(topic, []).append((partition, raw))
    if version == CLASSIC:
        return _pack_8(transactional_id, by_topic, timeout_ms)
    return _pack_12(transactional_id, by_topic, timeout_ms)


def _pack_8(
    transactional_id: str | None, by_topic: Mapping[str, list[tuple[int, memoryview]]], timeout_ms: int
) -> list[bytes | memoryview]:
    """Classic encoding, as parts: headers, and the batches themselves without copying them. ``pending`` gathers what
    goes before the next batch, so that there are two parts a batch."""
    name = transactional_id.encode() if transactional_id is not None else b""
    pending = struct.pack(">h", len(name) if transactional_id is not None else -1) + name
    pending += struct.pack(">hii", ACKS_ALL, timeout_ms, len(by_topic))
    pieces: list[bytes | memoryview] = []
    for topic, members in by_topic.items():
        raw_name = topic.encode()
        pending += struct.pack(">h", len(raw_name)) + raw_name + _I.pack(len(members))
        for partition, raw in members:
            pieces += (pending + _ENTRY.pack(partition, len(raw)), raw)
            pending = b""
    return pieces


def _pack_12(
    transactional_id: str | None, by_topic: Mapping[str, list[tuple[int, memoryview]]], timeout_ms: int
) -> list[bytes | memoryview]:
    """The same with compact lengths and tagged fields (KIP-482)."""
    pending = string(transactional_id) if transactional_id is not None else NULL
    pending += struct.pack(">hi", ACKS_ALL, timeout_ms) + count(len(by_topic))
    pieces: list[bytes | memoryview] = []
    for topic, members in by_topic.items():
        pending += string(topic) + count(len(members))
        for partition, raw in members:
            pieces += (pending + _I.pack(partition) + uvarint(len(raw) + 1), raw)
            pending = b"\0"
        pending += b"\0"
    return [*pieces, pending + b"\0"]


@reading("a Produce")
def unpack(version: int, frame: memoryview) -> tuple[int, list[Produced]]:
    """(throttle in ms, answers); ``frame`` begins with the correlation id. Raises MalformedResponseError."""
    reader = ClassicReader(frame) if version == CLASSIC else ResponseReader(frame)
    entries: list[Produced] = []
    for _ in range(reader.count()):
        topic = reader.string()
        entries.extend(_partition(reader, topic) for _ in range(reader.count()))
        reader.tags()
    throttle = reader.int32()
    reader.finish()
    return throttle, entries


def _partition(reader: ResponseReader, topic: str) -> Produced:
    """Record errors (KIP-467) and the error message become one text; a success without any is recognised by its bytes,
    since there is one for each batch that is written."""
    index, error, base, stamp, _ = reader.fixed(_ANSWER)
    if not error and reader.frame.startswith(_NO_RECORD_ERRORS, reader.at):
        reader.at += len(_NO_RECORD_ERRORS)
        return Produced(topic, index, error, base, "", stamp)
    said: list[str] = []
    for _ in range(reader.count()):
        reader.int32()
        said.append(reader.string())
        reader.tags()
    said.append(reader.string())
    reader.tags()
    return Produced(topic, index, error, base, "; ".join(dict.fromkeys(part for part in said if part)), stamp)
