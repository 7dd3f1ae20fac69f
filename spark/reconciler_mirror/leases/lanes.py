"""Assigns lanes to leases, each of which is one Spark task, and makes the messages to tasks about them.

Lanes stay where they are unless a move pays. ``Leases`` guards placement, claims and prepared lanes. Partitions come
from the board, which has its own lock: encoding thousands of them would block the guard for too long.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.replication.handover import FlowSettings
from reconciler_mirror.board.board import Board
from reconciler_mirror.leases.channel import ROWS, SPECS, Message
from reconciler_mirror.model.lane import Claim, LaneKey, LaneSpec, lane_spec

_WORTH_MOVING = 0.25  # of the mean load of a lease
_LEAST = 1e-6  # least load that is worth a move; the load of an idle lane decays towards 0


@dataclass(frozen=True, slots=True)
class LaneMove:
    """The move of a lane from one slot to another."""

    lane: LaneKey
    origin: int
    destination: int


def pack(loads: Mapping[LaneKey, float], leases: int) -> Mapping[LaneKey, int]:
    """Places lanes, the heaviest first, each on the lease with the least load (LPT rule). Deterministic."""
    totals, counts = [0.0] * leases, [0] * leases
    placed: dict[LaneKey, int] = {}
    for lane in sorted(loads, key=lambda key: (-loads[key], key)):
        lease = min(range(leases), key=lambda i: (totals[i], counts[i], i))
        placed[lane] = lease
        totals[lease] += loads[lane]
        counts[lease] += 1
    return placed


def taken_over(
    placed: Mapping[LaneKey, int], loads: Mapping[LaneKey, float], gone: Collection[int], leases: Collection[int]
) -> Mapping[LaneKey, int]:
    """New places for the lanes of the ``gone`` leases: the heaviest first, each on the lightest of ``leases``."""
    totals = _totals(placed, loads, leases)
    moved: dict[LaneKey, int] = {}
    for lane in sorted(
        (lane for lane, lease in placed.items() if lease in gone), key=lambda k: (-loads.get(k, 0.0), k)
    ):
        moved[lane] = min(totals, key=lambda lease: (totals[lease], lease))
        totals[moved[lane]] += loads.get(lane, 0.0)
    return moved


def _totals(placed: Mapping[LaneKey, int], loads: Mapping[LaneKey, float], leases: Collection[int]) -> dict[int, float]:
    totals = dict.fromkeys(sorted(leases), 0.0)
    for lane, lease in placed.items():
        if lease in totals:
            totals[lease] += loads.get(lane, 0.0)
    return totals


def best_move(
    placed: Mapping[LaneKey, int], loads: Mapping[LaneKey, float], leases: Collection[int]
) -> LaneMove | None:
    """The best move of one lane from the heaviest to the lightest of ``leases``; None if no move pays. ``leases`` must
    have tasks: on one without, a lane would only wait, and make it look light."""
    totals = _totals(placed, loads, leases)
    if len(totals) < 2 or not placed:
        return None
    heavy = max(totals, key=lambda i: (totals[i], -i))
    light = min(totals, key=lambda i: (totals[i], i))
    # A lane with a load of the gap or more would make the lightest lease the heaviest.
    gap = totals[heavy] - totals[light]
    candidates = [
        (abs(gap - 2 * loads.get(lane, 0.0)), lane)
        for lane, lease in placed.items()
        if lease == heavy and _LEAST < loads.get(lane, 0.0) < gap
    ]
    if not candidates:
        return None
    rest, lane = min(candidates)
    worth = gap - rest > _WORTH_MOVING * sum(totals.values()) / len(totals)
    return LaneMove(lane, heavy, light) if worth else None


class LanePlacement:
    """The lanes of each slot; a slot is the place of consecutive leases."""

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
        """Slots with lanes."""
        return frozenset(self._slots.values())

    def lanes_of(self, slot: int) -> tuple[LaneKey, ...]:
        return tuple(lane for lane, place in self._slots.items() if place == slot)

    def even_out(self, loads: Mapping[LaneKey, float], at_work: Collection[int]) -> LaneMove | None:
        """Moves one lane between slots with tasks, if that pays."""
        move = best_move(self._slots, loads, at_work)
        if move is not None:
            self._slots[move.lane] = move.destination
        return move

    def leave(self, slots: Collection[int], loads: Mapping[LaneKey, float], at_work: Collection[int]) -> frozenset[int]:
        """Gives the lanes of ``slots`` to slots with tasks; returns the receivers."""
        moved = taken_over(self._slots, loads, slots, at_work)
        # A lane that is moved on comes back to where it was first: the slot in between has lanes of its own.
        self._home = {lane: self._slots[lane] for lane in moved} | self._home
        self._slots |= moved
        self.vacated |= {*slots}
        return frozenset(moved.values())

    def come_back(self, slot: int) -> frozenset[int]:
        """Returns its former lanes to ``slot``; gives the slots that had them meanwhile."""
        back = [lane for lane, home in self._home.items() if home == slot]
        origins = frozenset(self._slots[lane] for lane in back)
        self._slots |= {lane: self._home.pop(lane) for lane in back}
        self.vacated.discard(slot)
        return origins - {slot}


class LaneOrders:
    """Partitions, pauses, rates and claims of lanes, and the set of prepared lanes."""

    def __init__(self, flows: Sequence[FlowSettings], board: Board) -> None:
        self._board = board
        self._lanes = {(flow.name, lane): lane_spec(flow, lane) for flow in flows for lane in range(flow.lanes)}
        self._claims: dict[str, Claim] = {}
        self._rates: Mapping[LaneKey, float] = board.rate_shares()
        self._prepared: set[LaneKey] = set()

    def __iter__(self) -> Iterator[LaneKey]:
        return iter(self._lanes)

    def claimed(self, flow: str, claim: Claim) -> Message:
        """The flow is taken over; returns the message to running tasks."""
        self._claims[flow] = claim
        for key, lane in self._lanes.items():
            if key[0] == flow:
                self._lanes[key] = replace(lane, claim=claim)
        return {"claims": [[flow, ROWS.encoded(claim)]]}

    def share_rates(self) -> bool:
        """Shares rate limits again; whether that changed any share."""
        fresh = self._board.rate_shares()
        if fresh == self._rates:
            return False
        self._rates = fresh
        return True

    def prepared(self, lane: LaneKey) -> None:
        """The lane is ready to copy."""
        self._prepared.add(lane)

    def unprepared(self, flow: str) -> tuple[LaneKey, ...]:
        """Lanes of the flow with partitions that are not ready to copy."""
        return tuple(
            key for key in self._lanes if key[0] == flow and key not in self._prepared and self._board.specs(key)
        )

    def specs(self, lanes: tuple[LaneKey, ...]) -> tuple[LaneSpec, ...]:
        """Lanes with their present partitions, pauses and rates, for a new task."""
        return tuple(
            replace(
                self._lanes[key],
                partitions=self._board.specs(key),
                paused=self._board.paused(key),
                rate=self._rates.get(key, 0.0),
            )
            for key in lanes
        )

    def claims(self) -> Message:
        return {"claims": [[flow, ROWS.encoded(claim)] for flow, claim in self._claims.items()]}

    def partitions(self, lanes: tuple[LaneKey, ...]) -> Message:
        return {
            "lanes": [[*key, ROWS.encoded(self._board.specs(key), SPECS)] for key in lanes],
            "paused": [[*key, sorted(self._board.paused(key))] for key in lanes],
            **self.rates(lanes),
        }

    def rates(self, lanes: tuple[LaneKey, ...]) -> Message:
        return {"rates": [[*key, self._rates[key]] for key in lanes if key in self._rates]}
