"""What MirrorMaker 2's own tools do with our records: offset syncs and heartbeats are read, offsets translated."""

from __future__ import annotations

import struct

from reconciler.replication.mirrormaker_records import Heartbeat, OffsetSync

_PAIR = struct.Struct(">qq")
_HEARTBEAT = struct.Struct(">hq")


def read_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """Raises ValueError."""
    topic, rest = _string(key)
    return OffsetSync(topic, _unpacked(struct.Struct(">i"), rest)[0], *_unpacked(_PAIR, value))


def read_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    """Raises ValueError."""
    source, rest = _string(key)
    version, timestamp = _unpacked(_HEARTBEAT, value)
    if version != 0:
        raise ValueError(f"a heartbeat of version {version}")
    return Heartbeat(source, _string(rest)[0], timestamp)


def translate(syncs: list[OffsetSync], upstream: int) -> int | None:
    """OffsetSyncStore.translateDownstream (3.3.3 and later), over all syncs of one partition in the order they were
    written: -1 for a position older than all of them, None without any."""
    usable: list[OffsetSync] = []
    for sync in syncs:
        if usable and sync.upstream < usable[-1].upstream:
            usable.clear()
        usable.append(sync)
    if not usable:
        return None
    for sync in reversed(usable):
        if sync.upstream <= upstream:
            return sync.downstream + (sync.upstream != upstream)
    return -1


def _string(data: bytes) -> tuple[str, bytes]:
    """A text and what is behind it."""
    (size,) = _unpacked(struct.Struct(">h"), data)
    if not 0 <= size <= len(data) - 2:
        raise ValueError("a text is cut")
    return data[2 : 2 + size].decode(), data[2 + size :]


def _unpacked(layout: struct.Struct, data: bytes) -> tuple[int, ...]:
    try:
        return layout.unpack_from(data)
    except struct.error as error:
        raise ValueError(str(error)) from None
