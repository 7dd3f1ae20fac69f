"""Which slot has which lanes, and which slots their lanes have left because Spark has no place for them.

Not thread-safe: ``Leases`` guards it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reconciler_mirror.leases.assign import LaneKey, LaneMove, best_move, pack, taken_over


class LanePlacement:
    def __init__(self, loads: Mapping[LaneKey, float], slots: int) -> None:
        self._slots = dict(pack(loads, slots))
        self._home: dict[LaneKey, int] = {}
        self.vacated: set[int] = set()

    def __getitem__(self, lane: LaneKey) -> int:
        return self._slots[lane]

    def __contains__(self, lane: LaneKey) -> bool:
        return lane in self._slots

    @property
    def slots(self) -> frozenset[int]:
        """Those that have lanes."""
        return frozenset(self._slots.values())

    def lanes_of(self, slot: int) -> tuple[LaneKey, ...]:
        return tuple(lane for lane, place in self._slots.items() if place == slot)

    def even_out(self, loads: Mapping[LaneKey, float], at_work: Collection[int]) -> LaneMove | None:
        """Moves one lane between slots that have a task, where that pays."""
        move = best_move(self._slots, loads, at_work)
        if move is not None:
            self._slots[move.lane] = move.destination
        return move

    def leave(self, slots: Collection[int], loads: Mapping[LaneKey, float], at_work: Collection[int]) -> frozenset[int]:
        """Gives the lanes of ``slots`` to those that have a task; returns which of them got some."""
        moved = taken_over(self._slots, loads, slots, at_work)
        self._home |= {lane: self._slots[lane] for lane in moved}
        self._slots |= moved
        self.vacated |= {*slots}
        return frozenset(moved.values())

    def come_back(self, slot: int) -> frozenset[int]:
        """The lanes that have left it are its own again; returns the slots that had them."""
        back = [lane for lane, home in self._home.items() if home == slot]
        had = frozenset(self._slots[lane] for lane in back)
        self._slots |= {lane: self._home.pop(lane) for lane in back}
        self.vacated.discard(slot)
        return had - {slot}
