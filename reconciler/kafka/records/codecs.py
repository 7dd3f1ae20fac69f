"""Compression codecs as Kafka's clients frame them: gzip, snappy, lz4, zstd."""

import mmap
import struct
from typing import Any

import cramjam

from reconciler.kafka.client.errors import MalformedResponseError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
# Kafka's Java clients frame snappy as snappy-java does: this header (magic, version 1, readable from version 1
# on), then blocks, each with its length.
_XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 << 10
# magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, checksum of these two bytes: as
# KafkaLZ4BlockOutputStream writes it. Java's reader does not take frames whose blocks depend on each other.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 << 10
_LZ4_STORED = 1 << 31
_ROOMS: list[bytearray] = []
_MOST_KEPT = 16 << 20
"""Bytes of the room for decompressed batches that a thread keeps."""
MOST_OPENED = 128 << 20
"""Limit of a batch's decompressed bytes: a hundred times a topic's default, since any producer could compress 30 GB
into one megabyte."""
_MOST_OF_A_BYTE = {NONE: 1, GZIP: 1032, SNAPPY: 32, LZ4: 255, ZSTD: 32768}
"""What one byte can become: deflate's longest match, LZ4's length bytes, zstd's run of a whole block in four bytes; of
snappy's copies 64 bytes for two, and at most the length that a block begins with."""


class TooMuchToOpenError(MalformedResponseError):
    """Records that are more than ``MOST_OPENED`` bytes. The batch may be sound, and can still be passed on whole."""

    def __init__(self, codec: int) -> None:
        super().__init__(
            f"its records are more than {MOST_OPENED >> 20} MiB once they are decompressed (codec {codec})"
        )


def may_be_too_much(codec: int, size: int) -> bool:
    """Whether ``size`` bytes can become more than ``MOST_OPENED``."""
    return size * _MOST_OF_A_BYTE.get(codec, 1) > MOST_OPENED


def decompress(codec: int, data: memoryview, room: bytearray | None = None) -> memoryview:
    """The bytes behind ``data``. Raises MalformedResponseError; ``TooMuchToOpenError`` before it takes the memory.
    ``room``: memory that lz4 may use, and enlarge; the answer lies in it."""
    try:
        match codec:
            case 0:
                return data
            case 1:
                return _bounded(cramjam.gzip, codec, data)
            case 2:
                return _from_snappy(data)
            case 3:
                return _from_lz4(data, room)
            case 4:
                return _bounded(cramjam.zstd, codec, data)
            case _:
                raise MalformedResponseError(f"codec {codec} is not known")
    except (cramjam.DecompressionError, struct.error, ValueError) as error:
        raise MalformedResponseError(f"records cannot be decompressed: {error}") from error


def decompressed(codec: int, data: memoryview) -> bytes:
    """``decompress`` into separate memory. lz4 reuses one buffer for all batches, because new memory costs more than
    copying."""
    room = _ROOMS.pop() if _ROOMS else bytearray()  # one for each thread that is at it
    opened = decompress(codec, data, room).tobytes()
    if len(room) <= _MOST_KEPT:
        _ROOMS.append(room)
    return opened


def _bounded(module: Any, codec: int, data: memoryview) -> memoryview:
    """Decompresses data that may exceed the limit into memory of that size, of which only written pages are
    allocated."""
    if not may_be_too_much(codec, len(data)):
        return memoryview(module.decompress(data))
    room = mmap.mmap(-1, MOST_OPENED)
    try:
        return memoryview(room)[: module.decompress_into(data, room)]
    except cramjam.DecompressionError as error:
        if "failed to write whole buffer" in str(error):
            raise TooMuchToOpenError(codec) from None
        raise


