"""A transaction that was decided and never marked: the lane that follows ends it as it was decided, or stops.

Such a transaction is made as a broker of old made them: a partition that is written but not announced, with the
broker's own check of that switched off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from reconciler_mirror.lane.positions import LanePosition, encode
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client.cluster import GROUP, ClusterClient
from reconciler.kafka.client.errors import MOVED
from reconciler.kafka.client.hanging_transactions import look
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.kafka.records.batches import seal
from reconciler.kafka.records.records import encode as encode_records
from tests.support.clusters import verify_partitions
from tests.support.lanes.lane_runs import Flow, UntilControl, content, fill
from tests.support.lanes.raw import cluster_of, record

CreateTopic = Callable[..., str]


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Iterator[Flow]:
    made = Flow(plain["east"], plain["west"], unique, 2)
    create_topic(made.source, made.topic, 2, retention_ms="-1")
    create_topic(made.target, made.remote, 2, retention_ms="-1")
    for partition in (0, 1):
        fill(made.source, made.topic, [(b"k", b"%d" % i, (), 1_700_000_000_000 + i) for i in range(10)], partition)
        made.set_position(0, partition)  # a lane commits where it begins before it writes anything
    verify_partitions(made.target, "false")
    yield made
    verify_partitions(made.target, None)


class Predecessor:
    """Copies records 0 to 4 of both partitions in one transaction and ends it, but the broker forgets partition 1."""

    def __init__(self, flow: Flow, cluster: ClusterClient) -> None:
        self._flow = flow
        self._cluster = cluster
        self.identity = Identity(cluster, f"mirror.{flow.topic}.0", f"mirror.{flow.topic}")
        self._topic_id = flow.specs()[0].topic_id

    async def run(self, *, committed: bool, positions_too: bool) -> None:
        identity, remote = self.identity, self._flow.remote
        await self._cluster.refresh([remote])
        await identity.start()
        await identity.add_partitions([(remote, 0)])
        for partition in (0, 1):
            await self._write(partition)
        at = LanePosition(5, self._topic_id, 0, self._flow.lane().claim, 0, None)
        written = {(remote, p): CommittedOffset(5, 0, encode((remote, p), at)) for p in (0, 1)}
        if not positions_too:
            await identity.commit_positions(written)
        else:  # without announcing the group
            await identity._patiently(GROUP, lambda connection: identity._commit_offsets(connection, written))
        await identity.end(committed=committed)

    async def _write(self, partition: int) -> None:
        identity, key = self.identity, (self._flow.remote, partition)
        records = [record(i, b"k", b"%d" % i, 1_700_000_000_000 + i) for i in range(5)]
        raw = memoryview(encode_records(records, 0))
        seal(raw, (identity.producer_id, identity.epoch), 0, transactional=True)
        for _ in range(100):  # a new topic takes a moment to be led
            await self._cluster.refresh([key[0]])
            leader = self._cluster.leader(*key)
            assert leader is not None
            connection = await self._cluster.connection(leader.node, "produce")
            body = producing.pack(producing.CLASSIC, identity.transactional_id, {key: raw}, 10_000)
            frame = await connection.send((protocol.PRODUCE, producing.CLASSIC, False), body)
            (answer,) = producing.unpack(producing.CLASSIC, frame.body)[1]
            if answer.error not in MOVED:
                break
            await asyncio.sleep(0.1)
        assert answer.error == 0, answer


async def _hang(flow: Flow, *, committed: bool, positions_too: bool, fenced_since: bool = False) -> None:
    """Leaves a transaction of the lane's transactional.id hanging in partition 1, and says that it does."""
    cluster = cluster_of(flow.target)
    try:
        predecessor = Predecessor(flow, cluster)
        await predecessor.run(committed=committed, positions_too=positions_too)
        if fenced_since:
            await Identity(cluster, f"mirror.{flow.topic}.0", f"mirror.{flow.topic}").start()
        for _ in range(100):  # an old broker answers before the markers are written
            found = (await look(cluster, [(flow.remote, 0), (flow.remote, 1)])).of(predecessor.identity.producer_id)
            if (flow.remote, 0) not in found:
                break
            await asyncio.sleep(0.05)
        assert set(found) == {(flow.remote, 1)}
    finally:
        cluster.close()


@pytest.fixture
def classic(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("reconciler.kafka.client.transactions.speaks_version_2", lambda _: False)
    return monkeypatch


@pytest.mark.parametrize("positions_too", [False, True])
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("next_lane", ["classic", "version 2"])
def test_it_is_ended_as_it_was_decided(
    flow: Flow, classic: pytest.MonkeyPatch, next_lane: str, committed: bool, positions_too: bool
) -> None:
    asyncio.run(_hang(flow, committed=committed, positions_too=positions_too))
    if next_lane == "version 2":
        classic.undo()
    flow.run(batch_path, flow.at_end())
    for values in flow.target_content().values():
        assert [value for _, value, _, _ in values] == [b"%d" % i for i in range(10)]
    everything = content(flow.target, flow.remote, 2, "read_uncommitted")
    assert [len(everything[p]) for p in (0, 1)] == ([10, 10] if committed else [15, 15])


def test_nothing_is_written_where_no_one_knows_how_it_ended(flow: Flow, classic: pytest.MonkeyPatch) -> None:
    asyncio.run(_hang(flow, committed=True, positions_too=False, fenced_since=True))
    lane = flow.lane()
    report = batch_path(lane, UntilControl(lane.partitions, lambda _: False))
    assert report.end is LaneEnd.FAILED
    (condition,) = report.progress.conditions
    assert condition.code == "hanging_transaction"
    assert f"{flow.remote}-1" in condition.text
    assert "kafka-transactions" in condition.todo
    assert [len(one) for one in content(flow.target, flow.remote, 2, "read_uncommitted").values()] == [5, 5]
