"""What the target lost leaves the offset map even while the lane writes to the map."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from reconciler_mirror.lane import target_tails
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.offset_map_writer import MapWriter
from reconciler_mirror.lane.positions import LanePosition
from reconciler_mirror.lane.target_tails import TargetLosses
from reconciler_mirror.model.lane import TargetLoss

from reconciler.replication.offsets import map_topic

IDS = (UUID(int=1), UUID(int=2))
KEY = ("orders", 0)


def test_a_chunk_that_is_being_written_is_taken_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left in the map, it would translate a consumer group to offsets that other records have by then."""
    in_the_map: list[bytes] = []

    async def scenario() -> None:
        copied = Copied()
        copied.start(100, IDS)
        copied.acknowledged(((100, 20),), 105)
        copied.committed(120)
        copied.lost = TargetLoss(63, 125, 60)
        place: Any = Mock(source=KEY, target=KEY, copied=copied)
        place.spec, place.hold.condition = SimpleNamespace(topic="orders", partition=0), None
        written = asyncio.Event()

        async def append(_: object, __: str, chunks: Any) -> None:
            await written.wait()
            in_the_map.extend(name for records in chunks.values() for name, _ in records)

        async def cut(*_: object) -> None:
            in_the_map.clear()

        async def ends(*_: object, **__: object) -> Any:
            return {KEY: 63}

        monkeypatch.setattr(map_topic, "append", append)
        monkeypatch.setattr(target_tails, "cut", cut)
        lane: Any = SimpleNamespace(
            partitions={KEY: place},
            spec=SimpleNamespace(state="flow", offset_syncs=None, flow="flow", lane=0),
            target=SimpleNamespace(list_offsets=ends, topic_prefix=""),
            ids=lambda _: IDS,
            mapping=asyncio.Lock(),
            unmapped=None,
        )
        writing = asyncio.create_task(MapWriter(lane).write())
        await asyncio.sleep(0)
        looking = asyncio.create_task(TargetLosses(lane).of({place: LanePosition(120, "id")}, {place: 125}))
        await asyncio.sleep(0.01)
        written.set()
        assert await writing
        await looking
        assert not list(copied.chunks()), "what is lost is not written again"

    asyncio.run(scenario())
    assert in_the_map == []
