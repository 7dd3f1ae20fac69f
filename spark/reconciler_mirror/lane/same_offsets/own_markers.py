"""Fills holes by markers that the lane writes itself, where its principal may: each is one offset without a record.

Kafka's coordinator writes a marker again when the leader died or moved before it answered, and leaders do not know it
again: a copy would be one offset ahead, for good. The lane looks before it writes again, and no two markers can get in
at the same place:

A leader refuses a marker whose producer epoch *or* coordinator epoch is lower than those of the last one. All markers
that may be written at the same place, by the holder, by one that was replaced and does not know it, or by a request
that is still under way, have each a higher producer epoch and a lower coordinator epoch than the others of lower rank.
So whichever comes first, the leader refuses all the others. A rank belongs to one session. Only the
session that got the answer that its marker is the last one writes the next with rank 0, and so without a higher
producer epoch: no other session can know that.

All of that holds for one leader. The next one may have been elected uncleanly, with a shorter log. So a session forgets
what a leader said once another one leads, and sends its markers to the leader that it asked.

A long hole is filled by the transactional producer, but for its first offset and its last ones. After its first marker
any other session that writes one there has to ask for the last one again, and then learns that it was replaced. And the
last offsets are left for markers that the coordinator writes again.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from reconciler.kafka.client.cluster import Key
from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol.producers.write_markers import (
    DENIED,
    STALE_COORDINATOR,
    STALE_EPOCH,
    UNSUPPORTED,
    Epochs,
)
from reconciler_mirror.lane.same_offsets.segments import Hole
from reconciler_mirror.lane.state import RestartError

RANKS = 32
"""Sessions in a row that have ranks of their own. A request would have to be under way while so many begin."""
MOST = 8
"""Offsets of a hole that has no other markers: each is an exchange with the leader."""
SPARE = 4
"""Offsets that the coordinator leaves at the end of a longer one."""
_EPOCHS, _COORDINATOR_EPOCHS = 1 << 15, 1 << 31
NO_LEADER_KNOWN = 5


def following(last: Epochs, rank: int) -> Epochs:
    """Those of the next marker, 0 <= ``rank`` < RANKS."""
    place = last.coordinator // RANKS + 1
    return Epochs(max(last.producer, 0) + rank, place * RANKS + RANKS - 1 - rank)


def exhausted(last: Epochs) -> bool:
    """No more fit in: then the coordinator writes, until leaders have forgotten (``producer.id.expiration.ms``)."""
    return last.producer >= _EPOCHS - RANKS or last.coordinator >= _COORDINATOR_EPOCHS - 2 * RANKS


class LeaderPort(Protocol):
    """What leaders are asked; of what one does not answer, why."""

    async def leaders(self, keys: Iterable[Key]) -> Mapping[Key, object]:
        """Who leads each now, and over which connection: unequal after an election, and after a lost connection.
        Without those that have no leader."""
        ...

    async def last_markers(self, keys: Iterable[Key]) -> Mapping[Key, Epochs | BrokerError]: ...

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Log end offsets, as the leaders have them, replicated or not."""
        ...

    async def write_markers(self, markers: Mapping[Key, Epochs], leaders: Mapping[Key, object]) -> Mapping[Key, int]:
        """Kafka's error codes; NO_LEADER_KNOWN where nothing was sent, because ``leaders`` do not lead any more."""
        ...

    async def require_current(self) -> None:
        """Raises FencedError where another session has begun since."""


class OwnMarkers:
    """Of one session. ``session``: another number than that of all that were lately before it."""

    def __init__(self, port: LeaderPort, session: int) -> None:
        self._port = port
        self._rank = 1 + session % (RANKS - 1)
        self._last: dict[Key, tuple[object, Epochs]] = {}
        self._left_to_coordinator: set[Key] = set()
        self.denied = False

    def may(self, key: Key) -> bool:
        return not self.denied and key not in self._left_to_coordinator

    def own_part(self, hole: Hole) -> Hole:
        """What of it is filled by own markers before anything else is."""
        return hole if hole.next_offset - hole.first <= MOST else Hole(hole.first, hole.first + 1)

    async def fill(self, holes: Mapping[Key, Hole]) -> Mapping[Key, int | None]:
        """Log ends afterwards; None: they have to be looked at again. Those that are left to the coordinator are left
        out. Raises ConnectionLostError, FencedError, and RestartError where a marker may have been written or not."""
        at: dict[Key, int | None] = {}
        leaders = await self._port.leaders(holes)
        last = await self._learned(holes, leaders, at)
        left = {key: holes[key].first for key in last}
        while left and not self.denied:
            ranks = {key: 0 if key in self._last else self._rank for key in left}
            markers = {key: following(last[key], ranks[key]) for key in left}
            errors = await self._port.write_markers(markers, leaders)
            for key, epochs in markers.items():
                if error := errors.get(key, -1):
                    self._last.pop(key, None)
                    if error in (DENIED, UNSUPPORTED):
                        self.denied = True
                    elif error not in (STALE_EPOCH, STALE_COORDINATOR, NO_LEADER_KNOWN):
                        # The next session has another rank, so its markers and this one exclude each other.
                        unsure = f"whether a marker was written to {key[0]}-{key[1]} is not known"
                        raise RestartError(f"{unsure} (error {error})")
                    if not self.denied:
                        at[key] = None
                    elif left[key] > holes[key].first:
                        at[key] = left[key]
                    del left[key]
                    continue
                self._last[key], last[key] = (leaders[key], epochs), epochs
                left[key] += 1
                if left[key] == holes[key].next_offset:
                    at[key] = left.pop(key)
        return at | dict(left)

    async def _learned(
        self, holes: Mapping[Key, Hole], leaders: Mapping[Key, object], at: dict[Key, int | None]
    ) -> dict[Key, Epochs]:
        """The last markers in those partitions whose log still ends where it did when they were asked for."""
        last: dict[Key, Epochs] = {}
        for key in holes.keys() & self._last.keys():
            leader, epochs = self._last[key]
            # Where records were lost with the leader, a marker for this hole would lie in the place of one of them.
            if leader == leaders.get(key):
                last[key] = epochs
            else:
                del self._last[key]
        unknown = [key for key in holes if key not in last]
        if unknown:
            answers = await self._port.last_markers(unknown)
            ends = await self._port.ends(unknown)
            await self._port.require_current()
            for key in unknown:
                answer = answers[key]
                if key not in leaders or isinstance(answer, BrokerError) or ends[key] != holes[key].first:
                    at[key] = None
                else:
                    last[key] = answer
        for key in [key for key, epochs in last.items() if exhausted(epochs)]:
            self._left_to_coordinator.add(key)
            del last[key]
        return last
