"""Open transactions at the source, behind which committed readers wait; reported when they last.

Lag counts what can be read, so it is 0 there, and stays 0 when a producer never ends its transaction. Waiting is what
each transaction causes; what outlives the usual timeout of transactions is reported. It does not count as stopped: some
producers, Flink's for one, keep each transaction open for minutes, and all their readers wait like this.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote

from reconciler_mirror.lane.partition import Partition, Phase
from reconciler_mirror.model.lane import Condition

TELL_AFTER = 75.0
"""Seconds. A producer that is gone is given up after 60 s by default, and brokers look for such every 10 s."""
CODE = "source_transaction_open"


@dataclass(frozen=True, slots=True)
class Waiting:
    """``stable``: where readers of committed records wait, ``high``: where the partition ends; ``since``: monotonic."""

    stable: int
    high: int
    since: float


class OpenTransactions:
    """Of one lane. Partitions without an open transaction cost one look into a dict."""

    def __init__(self) -> None:
        self._waiting: dict[Partition, Waiting] = {}

    def seen(self, partition: Partition, stable: int, high: int) -> None:
        """What the source has just told; ``stable`` and ``high`` as in a Fetch response."""
        before = self._waiting.get(partition)
        if high <= stable:
            if before is not None:
                del self._waiting[partition]
                _over(partition)
            return
        if before is None or before.stable != stable:
            _over(partition)
            self._waiting[partition] = Waiting(stable, high, time.monotonic())
        elif before.high != high:
            self._waiting[partition] = Waiting(stable, high, before.since)

    def look(self, now: float) -> Iterable[Partition]:
        """Those of which something is to be told anew. What is not copied any more is forgotten."""
        partitions = []
        for partition, waiting in list(self._waiting.items()):
            if partition.hold.phase in (Phase.STOPPED, Phase.PAUSED, Phase.LEAVING):
                del self._waiting[partition]
                continue
            mine = partition.hold.condition is None or partition.hold.condition.code == CODE
            if partition.hold.phase is Phase.COPYING and mine and now - waiting.since > TELL_AFTER:
                condition = open_transaction(partition, waiting)
                if condition != partition.hold.condition:
                    partition.hold.tell(condition)
                    partitions.append(partition)
        return partitions


def _over(partition: Partition) -> None:
    if partition.hold.condition is not None and partition.hold.condition.code == CODE:
        partition.hold.tell(None)


def open_transaction(partition: Partition, waiting: Waiting) -> Condition:
    spec = partition.spec
    behind = waiting.high - waiting.stable
    return Condition.of_partition(
        "source_transaction_open",
        spec,
        f"is not copied further than source offset {waiting.stable}: a transaction that began there has been open for "
        f"more than {TELL_AFTER:.0f} s, and until it ends nobody who reads committed records gets what follows, "
        f"{behind:,} offset{'s' if behind > 1 else ''} so far; lag does not count them",
        "Wait, where the producer keeps transactions open for so long. Else end it with Kafka's own kafka-transactions "
        f"at the source: abort --topic {quote(spec.topic)} --partition {spec.partition}"
        f" --start-offset {waiting.stable}.",
        stops=False,
    )
