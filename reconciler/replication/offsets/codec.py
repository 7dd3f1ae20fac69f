"""The bytes of the offset map in ``__mirror_offsets``: one record a chunk, written again while it grows.

Key: ``flow/topic/partition/begin`` of the source. Value: version, flags, both topic ids, then unsigned varints: begin,
length, and unless it is silent: first target offset, and for each group of equal runs: how often, source offsets and
target offsets left out before it, records. The log is compacted, so the newest version of a chunk stays; a chunk holds
about 1 KB.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from reconciler.kafka.protocol.flexible import uvarint
from reconciler.replication.offsets.map import CopiedRun, Stretch

VERSION = 1
MOST_RUNS = 500_000
"""Limit of runs in one chunk, because a few bytes could encode any number; a mirror begins another chunk much
earlier."""
_FIRST = 1
_NUMBER = re.compile("[0-9]{1,19}")
_NO_ID = UUID(int=0)

Ids = tuple[UUID, UUID]
"""Topic ids of a source topic and of its remote topic."""


@dataclass(frozen=True, slots=True)
class MapPartition:
    """A partition of a flow, as keys of the offset map name it."""

    flow: str
    topic: str
    partition: int
    source_id: UUID = _NO_ID
    """Topic id, so that a recreated topic has a new map; zero where a broker returns none."""
    target_id: UUID = _NO_ID
    """Likewise."""

    def is_of(self, ids: Ids) -> bool:
        """Whether source and remote topic have these ids, as far as they are known."""
        pairs = zip((self.source_id, self.target_id), ids, strict=True)
        return all(_NO_ID in pair or pair[0] == pair[1] for pair in pairs)


class ChunkError(ValueError):
    """A record of the map's topic that is no chunk, or one of a later release."""


class OffsetChunk:
    """A stretch while it grows; each run is encoded once."""

    __slots__ = ("_done", "_group", "begin", "end", "first", "first_target", "last", "runs")

    def __init__(self, begin: int, *, first: bool = False) -> None:
        self.begin = self.end = begin
        self.first = first
        self.first_target = -1
        self.last: CopiedRun | None = None
        self.runs = 0
        self._done = bytearray()
        self._group: list[int] = []  # times, source gap, target gap, records

    @property
    def size(self) -> int:
        return len(self._done)

    def add(self, run: CopiedRun) -> None:
        """``run`` lies after all earlier ones on both sides."""
        last = self.last
        if last is not None and (run.source, run.target) == (last.source_end, last.target_end):
            # The same run goes on; its group is split when earlier runs were equal to it.
            times, *gaps, records = self._group
            if times > 1:
                self._group[0] = times - 1
                self._flush()
            self._group = [1, *gaps, records + run.records]
            self.last = CopiedRun(last.source, last.target, records + run.records)
            return
        if last is None:
            self.first_target = run.target
            gaps = [run.source - self.begin, 0]
        else:
            gaps = [run.source - last.source_end, run.target - last.target_end]
        self.last = run
        self.runs += 1
        if self._group and self._group[1:] == [*gaps, run.records]:
            self._group[0] += 1
        else:
            self._flush()
            self._group = [1, *gaps, run.records]

    def _flush(self) -> None:
        self._done += b"".join(map(uvarint, self._group))

    def encode(self, place: MapPartition) -> tuple[bytes, bytes]:
        """(key, value) of the present chunk. A chunk without a run ends after its length; releases before silent
        stretches skip it."""
        value = bytearray((VERSION, _FIRST if self.first else 0))
        value += place.source_id.bytes + place.target_id.bytes
        value += uvarint(self.begin) + uvarint(self.end - self.begin)
        if self.last is not None:
            value += uvarint(self.first_target)
        value += self._done + b"".join(map(uvarint, self._group))
        return f"{place.flow}/{place.topic}/{place.partition}/{self.begin}".encode(), bytes(value)


def encode(place: MapPartition, stretch: Stretch) -> tuple[bytes, bytes]:
    """(key, value) of a whole stretch."""
    chunk = OffsetChunk(stretch.begin, first=stretch.first)
    for run in stretch.runs:
        chunk.add(run)
    chunk.end = stretch.end
    return chunk.encode(place)


def decode_key(key: bytes) -> tuple[str, str, int, int]:
    """(flow, source topic, partition, begin). Raises ChunkError."""
    parts = key.decode("utf-8", "replace").split("/")
    if len(parts) != 4 or not all(_NUMBER.fullmatch(part) for part in parts[2:]):
        raise ChunkError("the key is not flow/topic/partition/offset")
    return parts[0], parts[1], int(parts[2]), int(parts[3])


def end_of(key: bytes, value: bytes) -> int:
    """The end of the chunk's stretch, without decoding its runs. Raises ChunkError."""
    _check(key, value)
    begin, length = [*_numbers(value[:64], 34, 2), -1, -1][:2]  # two varints of at most ten bytes
    if min(begin, length) < 0 or begin + length >= 1 << 63:
        raise ChunkError(f"the chunk {key.decode('utf-8', 'replace')} covers no offsets of a log")
    return begin + length


def place_of(key: bytes, value: bytes) -> MapPartition:
    """The partition of a chunk, without decoding its runs. Raises ChunkError."""
    flow, topic, partition, _ = decode_key(key)
    _check(key, value)
    return MapPartition(flow, topic, partition, UUID(bytes=value[2:18]), UUID(bytes=value[18:34]))


def _check(key: bytes, value: bytes) -> None:
    if len(value) < 36 or value[0] != VERSION:
        raise ChunkError(
            f"the chunk {key.decode('utf-8', 'replace')} has format {value[0] if value else 'none'}, not {VERSION}"
        )


def decode(key: bytes, value: bytes) -> tuple[MapPartition, Stretch]:
    """Raises ChunkError."""
    place = place_of(key, value)
    numbers = _numbers(value, 34)
    if len(numbers) == 2:
        return place, Stretch(numbers[0], sum(numbers), (), bool(value[1] & _FIRST))
    name = key.decode("utf-8", "replace")
    if len(numbers) < 7 or (len(numbers) - 3) % 4:
        raise ChunkError(f"the chunk {name} is cut")
    begin, length, target = numbers[:3]
    groups = [numbers[at : at + 4] for at in range(3, len(numbers), 4)]

    # A few bytes can name any number of runs, so their number and extent are checked before the first is made.
    count = sum(times for times, *_ in groups)
    span = sum(times * (source_gap + records) for times, source_gap, _, records in groups)
    if count > MOST_RUNS or span > length:
        raise ChunkError(f"the chunk {name} has {count} runs over {span} offsets, but covers {length}")
    runs: list[CopiedRun] = []
    source = begin
    for times, source_gap, target_gap, records in groups:
        for _ in range(times):
            source += source_gap
            target += target_gap
            runs.append(CopiedRun(source, target, records))
            source += records
            target += records
    return place, Stretch(begin, begin + length, tuple(runs), bool(value[1] & _FIRST))


def _numbers(value: bytes, at: int, most: int = 0) -> list[int]:
    """Unsigned varints from ``at`` on, at most ``most`` (0: all). Raises ChunkError for a cut one."""
    numbers: list[int] = []
    number = shift = 0
    for byte in value[at:]:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
            if len(numbers) == most:
                break
        else:
            shift += 7
    if shift:
        raise ChunkError("a number is cut")
    return numbers
