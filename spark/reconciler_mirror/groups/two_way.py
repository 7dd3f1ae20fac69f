"""Group offsets of a topic that source and target both write under one name: both flows' maps, read in a safe order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from replication.interleaved import Interleaved
from replication.names import position_group
from replication.offset_map import Exactness, Translation
from translation.reading import MapReader
from wire.cluster import Cluster, Key
from wire.errors import BrokerError
from wire.groups import Groups

DECIDED_WITHIN = 3.0
_UNDECIDED = Translation(None, Exactness.UNKNOWN, "a position of the flow is not decided yet")


class BothWays:
    """``maps``: of the flow, on ``target``; ``returning``: the flow that brings the target's records to ``source``."""

    def __init__(self, flows: tuple[str, str], clusters: tuple[Cluster, Cluster], maps: MapReader) -> None:
        """``flows``: the flow and the returning one; ``clusters``: the flow's source and target."""
        self._groups = tuple(position_group(name) for name in flows)
        self._source, self._target = clusters
        self._out, self._back = maps, MapReader(self._source, flows[1])
        self._out_to: Mapping[Key, int | None] = {}
        self._back_to: Mapping[Key, int | None] = {}

    async def refresh(self) -> None:
        """After the groups' offsets were read. Raises what ``wire`` raises."""
        out, back = self._groups
        self._back_to = await _decided(self._source, back)
        await self._back.refresh()
        self._out_to = await _decided(self._target, out)
        await self._out.refresh()

    def translate(self, key: Key, position: int) -> Translation:
        """``key``: topic and partition, the same on both sides."""
        out_to, back_to = self._out_to.get(key), self._back_to.get(key)
        if (out_to is None and key in self._out_to) or (back_to is None and key in self._back_to):
            return _UNDECIDED
        return Interleaved(self._out.partition(*key), out_to, self._back.partition(*key), back_to).translate(position)


async def _decided(cluster: Cluster, group: str) -> dict[Key, int | None]:
    """Every position of a flow; None while its transaction is undecided for too long."""
    groups, found = Groups(cluster), dict[Key, int | None]()
    until = asyncio.get_running_loop().time() + DECIDED_WITHIN
    while True:
        told = (await groups.offsets([group], stable=True))[group]
        if told.error:
            raise BrokerError(told.error, f"positions of group {group} on {cluster.name}")
        for key, one in told.offsets.items():
            if found.get(key) is None:
                found[key] = one.offset
        waiting = [key for key in told.unstable if found.get(key) is None]
        if not waiting or asyncio.get_running_loop().time() > until:
            return found | dict.fromkeys(waiting)
        await asyncio.sleep(0.05)
