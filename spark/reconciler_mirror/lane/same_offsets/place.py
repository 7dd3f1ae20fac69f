"""How far a copy at the same offsets is: what the target's leader says, and what that allows.

The position is the target's log end. Data carries one producer id and one epoch for the life of the copy and a
sequence that counts its records, so the leader takes nothing but the very next record, from any sender. The sequence
begins at the offset of the first record, modulo 2^31, and again so once the leader has forgotten the producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.records.batches import SEQUENCES

DATA_EPOCH = 0
"""Of the producer id that writes data. It never changes: nothing fences it but its sequences."""
TRIES, PAUSE = 5, 0.005
_BUSY = 6
"""As if the leader had moved: tried again a moment later."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the leader says of a partition, at one moment. ``last_sequence`` of the copy's producer id; None: the leader
    does not know it, because it has not written yet or not for ``producer.id.expiration.ms``."""

    end: int
    last_sequence: int | None

    @property
    def next_sequence(self) -> int:
        """Of a record that is appended now."""
        return (self.end if self.last_sequence is None else self.last_sequence + 1) % SEQUENCES

    def after(self, records: int, next_offset: int) -> Look:
        """Once so many records were appended, or none where a hole was filled."""
        return Look(next_offset, (self.next_sequence + records - 1) % SEQUENCES if records else self.last_sequence)


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
    """Sequence and log end as they were at one moment: while another producer appends they do not match, and a
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
        # Sequences before and after the ends: if they are equal, nothing of this producer was appended in between, so
        # they belong to that end.
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
    return looks | {key: BrokerError(_BUSY, f"{key[0]}-{key[1]}: another producer appends to it") for key in left}


@dataclass(frozen=True, slots=True)
class CopyPlace:
    """Of one partition. All offsets below ``reached`` mean the same on both sides, as far as is known. ``look``: the
    target when it was last looked at; what lies from ``reached`` to its end was appended without an answer, by this
    holder or another.

    ``last``: the sequence that the last record had when the place was last known for sure, None for no record;
    ``trusted``: whether that is known at all. Since then the source had ``count`` records, the first at ``first``;
    ``absent``: also offsets without a batch, so compaction may have changed how many there were.
    """

    reached: int
    look: Look
    last: int | None = None
    trusted: bool = False
    count: int = 0
    first: int = -1
    absent: bool = False

    @property
    def level(self) -> bool:
        """Nothing lies beyond ``reached``: data may be appended."""
        return self.reached == self.look.end

    def seen(self, records: int, first: int, next_offset: int, *, absent: bool) -> CopyPlace:
        """The source has so many records from ``first`` to ``next_offset``, which the target has already."""
        return replace(
            self,
            reached=next_offset,
            count=self.count + records,
            first=first if records and not self.count else self.first,
            absent=self.absent or absent,
        )

    def appended(self, records: int, next_offset: int) -> CopyPlace:
        """Records or a filled hole, answered by the leader."""
        look = self.look.after(records, next_offset)
        return CopyPlace(next_offset, look, look.last_sequence, trusted=True)

    def looked(self, look: Look) -> CopyPlace:
        """Looked at again. A shorter log has lost what was appended: it is copied again."""
        return CopyPlace(look.end, look) if look.end < self.reached else replace(self, look=look)

    @property
    def displaced(self) -> bool:
        """``reached`` has come to the target's end, and the target has another number of records there than the source:
        another producer has written to it."""
        last = self.look.last_sequence
        if not self.trusted or self.absent or last is None:
            return False
        if not self.count:
            return last != self.last
        # A leader that had forgotten the producer let it begin again.
        return (last - self.count) % SEQUENCES not in {(self.first - 1) % SEQUENCES, self.last}

    @property
    def unproved(self) -> bool:
        """Likewise at the target's end, and how many records the target has there was not known before, or is not now:
        their number shows nothing, the records themselves may. Compaction leaves nothing to compare."""
        return not self.absent and (not self.trusted or self.look.last_sequence is None)

    def settled(self) -> CopyPlace:
        """At the target's end, known for sure."""
        return CopyPlace(self.reached, self.look, self.look.last_sequence, trusted=True)


@dataclass(slots=True, eq=False)
class SamePartition:
    """What a partition has beside what all have, from when its start is known."""

    producer: int
    """Producer id that writes its data."""
    start: int
    """Source offset of the first record that is copied; 0 for a copy that is continued: nothing is filled."""
    place: CopyPlace | None = None
    """None before the leader was first looked at."""
    begun: bool = False
    """``start`` and ``producer`` are committed, so data may be written."""
    displaced: bool = False
    """Another producer has written to the target, or may have. Check whether that is still the beginning of the
    source before anything is written."""
    diverged: int | None = None
    """Source offset from which on the two logs mean different records: nothing is written, for good."""
    left_out: set[int] = field(default_factory=set)
    """Source offsets of records that the target refused, where the flow goes on: they become holes."""
    at: float = 0.0
    """Monotonic: when the leader last said anything about the target's log."""
    end_at: float = 0.0
    """Monotonic: when the leader last said that the log ends where the lane left it."""
    trusted_last: int | None = None
    """Sequence of the last record as the committed position has it, -1 for no record; None: it does not say."""
