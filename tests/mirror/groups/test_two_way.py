"""Group sync of a topic that both clusters write under one name, on real brokers: both maps count, and no record is
missed that a group has not read, of either side."""

from __future__ import annotations

import asyncio
import contextlib
import time

from reconciler_mirror.groups.round import GroupRounds, RoundResult
from reconciler_mirror.groups.translators import BothWays
from reconciler_sandbox.handles import Sandbox

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.client.groups import GroupClient
from reconciler.kafka.protocol.groups.group_offsets import CommittedOffset
from reconciler.replication.handover import GroupSettings
from reconciler.replication.names import OFFSETS_TOPIC, position_group
from reconciler.replication.offsets.codec import MapPartition, encode
from reconciler.replication.offsets.map import CopiedRun, Stretch
from reconciler.replication.offsets.map_topic import MapReader
from reconciler.replication.offsets.position_metadata import written
from tests.support.clusters import CreateTopic
from tests.support.lanes.lane_runs import fill
from tests.support.lanes.raw import cluster_of
from tests.support.lanes.truth import map_topic

# east: 5 of its own, 10 copies from west, a marker, 5 of its own; west: 10 of its own, 5 copies, a marker, 5 copies.
THERE = (Stretch(0, 21, (CopiedRun(0, 10, 5), CopiedRun(16, 16, 5)), first=True), Stretch(21, 22, ()))
BACK = (Stretch(0, 10, (CopiedRun(0, 5, 10),), first=True), Stretch(10, 22, ()))


def test_a_group_continues_at_the_first_record_of_either_side_that_it_has_not_read(
    plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    topic, group = f"{unique}.orders", f"{unique}-billing"
    for cluster in ("east", "west"):
        create_topic(plain[cluster], topic, 1)
        fill(plain[cluster], topic, [(b"k", b"v", (), int(time.time() * 1000))] * 22)
        map_topic(plain[cluster])

    async def commit(cluster: ClusterClient, name: str, offset: int, metadata: str = "") -> None:
        at = CommittedOffset(offset, metadata=metadata)
        answers = await GroupClient(cluster).commit({name: {(topic, 0): at}})
        assert answers == {name: {(topic, 0): 0}}

    async def tell(cluster: ClusterClient, flow: str, stretches: tuple[Stretch, ...], position: int) -> None:
        for _ in range(100):  # a topic that was made a moment ago
            with contextlib.suppress(BrokerError):
                await MapReader(cluster, flow).refresh()
                break
            await asyncio.sleep(0.1)
        records = [encode(MapPartition(flow, topic, 0), stretch) for stretch in stretches]
        await logs.append(cluster, OFFSETS_TOPIC, {0: records})
        await commit(cluster, position_group(flow), position, written((topic, 0), position, {}))

    async def run() -> list[tuple[int, RoundResult]]:
        east, west = cluster_of(plain["east"]), cluster_of(plain["west"])
        try:
            await tell(west, f"{unique}-there", THERE, 22)
            await tell(east, f"{unique}-back", BACK, 22)
            maps = MapReader(west, f"{unique}-there")
            both = BothWays((f"{unique}-there", f"{unique}-back"), (east, west), maps)
            settings = GroupSettings((group,), (), 1000, follow_rewinds=False)
            found = []
            for position in (3, 8, 15, 18, 21):
                await commit(east, group, position)
                rounds = GroupRounds(settings, east, west, {}, both)
                told = await rounds.run({(topic, 0): topic}, maps, lambda _: asyncio.sleep(0))
                there = (await GroupClient(west).offsets([group]))[group].offsets.get((topic, 0))
                found.append((there.offset if there else -1, told))
            return found
        finally:
            east.close()
            west.close()

    found = asyncio.run(run())
    # 3: none of west's ten; 8: three of them; 15: all ten; 18: two copies behind the marker; 21: all there is.
    assert [offset for offset, _ in found] == [0, 3, 16, 18, 22]
    assert all(told.inexact == 0 and not told.refused for _, told in found)
