"""Syncs group offsets of a topic that source and target both write under one name."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.groups import GroupClient
from reconciler.replication.names import position_group
from reconciler.replication.offsets.codec import Ids
from reconciler.replication.offsets.map import Exactness, Translation
from reconciler.replication.offsets.position_metadata import is_ours
from reconciler.replication.offsets.reader import MapReader
from reconciler.replication.offsets.two_way import Interleaved

DECIDED_WITHIN = 3.0
_UNDECIDED = Translation(None, Exactness.UNKNOWN, "a position of the flow is not decided yet, or another client's")


class BothWays:
    """``maps``: of the flow, on ``target``; ``returning``: the flow that brings the target's records to ``source``."""

    def __init__(self, flows: tuple[str, str], clusters: tuple[ClusterClient, ClusterClient], maps: MapReader) -> None:
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

    def translate(self, key: Key, position: int, ids: Ids) -> Translation:
        """``key``: topic and partition, the same on both sides; ``ids``: of the topic here and there, now."""
        out_to, back_to = self._out_to.get(key), self._back_to.get(key)
        if (out_to is None and key in self._out_to) or (back_to is None and key in self._back_to):
            return _UNDECIDED
        out, back = self._out.partition(*key, ids), self._back.partition(*key, (ids[1], ids[0]))
        return Interleaved(out, out_to, back, back_to).translate(position)


async def _decided(cluster: ClusterClient, group: str) -> dict[Key, int | None]:
    """Every position of a flow; None while its transaction is undecided for too long, and where another client has
    committed one."""
    decided = await GroupClient(cluster).decided(group, DECIDED_WITHIN)
    return {
        key: at.offset if at is not None and is_ours(key, at.offset, at.metadata) else None
        for key, at in decided.items()
    }
