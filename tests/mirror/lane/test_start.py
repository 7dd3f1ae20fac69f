"""A source partition that nobody serves is waited for, and once that lasts it is told."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from reconciler_mirror.lane import start as batch_start
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.start import Starter
from reconciler_mirror.model import PartitionSpec

from reconciler.kafka.client.cluster import NO_ID
from reconciler.kafka.client.errors import BrokerError

SPEC = PartitionSpec("orders", 0, "east.orders", "")
SERVED = SimpleNamespace(node=1, epoch=3)
NO_LEADER = SimpleNamespace(node=-1, epoch=3)


def lane_of(leader: SimpleNamespace, offsets: object = None) -> Any:
    """Whose source has one partition, led by ``leader``, that answers ListOffsets with ``offsets``."""

    async def refresh(_: object) -> None:
        pass

    async def list_offsets(asked: dict[object, int], **_: object) -> dict[object, object]:
        return dict.fromkeys(asked, offsets)

    topics = {name: SimpleNamespace(error=0, leaders={0: leader}, topic_id=NO_ID) for name in ("orders", "east.orders")}
    cluster = SimpleNamespace(
        refresh=refresh, list_offsets=list_offsets, topics=topics, leader=lambda *_: leader, pool=None
    )
    routes = SimpleNamespace(place=lambda _: None)
    return SimpleNamespace(source=cluster, target=cluster, changed=set[Partition](), committed_only=True, routes=routes)


@pytest.mark.parametrize(
    ("leader", "offsets", "why"),
    [(NO_LEADER, None, "it has no leader"), (SERVED, BrokerError(78, "offsets"), "OFFSET_NOT_AVAILABLE (78)")],
)
def test_it_is_told_once_it_lasts_and_no_longer_once_it_is_over(
    monkeypatch: pytest.MonkeyPatch, leader: SimpleNamespace, offsets: object, why: str
) -> None:
    seconds = itertools.count(1000)
    monkeypatch.setattr(batch_start, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    partition = Partition(SPEC, covered=9, reached=9)
    lane = lane_of(leader, offsets)
    again, told = [], []
    for _ in range(8):
        again.append(asyncio.run(Starter(lane)._start([partition])))
        told.append(partition.condition)
    assert again == [[partition]] * 8, "it is tried again and again"
    assert told[:6] == [None] * 6
    assert told[6] is not None
    assert (told[6].code, told[6].topic, told[6].partition, told[6].stops) == ("source_unavailable", "orders", 0, True)
    assert why in told[6].text
    assert lane.changed == {partition}
    assert asyncio.run(Starter(lane_of(SERVED, 9))._start([partition])) == []
    assert partition.condition is None
    assert partition.waits_since == 0.0
