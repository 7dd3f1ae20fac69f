"""Open transactions of one side of a lane, behind which readers of committed records wait; reported when they last."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from reconciler_mirror.conditions import lane as conditions
from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.model.lane import Condition, PartitionSpec

OPEN_AFTER = 75.0
"""Seconds. A producer that is gone is given up after 60 s by default, and brokers look for such every 10 s."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """``stable``: where readers of committed records wait, ``high``: where the partition ends; ``since``: monotonic."""

    stable: int
    high: int
    since: float


class OpenTransactions:
    """Lag counts what can be read, so it is 0 there, and stays 0 when a producer never ends its transaction. Waiting is
    what each transaction causes; what outlives the usual timeout of transactions is reported. It does not count as
    stopped: some producers, Flink's for one, keep each transaction open for minutes, and all their readers wait like
    this. Partitions without an open transaction cost one look into a dict.
    """

    def __init__(
        self, words: Callable[[PartitionSpec, int, int, float], Condition] = conditions.open_transaction
    ) -> None:
        """``words``: of the spec, the last stable offset, the end, and for how many seconds at least."""
        self._words = words
        self._waiting: dict[Partition, OpenTransaction] = {}
        self._reported: dict[Partition, Condition] = {}

    def seen(self, partition: Partition, stable: int, high: int) -> None:
        """What the source has just answered; ``stable`` and ``high`` as in a Fetch response."""
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
        """Those whose condition has changed. What is not copied any more is forgotten."""
        partitions = []
        for partition, waiting in list(self._waiting.items()):
            if partition.hold.phase in (Phase.STOPPED, Phase.PAUSED, Phase.LEAVING):
                del self._waiting[partition]
                self._reported.pop(partition, None)
                continue
            standing = partition.hold.condition
            mine = standing is None or standing == self._reported.get(partition)
            if partition.hold.phase is Phase.COPYING and mine and now - waiting.since > OPEN_AFTER:
                condition = self._words(partition.spec, waiting.stable, waiting.high, OPEN_AFTER)
                if condition != standing:
                    self._reported[partition] = condition
                    partition.hold.report(condition)
                    partitions.append(partition)
        return partitions

    def _over(self, partition: Partition) -> None:
        reported = self._reported.pop(partition, None)
        if reported is not None and partition.hold.condition == reported:
            partition.hold.report(None)
