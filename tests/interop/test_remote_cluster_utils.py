"""Kafka's own RemoteClusterUtils, from Maven's jar, reads what the mirror writes: two hops, real brokers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from reconciler_mirror.driver.heartbeats import Heartbeats
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import jars, prerequisites
from reconciler_sandbox.releases import MIRRORMAKER

from reconciler.replication.handover import FlowSettings, InternalTopics
from reconciler.replication.handover_reader import parse
from reconciler.replication.mirrormaker_records import (
    HEARTBEATS,
    Checkpoint,
    OffsetSync,
    checkpoints_topic,
    offset_syncs_topic,
)
from reconciler.replication.offsets.checkpoints import CheckpointLog
from tests.support.jobs.mirror_job import flow as told
from tests.support.jobs.mirror_job import handover
from tests.support.lanes.lane_runs import Flow, producer
from tests.support.lanes.mirrormaker_records import read_offset_sync, translate
from tests.support.lanes.raw import cluster_of
from tests.support.lanes.truth import map_topic, offset_map, placed, raw_records

CreateTopic = Callable[..., str]


def remote_clusters(handle: ClusterHandle, alias: str, group: str) -> Mapping[str, str]:
    source = Path(__file__).parent / "RemoteClusters.java"
    command = [
        prerequisites.java(),
        "-Xmx128m",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{jars.ensure(release=MIRRORMAKER)}/*",
        source,
    ]
    done = subprocess.run(
        [*map(str, command), handle.super_client()["bootstrap.servers"], alias, group, "."],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def _beat(*flows: tuple[ClusterHandle, ClusterHandle]) -> None:
    """As the driver does: a few heartbeats of each flow on both of its clusters."""
    end = threading.Event()
    for source, target in flows:
        Heartbeats(
            replace(_settings(source, target), mirrormaker_topics=InternalTopics(heartbeats_ms=100)), end
        ).start()
    time.sleep(1.5)
    end.set()


def _settings(source: ClusterHandle, target: ClusterHandle) -> FlowSettings:
    text = json.dumps(handover(target, "m", [told(f"{source.name}-{target.name}", source, target, ["x"])]))
    return parse(text).flows[0]


@pytest.mark.long
def test_hops_upstream_clusters_topics_and_translated_offsets(
    trio: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, west, hub = trio["east"], trio["west"], trio["hub"]
    for handle in (east, west, hub):
        map_topic(handle)
        create_topic(handle, HEARTBEATS, cleanup_policy="compact")
    first, second = Flow(east, west, unique), Flow(west, hub, f"east.{unique}")
    syncs = offset_syncs_topic("west")
    create_topic(east, unique)
    create_topic(west, first.remote)
    create_topic(hub, second.remote)
    create_topic(east, syncs, cleanup_policy="compact")
    create_topic(hub, checkpoints_topic("west"), cleanup_policy="compact")
    beats = (Flow(east, west, HEARTBEATS), Flow(west, hub, HEARTBEATS), Flow(west, hub, f"east.{HEARTBEATS}"))
    for one in beats:
        create_topic(one.target, one.remote, cleanup_policy="compact")
    _beat((east, west), (west, hub))

    writing = producer(east, transactional_id=unique)
    writing.init_transactions(30)
    for number in range(30):
        writing.begin_transaction()
        writing.produce(unique, b"%d" % number)
        writing.flush(20)
        (writing.abort_transaction if number % 3 == 0 else writing.commit_transaction)(20)
    first.run(batch_path, first.at_end(), offset_syncs=("source", syncs))
    second.run(batch_path, second.at_end())
    for one in beats:
        one.run(batch_path, one.at_end())

    there = placed(east, unique)
    group_at = there[b"20"]
    middle = offset_map(first).downstream(group_at).offset
    assert middle is not None
    end = offset_map(second).downstream(middle).offset
    assert end == placed(hub, second.remote)[b"20"], "two hops, each exact, are exact"
    asyncio.run(_checkpoint(hub, Checkpoint("billing", second.remote, 0, middle, end, "kept")))

    told_by_java = remote_clusters(hub, "west", "billing")
    assert told_by_java["hops"] == "{east=2, west=1}"
    assert told_by_java["heartbeats"] == "[heartbeats, west.east.heartbeats, west.heartbeats]"
    assert second.remote in told_by_java["remote"]
    assert told_by_java["checkpoints"] == "[west.checkpoints.internal]"
    assert told_by_java["offsets"] == f"{{{second.remote}-0={end}/kept}}"

    found = [read_offset_sync(key, value) for key, value in raw_records(east, syncs)]
    found = [sync for sync in found if sync.topic == unique]
    assert found[-1] == OffsetSync(unique, 0, there[b"29"], placed(west, first.remote)[b"29"])
    exact = offset_map(first)
    for position in range(first.position().offset + 1):
        ours, theirs = exact.downstream(position).offset, translate(found, position)
        assert theirs is not None
        assert ours is not None
        assert theirs <= ours


async def _checkpoint(handle: ClusterHandle, one: Checkpoint) -> None:
    target = cluster_of(handle)
    try:
        await CheckpointLog(target, checkpoints_topic("west")).write([one])
    finally:
        target.close()
