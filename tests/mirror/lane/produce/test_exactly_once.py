"""Killed at any moment, run twice by mistake, brokers gone and back: every record arrives once, in order."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import MOVED, FencedError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.kafka.records.batches import next_sequence, seal
from reconciler.kafka.records.records import encode
from tests.support.jobs.frozen_broker import freeze, thaw
from tests.support.lanes.lane_runs import Flow, UntilControl
from tests.support.lanes.load import PARTITIONS, Load, assert_once
from tests.support.lanes.raw import cluster_of, record, send
from tests.support.lanes.truth import inexact, map_topic

pytestmark = pytest.mark.timeout(600)  # brokers start in the midst of them, on a machine that may be busy

CreateTopic = Callable[..., str]
ROUNDS = int(os.environ.get("KILL_ROUNDS", "3"))


@pytest.fixture
def flow(plain: Sandbox, unique: str, create_topic: CreateTopic) -> Flow:
    return _flow(plain, unique, create_topic)


def _flow(sandbox: Sandbox, name: str, create_topic: CreateTopic) -> Flow:
    made = Flow(sandbox["east"], sandbox["west"], name, PARTITIONS)
    create_topic(made.source, made.topic, PARTITIONS)
    create_topic(made.target, made.remote, PARTITIONS)
    map_topic(made.target)
    return made


@pytest.mark.parametrize("protocol_version", [pytest.param("classic", marks=pytest.mark.long), "version 2"])
def test_killed_again_and_again_under_load(flow: Flow, tmp_path: Path, protocol_version: str) -> None:
    spec = tmp_path / "lane"
    spec.write_bytes(pickle.dumps(flow.lane()))
    chance = random.Random(7)
    copied: list[int] = []
    with Load(flow.source, flow.topic) as load:
        for _ in range(ROUNDS):
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.lanes.lane_process", str(spec), protocol_version],
                stdout=subprocess.PIPE,
                text=True,
            )
            until = float("inf")
            for records, transactions in _lines(process):
                if until == float("inf"):  # it copies; the first one long enough for the map, written each second
                    until = time.monotonic() + (chance.uniform(0.5, 2.0) if copied else 2.5)
                if time.monotonic() > until and transactions > 2:
                    copied.append(records)
                    break
            process.kill()
            process.wait()
    assert len(copied) == ROUNDS
    flow.run(batch_path, flow.at_end())
    assert_once(flow, load.written)
    for partition in range(PARTITIONS):
        assert inexact(flow, partition) < load.written, "a kill loses a second of the map, no more"


def _lines(process: subprocess.Popen[str]) -> Iterator[tuple[int, int]]:
    assert process.stdout is not None
    for line in process.stdout:
        records, transactions = line.split()
        yield int(records), int(transactions)


@pytest.mark.parametrize(
    ("side", "fault"),
    [
        pytest.param("source", "kill", marks=pytest.mark.long),
        pytest.param("source", "restart", marks=pytest.mark.long),
        ("target", "kill"),
        pytest.param("target", "freeze", marks=pytest.mark.long),
    ],
)
def test_a_broker_that_goes_and_comes_back(flow: Flow, side: str, fault: str) -> None:
    broker: ClusterHandle = getattr(flow, side)
    lane = flow.lane()
    control = UntilControl(lane.partitions, lambda _: False, 400)
    with Load(flow.source, flow.topic) as load:
        thread = threading.Thread(target=control.copy, args=(lane,))
        thread.start()
        control.until_all_copy()
        if fault == "freeze":
            freeze(broker)
            time.sleep(8)
            thaw(broker)
        else:
            (broker.kill if fault == "kill" else broker.stop)()
            time.sleep(1)
            broker.start()
        control.until_all_copy()
    control.done = flow.at_end()
    thread.join(120)
    assert not thread.is_alive()
    assert control.finished, control.over
    assert_once(flow, load.written)


def test_a_zombie_writes_neither_data_nor_positions(flow: Flow) -> None:
    asyncio.run(_zombie(flow))
    assert flow.target_content() == {p: [] for p in range(PARTITIONS)}
    assert flow.position().offset == -1


FENCED = (47, 90)


def _verifies_transactions(flow: Flow) -> bool:
    """Before KIP-890 (3.6) a leader that has nothing of the new epoch takes a late request; nobody commits it then."""
    major, minor = map(int, flow.target.kafka.split(".")[:2])
    return (major, minor) >= (3, 6)


async def _zombie(flow: Flow) -> None:
    cluster = cluster_of(flow.target)
    try:
        await cluster.refresh([flow.remote])
        zombie, owner = (Identity(cluster, "mirror.zombie.0", f"mirror.{flow.topic}") for _ in range(2))
        await zombie.start()
        await owner.start()
        assert owner.epoch > zombie.epoch
        with pytest.raises(FencedError):
            await zombie.commit_positions({(flow.remote, 0): CommittedOffset(5, 0, "")})
        raw = memoryview(encode([record(0, b"k", b"v", 1)], 0))
        seal(raw, (zombie.producer_id, zombie.epoch), 0, transactional=True)
        leader = cluster.leader(flow.remote, 0)
        assert leader is not None
        connection = await cluster.connection(leader.node, "produce")
        version = zombie.produce_version
        body = producing.pack(version, zombie.transactional_id, {(flow.remote, 0): raw}, 10_000)
        answer = await _answer(connection, version, body)
        assert answer in (FENCED if _verifies_transactions(flow) else (0, *FENCED))
    finally:
        cluster.close()


async def _answer(connection: Connection, version: int, body: list[bytes | memoryview]) -> int:
    """The error code of the first partition, once it is led: a new topic takes a moment."""
    for _ in range(100):
        frame = await connection.send((protocol.PRODUCE, version, version != producing.CLASSIC), body)
        error = producing.unpack(version, frame.body)[1][0].error
        if error not in MOVED:
            break
        await asyncio.sleep(0.1)
    return error


def test_sequences_wrap_as_the_broker_expects(flow: Flow) -> None:
    assert asyncio.run(_wrap(flow)) == [0, 0, 45]
    assert len(flow.target_content()[0]) == 8


async def _wrap(flow: Flow) -> list[int]:
    """The sequence passes 2^31 inside a batch; then one that is wrong by one, so that the check is seen to work."""
    cluster = cluster_of(flow.target)
    try:
        producer = Identity(cluster, None, "")
        await producer.start()
        sequence, codes = 2**31 - 3, []
        for count, off in ((5, 0), (3, 0), (1, 1)):
            raw = memoryview(encode([record(i, b"k", b"v", 1) for i in range(count)], 0))
            seal(raw, (producer.producer_id, producer.epoch), sequence + off, transactional=False)
            codes.append(await send(flow.target, flow.remote, raw))
            sequence = next_sequence(sequence, count)
        return codes
    finally:
        cluster.close()


def test_two_lanes_at_once_and_only_the_second_continues(flow: Flow) -> None:
    lane = flow.lane()
    first, second = (UntilControl(lane.partitions, lambda _: False, 400) for _ in range(2))
    reports = {}
    with Load(flow.source, flow.topic) as load:
        threads = [
            threading.Thread(target=lambda c=control, n=n: reports.update({n: batch_path(lane, c)}))
            for n, control in enumerate((first, second))
        ]
        threads[0].start()
        first.until_all_copy()
        threads[1].start()
        threads[0].join(90)
        assert reports[0].end is LaneEnd.FAILED
        assert "another client than the mirror has taken its transactional.id" in reports[0].error
        second.until_all_copy()
    second.done = flow.at_end()
    threads[1].join(120)
    assert reports[1].end is LaneEnd.STOPPED
    assert_once(flow, load.written)


@pytest.mark.long
def test_leaders_that_move_on_both_sides(ha: Sandbox, unique: str, create_topic: CreateTopic) -> None:
    flow = _flow(ha, unique, create_topic)
    lane = flow.lane()
    control = UntilControl(lane.partitions, lambda _: False, 500)
    with Load(flow.source, flow.topic, 2000) as load:
        thread = threading.Thread(target=control.copy, args=(lane,))
        thread.start()
        control.until_all_copy()
        for cluster in (flow.target, flow.source):
            cluster.stop(1)
            control.until_all_copy()
            cluster.start(1)
            cluster.kill(2)
            try:
                control.until_all_copy()
            finally:
                cluster.start(2)
    control.done = flow.at_end()
    thread.join(150)
    assert control.finished, control.over
    assert_once(flow, load.written)
