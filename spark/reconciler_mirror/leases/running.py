"""The leases that run: which lanes each has, when it was heard of, and which of them are asked to end.

Not thread-safe: ``Leases`` guards it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping

from reconciler_mirror.model.lane import LaneKey

SILENT_S = 10.0
"""A task that said nothing for so long is frozen or cut off: it gives a sign of life every two seconds."""


class SignsOfLife:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[str, float] = {}
        self._looked = clock()

    def __contains__(self, lease: str) -> bool:
        return lease in self._heard

    @property
    def slots(self) -> frozenset[int]:
        """Those whose lease is connected."""
        return frozenset(map(slot_of, self._heard))

    def begins(self, lease: str) -> None:
        """Its line is open."""
        self._heard[lease] = self._clock()

    def hear(self, lease: str) -> None:
        if lease in self._heard:
            self._heard[lease] = self._clock()

    def ends(self, lease: str) -> None:
        self._heard.pop(lease, None)

    def silent(self) -> Mapping[str, float]:
        """Those that have said nothing for long, and for how many seconds. To be asked every few seconds: when nobody
        did, it was this process that stood still, and nothing is known of the others yet."""
        now = self._clock()
        if now - self._looked > SILENT_S:
            self._heard = dict.fromkeys(self._heard, now)
        self._looked = now
        return {lease: now - at for lease, at in self._heard.items() if now - at > SILENT_S}


def slot_of(lease: str) -> int:
    return int(lease.partition(".")[0])


class RunningLeases:
    """``signs``: of those whose task is connected. A lease may run for long before Spark has a core for its task."""

    def __init__(self) -> None:
        self.signs = SignsOfLife()
        self._lanes: dict[str, tuple[LaneKey, ...]] = {}
        self._over: set[str] = set()
        self._left: dict[str, set[LaneKey]] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._lanes)

    def lanes(self) -> Mapping[str, tuple[LaneKey, ...]]:
        """By lease, as it is now."""
        return dict(self._lanes)

    def lanes_of(self, lease: str) -> tuple[LaneKey, ...] | None:
        """None: it does not run, or does not any more."""
        return self._lanes.get(lease)

    def begins(self, lease: str, lanes: tuple[LaneKey, ...]) -> None:
        self._lanes[lease] = lanes

    def ends(self, lease: str) -> None:
        del self._lanes[lease]
        self._over.discard(lease)
        self.signs.ends(lease)
        self._left.pop(lease, None)

    def lane_left(self, lease: str, lane: LaneKey) -> None:
        """It has committed and copies no more, though its lease may go on."""
        self._left.setdefault(lease, set()).add(lane)

    def line_ends(self, lease: str) -> frozenset[LaneKey]:
        """Nothing more will be heard of its task; returns the lanes that had not left."""
        lanes = frozenset(self._lanes.get(lease, ())) - self._left.get(lease, set())
        self.signs.ends(lease)
        if lanes:
            self._left.pop(lease, None)
        return lanes

    def end_early(self, slots: Collection[int]) -> frozenset[str]:
        """Those of ``slots`` must end, also when they connect only later."""
        names = frozenset(name for name in self._lanes if slot_of(name) in slots)
        self._over |= names
        return names

    def is_over(self, lease: str) -> bool:
        return lease in self._over

    def all_left(self, leases: Mapping[str, tuple[LaneKey, ...]]) -> bool:
        return all(
            name not in self._lanes or self._left.get(name, set()).issuperset(lanes) for name, lanes in leases.items()
        )

    def all_connected(self) -> bool:
        return all(name in self.signs for name in self._lanes)

    def held_by_others(self, lease: str) -> frozenset[LaneKey]:
        """Lanes of other leases that are connected."""
        return frozenset(
            lane for name, lanes in self._lanes.items() if name != lease and name in self.signs for lane in lanes
        )

    def silent_lanes(self, silent: Mapping[str, float]) -> Mapping[LaneKey, float]:
        """``silent``: seconds by lease."""
        return {lane: seconds for name, seconds in silent.items() for lane in self._lanes.get(name, ())}
