"""Kafka's flexible encoding (KIP-482): compact strings and lists, tagged fields."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from reconciler.kafka.client.errors import MalformedResponseError

NO_TAGS = b"\0"
NULL = b"\0"
MOST_ENTRIES, MOST_TAGS = 1_000_000, 10_000
"""Limits of one list, and of tagged fields in one place, as in Kafka 4.4."""
_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")


def uvarint(number: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first. ``number``: 0 or above. Lengths of one and two bytes,
    which nearly all are, need no recursion."""
    if number < 1 << 7:
        return bytes((number,))
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80)) + uvarint(number >> 14)


def count(entries: int) -> bytes:
    """The length before a compact list."""
    return uvarint(entries + 1)


def string(text: str) -> bytes:
    """A compact string; for null, which is another thing than empty, see ``NULL``."""
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def topics_of(entries: Mapping[tuple[str, int], bytes]) -> bytes:
    """Topics, each with its partitions, as ``ResponseReader.by_partition`` reads them. ``entries``: by partition."""
    by_topic: dict[str, list[bytes]] = {}
    for (topic, _), entry in entries.items():
        by_topic.setdefault(topic, []).append(entry)
    parts = [count(len(by_topic))]
    for topic, members in by_topic.items():
        parts += (string(topic), count(len(members)), *members, NO_TAGS)
    return b"".join(parts)


@contextmanager
def reading(answer: str) -> Iterator[None]:
    """Raises MalformedResponseError for what ``ResponseReader`` raises. ``answer``: its name, with an article."""
    try:
        yield
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedResponseError(f"{answer} response cannot be read: {error}") from error


class ResponseReader:
    """Reads one response; ``frame`` begins with the correlation id. Raises ValueError, IndexError or struct.error.

    ``at`` is public: a hot loop reads it, parses by itself, and writes it back.
    """

    __slots__ = ("at", "frame")

    def __init__(self, frame: memoryview, *, at: int = 4, tagged: bool = True, views: bool = False) -> None:
        """``at``: where it begins to read. ``tagged``: whether the header has tags; that of ApiVersions never has
        (KIP-482). ``views``: what ``take`` and ``raw`` give is not copied out of ``frame``."""
        self.frame: bytes = cast(bytes, frame) if views else bytes(frame)
        self.at = at
        if tagged:
            self.tags()

    def int8(self) -> int:
        self.at += 1
        return self.frame[self.at - 1]

    def int16(self) -> int:
        (number,) = _I16.unpack_from(self.frame, self.at)
        self.at += 2
        return int(number)

    def int32(self) -> int:
        (number,) = _I32.unpack_from(self.frame, self.at)
        self.at += 4
        return int(number)

    def fixed(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several numbers at once."""
        numbers = layout.unpack_from(self.frame, self.at)
        self.at += layout.size
        return numbers

    def uint(self) -> int:
        """An unsigned varint (KIP-482): seven bits a byte, the lowest first. Most lengths need a single byte, which is
        why that case comes first. Raises ValueError for more than five bytes, and IndexError at the end of the
        frame."""
        byte = self.frame[self.at]
        self.at += 1
        if byte < 0x80:
            return byte
        number, shift = byte & 0x7F, 7
        while True:
            byte = self.frame[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 28:
                raise ValueError("a length has too many bytes")

    def count(self) -> int:
        """Entries of a compact list; 0 for null."""
        first = self.frame[self.at]
        if 0 < first < 0x80:
            self.at += 1
            return first - 1
        number = max(self.uint() - 1, 0)
        if number > MOST_ENTRIES:
            raise ValueError(f"a list of {number} entries is announced")
        return number

    def string(self) -> str:
        """Empty for null."""
        begin = self.at + 1
        size = self.frame[self.at]
        if 0 < size < 0x80 and begin + size - 1 <= len(self.frame):  # nearly every one; below is the same for all
            self.at = begin + size - 1
            return self.frame[begin : self.at].decode()
        return self.raw().decode()

    def raw(self) -> bytes:
        """Empty for null."""
        return self.take(max(self.uint() - 1, 0))

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self.take(16)))

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes. Checks against the frame's end before it slices: a slice beyond it would be short,
        and every field after it be read from the wrong place."""
        end = self.at + size
        if end > len(self.frame):
            raise ValueError(f"{size} bytes are announced, {len(self.frame) - self.at} are there")
        piece = self.frame[self.at : end]
        self.at = end
        return piece

    def tags(self) -> None:
        """Passes over tagged fields, which newer brokers may add to any structure (KIP-482)."""
        if self.frame[self.at] == 0:
            self.at += 1
            return
        number = self.uint()
        if number > MOST_TAGS:
            raise ValueError(f"{number} tagged fields are announced")
        for _ in range(number):
            self.uint()
            self.take(self.uint())

    def by_partition(self, layout: struct.Struct) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yields the topic's name and the numbers of one partition, for all topics."""
        for _ in range(self.count()):
            topic = self.string()
            for _ in range(self.count()):
                numbers = self.fixed(layout)
                self.tags()
                yield topic, numbers
            self.tags()

    def finish(self, *, tagged: bool = True) -> None:
        """``tagged``: whether tagged fields still have to be read."""
        if tagged:
            self.tags()
        if self.at != len(self.frame):
            raise ValueError(f"{len(self.frame) - self.at} bytes are left over")


class ClassicReader(ResponseReader):
    """The encoding from before KIP-482."""

    __slots__ = ()

    def count(self) -> int:
        number = self.int32()
        if not -1 <= number <= MOST_ENTRIES:
            raise ValueError(f"a list of {number} entries is announced")
        return max(number, 0)

    def string(self) -> str:
        return str(self.take(max(self.int16(), 0)), "utf-8")

    def raw(self) -> bytes:
        return self.take(max(self.int32(), 0))

    def tags(self) -> None:
        """Classic encoding has no tagged fields."""
