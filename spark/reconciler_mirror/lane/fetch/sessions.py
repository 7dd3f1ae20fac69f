"""Which fetch session reads a partition: the quiet one of its broker, or one for partitions with a backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from reconciler_mirror.lane.fetch.bandwidth import BrokerLink
from reconciler_mirror.lane.fetch.fetcher import Fetcher
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.state import Lane


class Fetchers:
    """Those of one lane, made when a partition needs them. ``start`` runs one until the lane ends."""

    def __init__(self, lane: Lane, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        self._lane = lane
        self._start = start
        self._lines: dict[int, BrokerLink] = {}
        self._fetchers: dict[tuple[int, int], Fetcher] = {}

    def place(self, node: int, partition: Partition) -> None:
        """Has broker ``node`` asked for it. A partition with a backlog goes where fewest are."""
        line, tuning = self._lines.get(node), self._lane.tuning
        if line is None:
            line = self._lines[node] = BrokerLink(tuning.fetch_bytes, tuning.fetch_bytes_far)
        line.round_trip = self._lane.source.round_trip(node)
        self._lane.far |= line.long
        partition.log.busy |= line.long and not partition.caught_up
        number = 0
        if partition.log.busy:
            number = min(range(1, line.sessions() + 1), key=lambda number: self._size(node, number))
        fetcher = self._fetchers.get((node, number))
        if fetcher is None:
            fetcher = self._fetchers[node, number] = Fetcher(self._lane, (node, number), line, self._fetchers)
            self._start(fetcher.run())
        fetcher.add(partition)

    def _size(self, node: int, number: int) -> int:
        fetcher = self._fetchers.get((node, number))
        return fetcher.size if fetcher is not None else 0

    def forget(self, partition: Partition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove(partition)
