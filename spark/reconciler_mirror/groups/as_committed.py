"""Group offsets of a flow that keeps offsets: they travel as they are, as far as the copy reaches."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reconciler.kafka.client.cluster import LATEST, ClusterClient, Key
from reconciler.replication.offsets.map import Translation
from reconciler.replication.offsets.same import as_committed


class AsCommitted:
    """``other``: where the offsets go. A position beyond its log would send a consumer to where ``auto.offset.reset``
    says, so such a group is set to where the log ends, and to its own offset once the copy reaches it."""

    def __init__(self, other: ClusterClient) -> None:
        self._other = other
        self._ends: Mapping[Key, int] = {}

    async def refresh(self, keys: Collection[Key]) -> None:
        """``keys``: partitions of the other side. After the groups' offsets were read, so that what was copied when a
        group committed is seen. Raises what ``list_offsets`` raises."""
        if not keys:
            return
        await self._other.refresh({topic for topic, _ in keys})
        ends = await self._other.list_offsets(dict.fromkeys(keys, LATEST), committed=False)
        self._ends = {key: end for key, end in ends.items() if isinstance(end, int)}

    def translate(self, key: Key, offset: int) -> Translation:
        """``key``: on the other side. Of one whose end was not told nothing is known."""
        return as_committed(offset, self._ends.get(key))
