"""DescribeTransactions by hand (KIP-664, from Kafka 3.0): is a transaction that was ended complete, markers and all?"""

from __future__ import annotations

import struct

from wire.compact import NO_TAGS, Reader, count, string
from wire.errors import MalformedResponseError

DESCRIBE_TRANSACTIONS, VERSION = 65, 0
_UNDECIDED = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


def pack(transactional_id: str) -> bytes:
    return b"".join((count(1), string(transactional_id), NO_TAGS))


def unpack(frame: memoryview) -> tuple[int, int, str]:
    """(throttle in ms, Kafka's error code, state). What follows the state is not read."""
    try:
        reader = Reader(frame)
        throttle = reader.int32()
        if reader.count() != 1:
            raise ValueError("it is not about one transaction")
        error = reader.int16()
        reader.string()
        return throttle, error, reader.string()
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedResponseError(f"a DescribeTransactions response cannot be read: {error}") from error


def undecided(state: str) -> bool:
    """Ended, but the markers are not all written yet."""
    return state in _UNDECIDED
