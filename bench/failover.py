"""``python -m bench.failover [--same-offsets]``: how long a planned failover of 100 groups takes, and how
many records are read again.

Ours: the command as a user runs it, on records that a lane has copied. MirrorMaker 2, beside it on the same brokers: as
many groups that stopped at the same offsets, its checkpoints and group sync once a second, stopped when the target's
offsets have not moved for a while. Source and copy have equal offsets here, so what lies between is what is read again.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_mirror.clients.own import cluster_of
from reconciler_sandbox.brokers.up_down import running
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from bench import groups
from bench.copy import mm2
from bench.copy.figures import Run
from bench.groups import PARTITIONS, RECORDS, TOPIC, endpoint
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.handover import SAME, TRANSLATED

GROUPS = 100
THEIRS = "theirs"
STILL_S = 20.0
PATIENCE_S = 180.0

Offsets = Mapping[str, Mapping[tuple[str, int], int]]
"""Group -> topic and partition -> offset."""


def stopped_at(prefix: str, topic: str) -> Offsets:
    """Where consumers stopped: everywhere in the log, each group elsewhere."""
    return {
        f"{prefix}-{number:03}": {(topic, p): (number * RECORDS // GROUPS + 7 * p) % RECORDS for p in range(PARTITIONS)}
        for number in range(GROUPS)
    }


def commit(handle: ClusterHandle, offsets: Offsets) -> None:
    async def run() -> None:
        cluster = cluster_of(endpoint(handle))
        try:
            await GroupClient(cluster).commit(
                {group: {key: CommittedOffset(at) for key, at in each.items()} for group, each in offsets.items()}
            )
        finally:
            cluster.close()

    asyncio.run(run())


def committed(handle: ClusterHandle, names: Mapping[str, object]) -> Offsets:
    async def run() -> Offsets:
        cluster = cluster_of(endpoint(handle))
        try:
            found = await GroupClient(cluster).offsets(names)
            return {name: {key: at.offset for key, at in one.offsets.items()} for name, one in found.items()}
        finally:
            cluster.close()

    return asyncio.run(run())


def read_again(wanted: Offsets, found: Offsets, source: str) -> tuple[int, int]:
    """Records read again, all groups together; partitions without an offset, which read everything again."""
    again = missing = 0
    for group, each in wanted.items():
        for (topic, partition), at in each.items():
            there = found.get(group, {}).get((f"{source}.{topic}", partition))
            missing += there is None
            again += at - (there or 0)
    return again, missing


def ours(sandbox: Sandbox, folder: Path, offsets: str = TRANSLATED) -> tuple[float, int, int]:
    """Seconds of the command, records read again, partitions without an offset."""
    east, west = sandbox["east"], sandbox["west"]
    groups.prepared(sandbox, offsets)
    wanted = stopped_at("ours", TOPIC)
    commit(east, wanted)
    clusters = "".join(
        f"  {one.name}: {{bootstrap_servers: [{one.bootstrap_servers}], cluster_id: {json.dumps(one.cluster_id)}}}\n"
        for one in (east, west)
    )
    flow = f"{{source: east, target: west, topics: [{TOPIC}], offsets: {offsets}, groups: {{include: ['ours-.*']}}}}"
    admin = AdminClient(west.client())
    status = NewTopic("__mirror_status", 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([status], operation_timeout=20)["__mirror_status"].result(30)
    env = folder / "env"
    env.mkdir()
    (env / "topology.yaml").write_text(
        f"clusters:\n{clusters}flows:\n  bench: {flow}\nmirrors:\n  west: {{flows: [bench]}}\n"
    )
    command = [sys.executable, "-m", "reconciler", "failover", str(env), "bench", "--yes", "--format", "json"]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode:
        sys.exit(f"the failover ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds, *read_again(wanted, committed(west, wanted), "east")


def mirrormaker(sandbox: Sandbox, folder: Path) -> tuple[int, int]:
    """Records read again, partitions without an offset."""
    east, west = sandbox["east"], sandbox["west"]
    admin = AdminClient(east.client())
    admin.create_topics([NewTopic(THEIRS, PARTITIONS, 1)], operation_timeout=20)[THEIRS].result(30)
    producer = Producer(east.client())
    for number in range(RECORDS * PARTITIONS):
        producer.produce(THEIRS, b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush(30)
    wanted = stopped_at("theirs", THEIRS)
    commit(east, wanted)
    addresses = east.bootstrap_servers, west.bootstrap_servers
    run = Run(f"bench-{os.getpid()}", "east", "west", THEIRS, None, *addresses, folder)
    more = {
        "groups": "theirs-.*",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "5",
    }
    flow = {f"east->west.{key}": value for key, value in more.items()}
    system = mm2.MirrorMaker2(mm2.Tuning.DEFAULT, more=flow)
    system.start(run)
    try:
        found = _settled(west, wanted, lambda: system.alive(run))
    finally:
        system.stop(run)
    return read_again(wanted, found, "east")


def _settled(handle: ClusterHandle, wanted: Offsets, dead: Callable[[], str | None]) -> Offsets:
    """The offsets once they have not moved for a while and every group has some, or patience is over."""
    began = since = time.monotonic()
    last: Offsets = {}
    while time.monotonic() - began < PATIENCE_S:
        if why := dead():
            sys.exit(f"MirrorMaker 2 ended:\n{why}")
        found = committed(handle, wanted)
        if found != last:
            last, since = found, time.monotonic()
        if all(found.get(name) for name in wanted) and time.monotonic() - since > STILL_S:
            break
        time.sleep(1.0)
    return last


def same_offsets() -> None:
    """Of a flow that keeps them: MirrorMaker 2 has nothing like it."""
    with running("plain") as sandbox, tempfile.TemporaryDirectory() as folder:
        seconds, again, missing = ours(sandbox, Path(folder), SAME)
        wanted = stopped_at("ours", TOPIC)
        found = committed(sandbox["west"], wanted)
    both = [
        (found[name].get((f"east.{key[0]}", key[1])), at) for name, each in wanted.items() for key, at in each.items()
    ]
    equal = sum(there == here for there, here in both)
    sys.stdout.write(
        f"{GROUPS} groups x {PARTITIONS} partitions, {RECORDS:,} records in each, offsets: same\n"
        f"failover: {seconds:.1f} s; records read again or missed: {again:,}; partitions without an offset: {missing}; "
        f"equal as numbers: {equal:,} of {GROUPS * PARTITIONS:,}\n"
    )


def main() -> None:
    with running("plain") as sandbox, tempfile.TemporaryDirectory() as folder:
        seconds, again, missing = ours(sandbox, Path(folder))
        theirs, unset = mirrormaker(sandbox, Path(folder))
    sys.stdout.write(
        f"{GROUPS} groups x {PARTITIONS} partitions, {RECORDS:,} records in each, stopped everywhere in the log\n"
        f"failover: {seconds:.1f} s; records read again: {again:,}; partitions without an offset: {missing}\n"
        f"MirrorMaker 2: records read again: {theirs:,}; partitions without an offset: {unset}\n"
    )


if __name__ == "__main__":
    same_offsets() if sys.argv[1:] == ["--same-offsets"] else main()
