"""The leases that run: which lanes each has, when it was heard of, and which of them are asked to end.

Not thread-safe: ``Leases`` guards it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from reconciler_mirror.leases.assign import LaneKey
from reconciler_mirror.leases.signs_of_life import SignsOfLife, slot_of


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
