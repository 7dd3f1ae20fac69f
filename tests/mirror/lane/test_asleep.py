"""Nobody wakes up for nothing: a quiet lane, a quiet lease and a quiet connection sleep until something is new."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from reconciler_mirror.lane.partition import Hold, Partition, Phase, SourceLog, Tuning
from reconciler_mirror.lane.session import LaneSession
from reconciler_mirror.lane.transactional import Sessions
from reconciler_mirror.leases.task import LaneControl, LeaseState
from reconciler_mirror.model.lane import LaneProgress, PartitionProgress, PartitionSpec

from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.buffers import BufferPool
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.transactions import Identity
from tests.support.lanes.lane_spec import ClaimedControl
from tests.support.lanes.lane_spec import lane as lane_spec

SPECS = tuple(PartitionSpec("quiet", number, "east.quiet", "id") for number in range(1_000))


@dataclass
class Counting(ClaimedControl):
    """A ``Control`` that counts how often it is looked at."""

    looks: int = 0
    reports: int = 0
    ended: bool = False
    wake: Callable[[], None] = lambda: None

    def stopping(self) -> bool:
        return self.ended

    def partitions(self) -> tuple[PartitionSpec, ...]:
        self.looks += 1
        return SPECS

    def watch(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    def report(self, progress: LaneProgress) -> None:
        self.reports += 1


def test_a_quiet_lane_looks_once_a_second_at_most_and_at_once_when_it_is_woken() -> None:
    async def run() -> None:
        clusters = [ClusterClient(name, ["nowhere:1"], ConnectionSettings()) for name in ("east", "west")]
        lane = Sessions(Tuning()).lane(lane_spec(0), (clusters[0], clusters[1]), cast(Identity, None))
        control = Counting()
        session = LaneSession(lane, control, {}, control.report)
        for spec in SPECS:
            partition = Partition(
                spec, hold=Hold(phase=Phase.COPYING), log=SourceLog(committed=7, reached=7, covered=7, end=7)
            )
            lane.partitions[partition.source] = partition
        session._specs = SPECS
        looking = asyncio.ensure_future(session._follow_control())
        await asyncio.sleep(0.1)
        looks, began = control.looks, time.monotonic()
        await asyncio.sleep(1.0)
        assert control.looks - looks <= (time.monotonic() - began) / 1.0 + 1
        # By a partition that has something to tell, soon; by its control, from another thread, at once.
        for from_another_thread in (False, True):
            looks = control.looks
            if from_another_thread:
                await asyncio.to_thread(control.wake)
            else:
                lane.mark_dirty(lane.partitions["quiet", 1])
            while control.looks == looks:
                await asyncio.sleep(0.001)
        reports = control.reports
        lane.mark_dirty(lane.partitions["quiet", 2])
        while control.reports == reports:
            await asyncio.sleep(0.01)
        control.ended = True
        await asyncio.to_thread(control.wake)
        await looking
        assert lane.stopping
        lane.failed.cancel()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_wake_up_after_the_lanes_end_disturbs_no_one() -> None:
    wakes: list[Callable[[], None]] = []

    async def run() -> None:
        clusters = [ClusterClient(name, ["nowhere:1"], ConnectionSettings()) for name in ("east", "west")]
        lane = Sessions(Tuning()).lane(lane_spec(0), (clusters[0], clusters[1]), cast(Identity, None))
        wakes.append(LaneSession(lane, Counting(), {}, Counting().report)._wake)
        lane.failed.cancel()

    asyncio.run(run())
    wakes[0]()


def test_a_lease_is_woken_by_what_is_new_only() -> None:
    state = LeaseState(10.0)
    control = LaneControl(lane_spec(0, *SPECS[:2]), state)
    rows = tuple(PartitionProgress("quiet", number, 7, 7) for number in range(2))
    told = LaneProgress("f", 0, rows)
    control.report(told)
    assert state.news.is_set()
    state.news.clear()
    control.report(replace(told, partitions=tuple(rows)))
    assert not state.news.is_set()
    control.report(replace(told, partitions=(rows[0], replace(rows[1], position=8))))
    assert state.news.is_set()


def test_a_connection_sets_no_timer_while_no_answer_is_awaited() -> None:
    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        connection = Connection(ours, ConnectionSettings(), BufferPool(), "broker")
        connection.start()
        assert timers() == []
        answer = connection.send((18, 0, False), [b""])
        assert len(timers()) == 1
        theirs.sendall(b"\0\0\0\4" + b"\0\0\0\1")
        await answer
        connection._check_timeout()  # as its timer does
        assert connection._watch is None
        connection.close()
        theirs.close()

    def timers() -> list[Any]:
        loop: Any = asyncio.get_running_loop()
        return [timer for timer in loop._scheduled if not timer.cancelled()]

    asyncio.run(run())