def _from_lz4(data: memoryview, given: bytearray | None) -> memoryview:
    """Frames with the header that Kafka's clients write are opened block by block into memory of the right size: a
    context for each frame, and memory that grows, would take twice the time."""
    if data[:7] != _LZ4_HEADER or may_be_too_much(LZ4, len(data)):
        return _bounded(cramjam.lz4, LZ4, data)
    blocks: list[tuple[int, int]] = []
    position = len(_LZ4_HEADER)
    while size := struct.unpack_from("<I", data, position)[0]:
        position += 4
        blocks.append((position, size))
        position += size & ~_LZ4_STORED
    if position + 4 != len(data):  # another frame follows, or bytes are missing
        return _bounded(cramjam.lz4, LZ4, data)
    whole = bytearray() if given is None else given
    whole.extend(bytes(max(0, len(blocks) * _LZ4_BLOCK - len(whole))))
    room, end = memoryview(whole), 0
    for start, size in blocks:
        if size & _LZ4_STORED:
            size ^= _LZ4_STORED
            room[end : end + size] = data[start : start + size]
            end += size
        else:
            end += cramjam.lz4.decompress_block_into(data[start : start + size], room[end : end + _LZ4_BLOCK])
    return room[:end]


def with_right_checksum(frame: memoryview) -> memoryview:
    """An lz4 frame of format 0, whose header checksum old clients took over the magic number too (KAFKA-3160)."""
    if len(frame) < 7:
        raise MalformedResponseError("an lz4 frame is cut")
    flags = frame[4]
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    descriptor = bytes(frame[4:end])
    return memoryview(bytes(frame[:end]) + bytes([_xxh32(descriptor) >> 8 & 0xFF]) + bytes(frame[end + 1 :]))


def _xxh32(data: bytes) -> int:
    """XXH32 of fewer than 16 bytes, seed 0 (xxHash specification)."""
    word = 0xFFFFFFFF
    number, position = 374761393 + len(data) & word, 0
    while position + 4 <= len(data):
        (lane,) = struct.unpack_from("<I", data, position)
        number = _rotated(number + lane * 3266489917 & word, 17) * 668265263 & word
        position += 4
    for byte in data[position:]:
        number = _rotated(number + byte * 374761393 & word, 11) * 2654435761 & word
    number = (number ^ number >> 15) * 2246822519 & word
    number = (number ^ number >> 13) * 3266489917 & word
    return number ^ number >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF


def compress(codec: int, data: bytes | bytearray) -> bytes:
    """``codec``: the three lowest bits of a batch's attributes (0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd). Levels are
    those of Kafka's own producer, or quicker where the size hardly differs."""
    match codec:
        case 0:
            return bytes(data)
        case 1:
            return bytes(cramjam.gzip.compress(data, level=6))
        case 2:
            return _to_snappy(memoryview(data))
        case 3:
            return _to_lz4(memoryview(data))
        case 4:
            return bytes(cramjam.zstd.compress(data, level=3))
        case _:
            raise ValueError(f"codec {codec} is not known")


def _from_snappy(data: memoryview) -> memoryview:
    """Both framings that producers use. The limit counts over all blocks of a batch: each one alone may be small."""
    if data[:8] != _XERIAL[:8]:
        return _snappy_block(data, MOST_OPENED)  # librdkafka sends one bare block
    out, position = bytearray(), len(_XERIAL)
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= size <= len(data) - position:
            raise ValueError("a snappy block is cut")
        out += _snappy_block(data[position : position + size], MOST_OPENED - len(out))
        position += size
    return memoryview(out)


def _snappy_block(data: memoryview, room: int) -> memoryview:
    """Decompresses a block, which begins with its decompressed length."""
    if cramjam.snappy.decompress_raw_len(data) > room:
        raise TooMuchToOpenError(SNAPPY)
    return memoryview(cramjam.snappy.decompress_raw(data))


def _to_snappy(data: memoryview) -> bytes:
    """In blocks of 32 KiB, as Kafka's own producer writes them."""
    out = [_XERIAL]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        out += (struct.pack(">i", len(block)), block)
    return b"".join(out)


def _to_lz4(data: memoryview) -> bytes:
    """An LZ4 frame of independent blocks without checksums. A block that does not get smaller is stored as it is, as
    the format asks for."""
    out = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += (struct.pack("<I", len(block)), block)
        else:
            out += (struct.pack("<I", len(plain) | _LZ4_STORED), bytes(plain))
    return b"".join([*out, b"\0\0\0\0"])
