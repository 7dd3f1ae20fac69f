"""Logs as years of records leave them, which begin, or go on behind a wide hole, at any offset; and logs that lost
their end."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping

from reconciler_sandbox.handles import ClusterHandle

STALE = ("*.index", "*.timeindex", "*.txnindex", "*.snapshot")


def go_on_at(cluster: ClusterHandle, offsets: Mapping[tuple[str, int], int]) -> None:
    """By topic and partition: the offset of the next record. Restarts the cluster's one broker in between.

    An empty log begins there. Of one with records these stay, and the offsets between have none, as after compaction.
    """
    data = cluster.folder / "broker-1" / "data"
    until = time.monotonic() + 20
    while missing := [place for place in offsets if not (data / f"{place[0]}-{place[1]}").is_dir()]:
        assert time.monotonic() < until, f"never made: {missing}"
        time.sleep(0.05)
    cluster.stop()
    for (topic, partition), offset in offsets.items():
        folder = data / f"{topic}-{partition}"
        *_, last = sorted(folder.glob("*.log"))
        for pattern in STALE:  # the broker makes them again from the records
            for file in folder.glob(pattern):
                file.unlink()
        if last.stat().st_size == 0:
            last.unlink()
        (folder / f"{offset:020}.log").touch()
    cluster.start()


def lose_end(cluster: ClusterHandle, topic: str, offset: int, partition: int = 0) -> None:
    """The batches of a log from ``offset`` on are gone when its one broker is back, as after an unclean election."""
    folder = cluster.folder / "broker-1" / "data" / f"{topic}-{partition}"
    cluster.stop()
    *_, last = sorted(folder.glob("*.log"))
    raw, at = last.read_bytes(), 0
    while at < len(raw):
        base, length = struct.unpack_from(">qi", raw, at)
        if base >= offset:
            break
        at += 12 + length
    last.write_bytes(raw[:at])
    for pattern in STALE:
        for file in folder.glob(pattern):
            file.unlink()
    cluster.start()
