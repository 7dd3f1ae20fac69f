"""Asks the source for the ends that no fetch tells, and notices where the source tells nothing.

Lag is the distance from a position to an end. What is fetched learns its end with each answer. Partitions that are
stopped, paused or wait for memory are asked for here. An end that is older than ``SILENT_S`` is no longer passed off as
the end: who produces may have gone on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

from reconciler.kafka.client.cluster import LATEST, NO_LEADER, Key
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler_mirror.lane.partition import Phase
from reconciler_mirror.lane.state import Lane

LOOK_S = 3.0
SILENT_S = 10.0
"""Some fetches and looks: a fetch waits half a second for data, and a long line takes a few for an answer."""


class SourceEnds:
    """Of one session."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def mark_silent(self, now: float) -> None:
        """``now``: monotonic. Notes of which partitions the source has not told the end for long."""
        for partition in self._lane.partitions.values():
            silent_s = now - partition.heard_at
            if (silent_s > SILENT_S) is (partition.log.silent_since_ms is None) and partition.log.end >= 0:
                since_ms = int((time.time() - silent_s) * 1000)
                partition.log.silent_since_ms = since_ms if silent_s > SILENT_S else None
                self._lane.changed.add(partition)

    async def run(self) -> None:
        lane = self._lane
        while True:
            await asyncio.sleep(LOOK_S + len(lane.partitions) / 2_000)
            due = time.monotonic() - LOOK_S
            wanted = [p.source for p in lane.partitions.values() if p.log.end >= 0 and p.heard_at < due]
            by_leader = lane.source.by_leader(wanted)
            lost = by_leader.pop(NO_LEADER, [])
            moved = await asyncio.gather(*map(self._ask, by_leader.values()))
            if topics := {topic for keys in (lost, *moved) for topic, _ in keys}:
                with contextlib.suppress(ConnectionLostError, BrokerError):
                    await lane.source.refresh(topics)

    async def _ask(self, keys: Sequence[Key]) -> list[Key]:
        """Of one broker. Returns those that it does not serve; one that does not answer leaves all as they are."""
        lane = self._lane
        try:
            async with asyncio.timeout(SILENT_S / 2):
                ends = await lane.source.list_offsets(dict.fromkeys(keys, LATEST), committed=lane.committed_only)
        except (ConnectionLostError, BrokerError, TimeoutError):
            return []
        for key, end in ends.items():
            partition = lane.partitions.get(key)
            if partition is None or isinstance(end, BrokerError):
                continue
            moved = end > partition.log.end or (end < partition.log.end and partition.hold.phase is not Phase.COPYING)
            partition.log.ends_at(end if moved else partition.log.end, time.monotonic())
            if moved:
                lane.changed.add(partition)
        return [key for key, end in ends.items() if isinstance(end, BrokerError)]
