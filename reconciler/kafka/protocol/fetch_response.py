"""Fetch responses, versions 11 and 13: bounds are checked at every step, records are views and never copied."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from reconciler.kafka.protocol.flexible import ClassicReader, ResponseReader, reading

NAMES, IDS = 11, 13

_HEAD = struct.Struct(">ihi")
_ANSWER = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")


def version_for(negotiated: Callable[[int, int, int, str], int], *, by_name: bool) -> int:
    """The layout to ask a broker in, as it offers them; ``by_name``: the id of a topic is not known."""
    version = negotiated(1, NAMES, NAMES if by_name else IDS, "Fetch")
    return IDS if version >= IDS else NAMES


class FetchedPartition(NamedTuple):
    """One partition of a Fetch response."""

    topic: str
    partition: int
    error: int
    """Kafka's code."""
    high_watermark: int
    """End of what all in-sync replicas have; no consumer reads further."""
    last_stable: int
    """End of what is decided: the first offset of the first open transaction, or the high watermark."""
    log_start: int
    """First offset that retention and DeleteRecords have left; -1 unknown."""
    aborted: tuple[tuple[int, int], ...]
    """Producer id and first offset of each aborted transaction that overlaps the records; only readers of committed
    records get them."""
    preferred_replica: int
    """Broker to fetch from instead (KIP-392); -1: this one."""
    records: memoryview
    """A view into the receive buffer; its last batch may be cut."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """``error``: code of the fetch session (KIP-227); partitions have their own. Contains only partitions with news."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: tuple[FetchedPartition, ...]


@reading("a Fetch")
def unpack(version: int, frame: memoryview, names: Mapping[UUID, str]) -> Fetched:
    """Reads a response; ``frame`` begins with the correlation id. Raises MalformedResponseError."""
    reader = ClassicReader(frame, views=True) if version == NAMES else ResponseReader(frame, views=True)
    throttle, error, session = reader.fixed(_HEAD)
    partitions: list[FetchedPartition] = []
    for _ in range(reader.count()):
        topic = reader.string() if version == NAMES else names.get(reader.uuid(), "")
        if version == NAMES and not topic:
            raise ValueError("a topic has no name")
        partitions += [_partition(reader, topic) for _ in range(reader.count())]
        reader.tags()
    reader.finish()
    return Fetched(throttle, error, session, tuple(partitions))


def _partition(reader: ResponseReader, topic: str) -> FetchedPartition:
    index, error, high, stable, start = reader.fixed(_ANSWER)
    aborted = tuple(_aborted(reader) for _ in range(reader.count()))
    replica, records = reader.int32(), memoryview(reader.raw())
    reader.tags()
    return FetchedPartition(topic, index, error, high, stable, start, aborted, replica, records)


def _aborted(reader: ResponseReader) -> tuple[int, int]:
    producer_id, first_offset = reader.fixed(_ABORTED)
    reader.tags()
    return producer_id, first_offset
