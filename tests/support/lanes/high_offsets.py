"""Logs as years of records leave them, which begin, or go on behind a wide hole, at any offset; and logs that lost
their end. Clusters that go back to a copy of their data, or whose place another one takes."""

from __future__ import annotations

import secrets
import shutil
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from reconciler_sandbox.brokers import start_stop
from reconciler_sandbox.handles import ClusterHandle
from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.releases import release_of

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


def _broker(cluster: ClusterHandle) -> Path:
    return cluster.folder / "broker-1"


def backup(cluster: ClusterHandle) -> Path:
    """A copy of all that its stopped broker has on disk; the broker runs again."""
    kept = _broker(cluster) / f"backup-{secrets.token_hex(4)}"
    cluster.stop()
    shutil.copytree(_broker(cluster) / "data", kept)
    cluster.start()
    return kept


def restore(cluster: ClusterHandle, kept: Path, *topics: str) -> None:
    """Puts the copy back: all of it, or the logs of ``topics``, as where brokers keep logs on several disks."""
    data = _broker(cluster) / "data"
    cluster.stop()
    names = [folder.name for folder in kept.iterdir() if folder.name.rpartition("-")[0] in topics] if topics else [""]
    for name in names:
        shutil.rmtree(data / name, ignore_errors=True)
        shutil.copytree(kept / name, data / name)
    cluster.start()


@contextmanager
def replaced(cluster: ClusterHandle) -> Iterator[None]:
    """Meanwhile an empty cluster with another id runs at the same address."""
    data, aside = _broker(cluster) / "data", _broker(cluster) / f"aside-{secrets.token_hex(4)}"
    cluster.stop()
    data.rename(aside)
    other = secrets.token_urlsafe(16)
    start_stop.format_storage(prerequisites.java(), release_of(cluster.name), other, [_broker(cluster)])
    cluster.start()
    try:
        yield
    finally:
        cluster.stop()
        shutil.rmtree(data)
        aside.rename(data)
        cluster.start()
