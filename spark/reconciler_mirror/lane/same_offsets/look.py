"""Looks where a copy at the same offsets stands: sequence, log end, and the sequence again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import BrokerError
from reconciler_mirror.lane.same_offsets.place import Look

TRIES, PAUSE = 5, 0.005
_BUSY = 6
"""As if the leader had moved: tried again a moment later."""


class LookPort(Protocol):
    """What leaders are asked; of what one does not answer, why."""

    async def sequences(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError | None]:
        """The last sequence of the copy's producer id; None: unknown to the leader."""
        ...

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Log end offsets, as the leaders have them, replicated or not."""
        ...

    async def replicated(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """High watermarks."""
        ...


async def look(port: LookPort, keys: Iterable[Key]) -> dict[Key, Look | BrokerError]:
    """Sequence and log end as they were at one moment: while somebody else appends they do not go together, and a
    batch would be taken for a repetition of another one. And only where all is replicated: what is not may go with its
    leader, and a marker that is written again later would move what was appended meanwhile. Partitions in which that
    goes on get a retriable error."""
    looks: dict[Key, Look | BrokerError] = {}
    left = list(keys)
    for tried in range(TRIES):
        if tried:
            await asyncio.sleep(PAUSE)
        if not left:
            return looks
        before = await port.sequences(left)
        ends = await port.ends(left)
        high = await port.replicated(left)
        after = await port.sequences(left)
        for key in left:
            first, end, second = before[key], ends[key], after[key]
            if isinstance(first, BrokerError):
                looks[key] = first
            elif isinstance(end, BrokerError):
                looks[key] = end
            elif isinstance(second, BrokerError):
                looks[key] = second
            elif first == second and high[key] == end:
                looks[key] = Look(end, first)
        left = [key for key in left if key not in looks]
    return looks | {key: BrokerError(_BUSY, f"{key[0]}-{key[1]}: somebody else appends to it") for key in left}
