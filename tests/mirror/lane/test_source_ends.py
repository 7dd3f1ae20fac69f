"""Ends of the source: asked for where no fetch tells them, unknown where the source tells nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from reconciler_mirror.conditions.lane import WITHOUT_LAG
from reconciler_mirror.lane import progress
from reconciler_mirror.lane.partition import Answers, Hold, Partition, Phase, SourceLog, Tuning
from reconciler_mirror.lane.progress import SILENT_S, SourceEnds, row
from reconciler_mirror.lane.state import Lane
from reconciler_mirror.lane.transactional import Sessions
from reconciler_mirror.model.lane import Condition, PartitionSpec

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler.kafka.client.transactions import Identity
from reconciler.replication.names import ConditionCode
from tests.support.lanes.lane_spec import lane as lane_spec

NOW = 1_000.0
FETCHED, PAUSED, STOPPED = range(3)


class Source:
    """A cluster of one broker for each partition."""

    name = "east"

    def __init__(self) -> None:
        self.ends: dict[Key, int | BrokerError | ConnectionLostError] = {}
        self.asked: list[Key] = []
        self.refreshed: set[str] = set()

    def by_leader(self, keys: list[Key]) -> dict[int, list[Key]]:
        return {number: [(topic, number)] for topic, number in keys}

    async def list_offsets(self, wanted: Mapping[Key, int], *, committed: bool) -> dict[Key, int | BrokerError]:
        assert committed
        self.asked += wanted
        ends: dict[Key, int | BrokerError] = {}
        for key in wanted:
            end = self.ends.get(key, 0)
            if isinstance(end, ConnectionLostError):
                raise end
            ends[key] = end
        return ends

    async def refresh(self, topics: set[str]) -> None:
        self.refreshed |= topics

    def throttled(self) -> float:
        return 0.0


def in_lane(test: Callable[[Lane, Source], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        source = Source()
        lane = Sessions(Tuning()).lane(lane_spec(0), (cast(Any, source), cast(Any, source)), cast(Identity, None))
        for number, phase in enumerate((Phase.COPYING, Phase.PAUSED, Phase.STOPPED)):
            spec = PartitionSpec("orders", number, "east.orders", "id")
            made = Partition(
                spec, hold=Hold(phase=phase), log=SourceLog(committed=7, reached=7, covered=7, end=9, end_at=NOW)
            )
            lane.partitions[made.source] = made
        await test(lane, source)
        lane.failed.cancel()

    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: NOW + 4, time=lambda: NOW + 4))
    asyncio.run(run())


async def one_look(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    async def sleep(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks > 1:
            raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr("reconciler_mirror.lane.progress.asyncio.sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await SourceEnds(lane).run()


def test_ends_that_no_fetch_reports_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(lane: Lane, source: Source) -> None:
        fetched, paused, stopped = lane.partitions.values()
        fetched.log.answers = Answers()
        fetched.log.answers.at = NOW + 3
        source.ends = {("orders", PAUSED): 12, ("orders", STOPPED): 13}
        await one_look(lane, monkeypatch)
        assert source.asked == [("orders", PAUSED), ("orders", STOPPED)]
        assert [p.log.end for p in (fetched, paused, stopped)] == [9, 12, 13], "the lag of what is stopped grows"
        assert lane.changed.take() == {paused, stopped}
        await one_look(lane, monkeypatch)
        assert len(source.asked) == 2, "it was just told"

    in_lane(test, monkeypatch)


def test_a_broker_that_does_not_answer_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(lane: Lane, source: Source) -> None:
        fetched, paused, stopped = lane.partitions.values()
        source.ends = {("orders", FETCHED): 12, ("orders", PAUSED): ConnectionLostError("cut"),
                       ("orders", STOPPED): BrokerError(6, "moved")}  # fmt: skip
        await one_look(lane, monkeypatch)
        assert (fetched.log.end, fetched.log.end_at) == (12, NOW + 4)
        assert [(p.log.end, p.log.end_at) for p in (paused, stopped)] == [(9, NOW)] * 2
        assert source.refreshed == {"orders"}, "its leader may have moved"

    in_lane(test, monkeypatch)


def test_an_end_that_was_not_reported_for_long_is_marked_until_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(lane: Lane, source: Source) -> None:
        fetched, paused, stopped = lane.partitions.values()
        fetched.log.answers = Answers()
        fetched.log.answers.at = NOW + SILENT_S
        ends = SourceEnds(lane)
        ends.mark_silent(NOW + SILENT_S)
        assert lane.changed.take() == set()
        ends.mark_silent(NOW + SILENT_S + 1)
        assert lane.changed.take() == {paused, stopped}
        assert [row(lane, p).silent_since_ms is None for p in (fetched, paused, stopped)] == [True, False, False]
        ends.mark_silent(NOW + SILENT_S + 2)
        assert lane.changed.take() == set(), "what is known costs nothing"
        paused.log.end_at = NOW + SILENT_S
        ends.mark_silent(NOW + SILENT_S + 2)
        assert lane.changed.take() == {paused}
        assert row(lane, paused).silent_since_ms is None

    in_lane(test, monkeypatch)


def test_reports_of_a_session_count_until_it_stops_or_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on its answers leave the partition out."""

    async def test(lane: Lane, source: Source) -> None:
        for stop in (lambda p: lane.stop(p, Condition("record_refused", "t", "d", stops=True)), lane.pause):
            partition = lane.partitions["orders", FETCHED]
            partition.hold.phase, partition.log.answers = Phase.COPYING, Answers()
            partition.log.answers.at = NOW + 3
            stop(partition)
            partition.log.answers.at = NOW + 50
            assert partition.end_known_at == NOW + 3
            partition.log.end_at = NOW

    in_lane(test, monkeypatch)


@pytest.mark.parametrize("code", ["record_refused", *sorted(WITHOUT_LAG)])
def test_a_position_of_another_log_is_not_reported_as_one_of_this(
    code: ConditionCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(lane: Lane, source: Source) -> None:
        partition = lane.partitions["orders", STOPPED]
        partition.hold.condition = Condition(code, "text", "todo", "orders", STOPPED, stops=True)
        assert (row(lane, partition).position is None) is (code in WITHOUT_LAG)

    in_lane(test, monkeypatch)
