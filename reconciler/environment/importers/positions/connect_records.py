"""Parses records of Kafka Connect's offsets topic, as MirrorMaker 2's source connector writes them.

Key: JSON ``[connector, {"cluster": alias, "partition": 0, "topic": name}]``; value: ``{"offset": n}``, the source
offset of the last record that was copied. The last record of a key counts, and null takes a position back (KIP-875).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.replication.json_codec import parsed

Key = tuple[str, int]

_MOST = (1 << 63) - 2


@dataclass(frozen=True, slots=True)
class Stored:
    """The key of a stored position; ``alias``: the source as MirrorMaker 2 calls it."""

    connector: str
    alias: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Records:
    """``positions``: the next source offset to copy, one after the stored one. ``broken``: partitions whose last value
    is no offset, with that value. ``unread``: connector -> number of records whose key names no source partition, such
    as those of heartbeats and checkpoints; the empty name for keys that no connector writes."""

    positions: Mapping[Stored, int]
    broken: Mapping[Stored, str]
    unread: Mapping[str, int]


def positions(records: Iterable[tuple[bytes | None, bytes | None]]) -> Records:
    """``records``: in the order of their partition. Never raises, whatever they hold."""
    last: dict[Stored, bytes | None] = {}
    unread: Counter[str] = Counter()
    for key, value in records:
        match _json(key or b""):
            case [str(connector), {"cluster": str(alias), "topic": str(topic), "partition": int(number)}] if (
                type(number) is int and 0 <= number < 1 << 31  # not a bool, which is an int for Python
            ):
                last[Stored(connector, alias, topic, number)] = value
            case [str(connector), *_]:
                unread[connector] += 1
            case _:
                unread[""] += 1
    all_positions: dict[Stored, int] = {}
    broken: dict[Stored, str] = {}
    for stored, value in last.items():
        if value is None or (data := _json(value)) is None:
            continue
        offset = data.get("offset") if isinstance(data, dict) else None
        if type(offset) is int and 0 <= offset <= _MOST:
            all_positions[stored] = offset + 1
        else:
            broken[stored] = value[:60].decode(errors="replace")
    return Records(all_positions, broken, dict(unread))


def _json(text: bytes) -> object:
    """Parsed JSON; invalid JSON becomes a value that is no position."""
    try:
        return parsed(text)
    except ValueError:
        return ""
