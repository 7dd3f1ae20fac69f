"""Start offsets of share groups (KIP-932) on real brokers, where copies lie at the source's own offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer
from reconciler_mirror.groups.round import OTHER_KIND, GroupRounds, RoundResult
from reconciler_mirror.groups.translators import AsCommitted
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.groups import UnsupportedGroup
from reconciler.replication.handover import GroupSettings
from reconciler.replication.mirrormaker_records import Checkpoint
from reconciler.replication.offsets.map_topic import MapReader
from tests.support.clusters import CreateTopic, share_groups
from tests.support.lanes.lane_runs import Flow, producer
from tests.support.lanes.raw import cluster_of
from tests.support.lanes.synced import ask_groups, set_start, start_of

pytestmark = share_groups
NON_EMPTY_GROUP = 68
RECORDS = 10


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    """The same records at the same offsets on both sides."""
    made = Flow(plain["east"], plain["west"], unique)
    for cluster, topic in ((made.source, made.topic), (made.target, made.remote)):
        create_topic(cluster, topic)
        writer = producer(cluster)
        for number in range(RECORDS):
            writer.produce(topic, b"%d" % number, partition=0)
        writer.flush(20)
    return made


def rounds(flow: Flow, *, back: bool = False) -> tuple[RoundResult, list[Checkpoint]]:
    told: list[Checkpoint] = []

    async def tell(checkpoints: Sequence[Checkpoint]) -> None:
        told.extend(checkpoints)

    async def run() -> RoundResult:
        source, target = cluster_of(flow.source), cluster_of(flow.target)
        here, there = (flow.remote, flow.topic) if back else (flow.topic, flow.remote)
        try:
            sides: tuple[ClusterClient, ClusterClient] = (target, source) if back else (source, target)
            settings = GroupSettings((f"{flow.topic}.*",), (), 1000, follow_rewinds=False)
            synced = GroupRounds(settings, *sides, {}, AsCommitted(sides[1]))
            return await synced.run({(here, 0): there}, cast("MapReader", None), tell)
        finally:
            source.close()
            target.close()

    return asyncio.run(run()), told


@contextmanager
def share_consumer(handle: ClusterHandle, group: str, topic: str) -> Iterator[ShareConsumer]:
    settings = {**handle.super_client(), "group.id": group, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer(settings)
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


def delivered(consumer: ShareConsumer, count: int, accepted: Callable[[int], bool]) -> list[int]:
    """Offsets of the first ``count`` records; those that are not ``accepted`` are given back."""
    offsets: list[int] = []
    until = time.monotonic() + 60
    while len(offsets) < count and time.monotonic() < until:
        for message in consumer.poll(1.0):
            assert message.error() is None, message.error()
            offsets.append(message.offset())
            kept = AcknowledgeType.ACCEPT if accepted(message.offset()) else AcknowledgeType.RELEASE
            consumer.acknowledge(message, kept)
        consumer.commit_sync(20.0)
    return offsets


def ended(handle: ClusterHandle, group: str) -> None:
    """Until the coordinator knows that its members have left."""
    until = time.monotonic() + 60
    while ask_groups(handle, lambda groups: groups.listed())[group].state != "Empty":
        assert time.monotonic() < until
        time.sleep(0.2)


def test_a_share_group_continues_at_its_start_offset(flow: Flow, unique: str) -> None:
    group = f"{unique}-share"
    assert set_start(flow.source, group, flow.topic, 0) == 0
    with share_consumer(flow.source, group, flow.topic) as consumer:
        first = delivered(consumer, RECORDS, lambda offset: offset < 5 or offset == 6)
        assert sorted(set(first)) == list(range(RECORDS))
        assert start_of(flow.source, group) == {(flow.topic, 0): 0}, "a write tells where the group was before it"
        assert set(delivered(consumer, 4, lambda _: False)) == {5, 7, 8, 9}
        assert set_start(flow.source, group, flow.topic, 0) == NON_EMPTY_GROUP
    ended(flow.source, group)
    assert start_of(flow.source, group) == {(flow.topic, 0): 5}

    result, told = rounds(flow)
    assert (result.groups, result.written, result.unsupported, result.refused) == (1, 1, {}, {})
    assert told == [], "who reads checkpoints would make a group of another kind"
    assert start_of(flow.target, group) == {(flow.remote, 0): 5}
    assert rounds(flow)[0].written == 0
    with share_consumer(flow.target, group, flow.remote) as consumer:
        again = delivered(consumer, 5, lambda _: True)
        assert sorted(set(again)) == [5, 6, 7, 8, 9], "6 was acknowledged out of order, which nobody tells"
        assert rounds(flow)[0].active == (group,)
    ended(flow.target, group)

    assert rounds(flow)[0].written == 0, "never backwards"
    there = start_of(flow.target, group)[flow.remote, 0]
    assert there >= 5
    rounds(flow, back=True)
    assert start_of(flow.source, group) == {(flow.topic, 0): there}


def test_a_start_offset_beyond_the_copy_waits_at_its_end(flow: Flow, unique: str) -> None:
    """The broker would take it without a word."""
    group = f"{unique}-ahead"
    writer = producer(flow.source)
    for _ in range(5):
        writer.produce(flow.topic, b"later", partition=0)
    writer.flush(20)
    assert set_start(flow.source, group, flow.topic, RECORDS + 4) == 0
    assert rounds(flow)[0].inexact == 1
    assert start_of(flow.target, group) == {(flow.remote, 0): RECORDS}


def test_a_name_that_is_another_kind_of_group_there_is_refused(flow: Flow, unique: str) -> None:
    group = f"{unique}-both"
    assert set_start(flow.source, group, flow.topic, 3) == 0
    wanted = {group: {(flow.remote, 0): CommittedOffset(1)}}
    assert ask_groups(flow.target, lambda groups: groups.commit(wanted))[group] == {(flow.remote, 0): 0}
    result, _ = rounds(flow)
    assert (result.written, result.refused) == (0, {group: OTHER_KIND})
    assert ask_groups(flow.target, lambda groups: groups.offsets([group]))[group].offsets[flow.remote, 0].offset == 1


def test_a_flow_that_translates_names_share_groups_and_leaves_them(flow: Flow, unique: str) -> None:
    group = f"{unique}-translated"
    assert set_start(flow.source, group, flow.topic, 3) == 0

    async def run() -> RoundResult:
        source, target = cluster_of(flow.source), cluster_of(flow.target)
        try:
            settings = GroupSettings((group,), (), 1000, follow_rewinds=False)
            maps = MapReader(target, flow.topic)
            synced = GroupRounds(settings, source, target, {})
            return await synced.run({(flow.topic, 0): flow.remote}, maps, _nothing)
        finally:
            source.close()
            target.close()

    assert asyncio.run(run()).unsupported == {group: UnsupportedGroup.SHARE}
    assert group not in ask_groups(flow.target, lambda groups: groups.listed())


async def _nothing(_: Sequence[Checkpoint]) -> None:
    return None
