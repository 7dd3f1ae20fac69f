"""What MirrorMaker 2's own tools do with our records, and MirrorMaker 2 itself between the clusters of a sandbox."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import Producer
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER

from reconciler.replication.mirrormaker_records import Heartbeat, OffsetSync
from tests.support.lanes.lane_runs import Flow

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


@contextmanager
def mirrormaker(
    sandbox: Sandbox, topics: str, folder: Path, more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[subprocess.Popen[bytes]]:
    """In dedicated mode, from east to west, with ``more`` properties. Killed in the end, if it was not stopped."""
    servers = {name: sandbox[name].bootstrap_servers for name in ("east", "west")}
    kinds = ("", "offset.storage.", "status.storage.", "config.storage.", "offset-syncs.topic.")
    lines = {
        "clusters": "east,west",
        **{f"{name}.bootstrap.servers": address for name, address in servers.items()},
        "east->west.enabled": "true",
        "east->west.topics": topics,
        "east->west.emit.heartbeats.enabled": "false",
        "east->west.emit.checkpoints.enabled": "false",
        "emit.heartbeats.enabled": "false",
        "west->east.enabled": "false",
        "west.offset.flush.interval.ms": "3000",
        **{f"{kind}replication.factor": "1" for kind in kinds},
        **more,
    }
    config, log = folder / "mm2.properties", folder / "mm2.log"
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    command = [
        prerequisites.java(),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars.ensure(release=MIRRORMAKER)}{os.sep}*",
    ]
    command += ["org.apache.kafka.connect.mirror.MirrorMaker", str(config)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(60)


def write(east: ClusterHandle, topic: str, numbers: range) -> None:
    producer = Producer(east.super_client())
    for number in numbers:
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(60) == 0


def values(flow: Flow) -> list[list[int]]:
    return [[int(value or b"") for _, value, _, _ in records] for _, records in sorted(flow.target_content().items())]
