"""What tasks are told of their lanes: partitions, pauses, rates, claims; and which lanes are prepared.

``Leases`` guards claims and prepared lanes. What is read of the board needs no guard, and is encoded without one: it is
much where there are many partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.replication.handover import FlowSettings
from reconciler_mirror.board.board import Board
from reconciler_mirror.leases.channel import ROWS, SPECS, Message
from reconciler_mirror.model.lane import Claim, LaneKey, LaneSpec, lane_spec


class LaneOrders:
    def __init__(self, flows: Sequence[FlowSettings], board: Board) -> None:
        self._board = board
        self._lanes = {(flow.name, lane): lane_spec(flow, lane) for flow in flows for lane in range(flow.lanes)}
        self._claims: dict[str, Claim] = {}
        self._rates: Mapping[LaneKey, float] = board.rate_shares()
        self._prepared: set[LaneKey] = set()

    def __iter__(self) -> Iterator[LaneKey]:
        return iter(self._lanes)

    def claimed(self, flow: str, claim: Claim) -> Message:
        """The flow is taken over; returns what running tasks are told."""
        self._claims[flow] = claim
        for key, lane in self._lanes.items():
            if key[0] == flow:
                self._lanes[key] = replace(lane, claim=claim)
        return {"claims": [[flow, ROWS.encoded(claim)]]}

    def share_rates(self) -> bool:
        """Deals limits out anew; whether that changed anything."""
        fresh = self._board.rate_shares()
        if fresh == self._rates:
            return False
        self._rates = fresh
        return True

    def prepared(self, lane: LaneKey) -> None:
        """It could copy at once."""
        self._prepared.add(lane)

    def unprepared(self, flow: str) -> tuple[LaneKey, ...]:
        """Lanes of the flow that have partitions and could not copy at once."""
        return tuple(
            key for key in self._lanes if key[0] == flow and key not in self._prepared and self._board.specs(key)
        )

    def specs(self, lanes: tuple[LaneKey, ...]) -> tuple[LaneSpec, ...]:
        """As a task gets them when Spark submits it."""
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
