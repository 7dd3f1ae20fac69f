"""The place of a copy at the same offsets, from the answers of the target's leader.

The position is the target's log end. All data of a copy has one producer id, one epoch, and a sequence that counts its
records, so the leader accepts only the very next record, from any sender. The sequence begins with the offset of the
first record, modulo 2^31, and so again after the leader has forgotten the producer.
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
"""Epoch of the data's producer. It never changes: only sequences fence this producer."""
TRIES, PAUSE = 5, 0.005
_BUSY = 6
"""NOT_LEADER_OR_FOLLOWER, so that the caller tries again a moment later."""


@dataclass(frozen=True, slots=True)
class Look:
    """Log end and last sequence of a partition at one moment. ``last_sequence``: of the copy's producer id; None if the
    leader does not know that, because it has not written, or not for ``producer.id.expiration.ms``."""

    end: int
    last_sequence: int | None

    @property
    def next_sequence(self) -> int:
        """The sequence of the next record."""
        return (self.end if self.last_sequence is None else self.last_sequence + 1) % SEQUENCES

    def after(self, records: int, next_offset: int) -> Look:
        """After ``records`` records were appended; 0 for a filled hole."""
        return Look(next_offset, (self.next_sequence + records - 1) % SEQUENCES if records else self.last_sequence)


class LookPort(Protocol):
    """Questions to leaders; a failed one gives its error."""

    async def sequences(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError | None]:
        """The last sequence of the copy's producer id; None: unknown to the leader."""
        ...

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Log end offsets at the leaders, replicated or not."""
        ...

    async def replicated(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """High watermarks."""
        ...


async def look(port: LookPort, keys: Iterable[Key]) -> dict[Key, Look | BrokerError]:
    """Sequence and log end of one moment. While another producer appends, the two do not match, and the leader would
    take a new batch for a repetition. Waits for full replication, too: unreplicated records may vanish with the leader,
    and a marker written again later would shift records appended meanwhile. Partitions that remain in such a state get
    a retriable error."""
    looks: dict[Key, Look | BrokerError] = {}
    left = list(keys)
    for tried in range(TRIES):
        if tried:
            await asyncio.sleep(PAUSE)
        if not left:
            return looks
        # Equal sequences before and after the ends mean that this producer appended nothing in between, so that they
        # belong to these ends.
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
    """The place of one partition. As far as known, all offsets below ``reached`` have the same records on both sides.
    ``look``: the last answers of the leader; this holder or another one appended the records from ``reached`` to its
    end, but got no answer.

    ``last``: the last record's sequence when the place was last certain, None for no record; ``trusted``: whether that
    is known. Since then the source had ``count`` records, the first at ``first``; ``absent``: and offsets without a
    batch, where compaction may have removed records.
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
        """Whether ``reached`` is the target's log end, so that data may be appended."""
        return self.reached == self.look.end

    def seen(self, records: int, first: int, next_offset: int, *, absent: bool) -> CopyPlace:
        """The source has ``records`` records from ``first`` to ``next_offset``, which the target has already."""
        return replace(
            self,
            reached=next_offset,
            count=self.count + records,
            first=first if records and not self.count else self.first,
            absent=self.absent or absent,
        )

    def appended(self, records: int, next_offset: int) -> CopyPlace:
        """The leader has acknowledged records or a filled hole."""
        look = self.look.after(records, next_offset)
        return CopyPlace(next_offset, look, look.last_sequence, trusted=True)

    def looked(self, look: Look) -> CopyPlace:
        """After a new look. A shorter log has lost records, which are copied again."""
        return CopyPlace(look.end, look) if look.end < self.reached else replace(self, look=look)

    @property
    def displaced(self) -> bool:
        """At the target's end: whether the target has another number of records there than the source, because another
        producer has written to it."""
        last = self.look.last_sequence
        if not self.trusted or self.absent or last is None:
            return False
        if not self.count:
            return last != self.last
        # A leader that had forgotten the producer let the sequence begin again.
        return (last - self.count) % SEQUENCES not in {(self.first - 1) % SEQUENCES, self.last}

    @property
    def unproved(self) -> bool:
        """At the target's end: whether the number of records there is unknown, before or now, so that only a comparison
        of the records could prove the copy. Compaction leaves nothing to compare."""
        return not self.absent and (not self.trusted or self.look.last_sequence is None)

    def settled(self) -> CopyPlace:
        """At the target's end, with certainty."""
        return CopyPlace(self.reached, self.look, self.look.last_sequence, trusted=True)


@dataclass(slots=True, eq=False)
class SamePartition:
    """A partition's state for copies at the same offsets, once its start is known."""

    producer: int
    """Producer id of its data."""
    start: int
    """Source offset of the first copied record; 0 for a continued copy, where nothing is filled."""
    place: CopyPlace | None = None
    """None before the first answers of the leader."""
    begun: bool = False
    """``start`` and ``producer`` are committed, so data may be written."""
    displaced: bool = False
    """Another producer has, or may have, written to the target. Before any write the target's log must prove to be the
    source's beginning."""
    diverged: int | None = None
    """Source offset from which on the two logs have different records: nothing is written there again."""
    left_out: set[int] = field(default_factory=set)
    """Source offsets of records that the target refused under ``continue_on``: they become holes."""
    at: float = 0.0
    """Monotonic: the leader's last answer about the target's log."""
    end_at: float = 0.0
    """Monotonic: the leader's last confirmation that the log ends as the lane left it."""
    trusted_last: int | None = None
    """The last record's sequence by the committed position, -1 for no record; None if the position has none."""
