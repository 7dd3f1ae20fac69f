"""Open transactions on one side of a lane: they block readers of committed records, and are reported once they last."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reconciler_mirror.conditions import lane as conditions
from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.model.lane import Condition, PartitionSpec

OPEN_AFTER = 75.0
"""Seconds. By default a coordinator aborts a dead producer's transaction after 60 s, and checks every 10 s."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """``stable``: last stable offset, ``high``: high watermark; ``since``: monotonic."""

    stable: int
    high: int
    since: float


class OpenTransactions:
    """Lag counts readable records only, so it is 0 in front of an open transaction, even if that never ends. Every
    transaction makes readers wait; one that outlives the usual timeout is reported. The partition does not count as
    stopped: some producers (Flink) keep each transaction open for minutes, and block all their readers like this.
    Partitions without an open transaction cost one dictionary access.
    """

    def __init__(
        self, words: Callable[[PartitionSpec, int, int, float], Condition] = conditions.open_transaction
    ) -> None:
        """``words`` makes the condition from spec, last stable offset, high watermark and least duration in seconds."""
        self._words = words
        self._waiting: dict[Partition, OpenTransaction] = {}
        self._reported: dict[Partition, Condition] = {}

    def seen(self, partition: Partition, stable: int, high: int) -> None:
        """The broker has just answered with ``stable`` and ``high``, as in a Fetch response."""
        before = self._waiting.get(partition)
        if high <= stable:
            if before is not None:
                del self._waiting[partition]
                self._over(partition)
            return
        if before is None or before.stable != stable:
            self._over(partition)
            self._waiting[partition] = OpenTransaction(stable, high, time.monotonic())
        elif before.high != high:
            self._waiting[partition] = OpenTransaction(stable, high, before.since)

    def look(self, now: float) -> Iterable[Partition]:
        """Reports lasting transactions; returns the partitions with a changed condition. Forgets partitions that are no
        longer copied."""
        partitions = []
        for partition, waiting in list(self._waiting.items()):
            if partition.hold.phase in (Phase.STOPPED, Phase.PAUSED, Phase.LEAVING):
                del self._waiting[partition]
                self._reported.pop(partition, None)
                continue
            present = partition.hold.condition
            replaceable = present is None or present == self._reported.get(partition)
            if partition.hold.phase is Phase.COPYING and replaceable and now - waiting.since > OPEN_AFTER:
                condition = self._words(partition.spec, waiting.stable, waiting.high, OPEN_AFTER)
                if condition != present:
                    self._reported[partition] = condition
                    partition.hold.report(condition)
                    partitions.append(partition)
        return partitions

    def _over(self, partition: Partition) -> None:
        reported = self._reported.pop(partition, None)
        if reported is not None and partition.hold.condition == reported:
            partition.hold.report(None)
