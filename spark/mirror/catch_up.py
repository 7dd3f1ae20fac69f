"""The mode in which the job ends by itself: once everything the source had is copied, or once it cannot be.

The goal is a file ``goal.json`` of the run directory, not a part of the hand-over: it changes no fingerprint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException

from mirror import clients, starts
from mirror.board import Board
from mirror.lanes import Condition
from mirror.settings import FlowSettings, Settings
from mirror.views import FlowView, PartitionView

GRACE_S = 20.0
"""A condition that stops a partition for longer ends the mode; one that waits for a cluster has PATIENCE_S."""
PATIENCE_S = 90.0
_WAITING = ("unavailable", "unreachable", "unreadable")
Ends = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Goal:
    """``flows`` empty: all. ``calm_s`` above 0: until nothing is behind for so long, instead of up to fixed ends."""

    flows: frozenset[str] = frozenset()
    calm_s: float = 0.0


def goal_of(run_dir: Path) -> Goal | None:
    try:
        found = json.loads((run_dir / "goal.json").read_text(encoding="utf-8"))
        return Goal(frozenset(map(str, found["flows"])), float(found["calm_s"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class Verdict:
    reached: bool
    detail: str


@dataclass(slots=True)
class CatchUp:
    """``look`` is asked again and again; None: go on."""

    goal: Goal
    settings: Settings
    board: Board
    _calm_since: float | None = None
    _ends: dict[str, Ends] = field(default_factory=dict)

    def look(self) -> Verdict | None:
        flows = [view for view in self.board.view() if self._wanted(view.settings)]
        for view in flows:
            if (why := self._hopeless(view)) is not None:
                return Verdict(False, f"flow {view.settings.name} cannot be caught up with: {why}")
        if not all(view.running and self._begun(view) for view in flows):
            return None
        reached = self._calm(flows) if self.goal.calm_s else all(self._reached(view) for view in flows)
        if not reached:
            return None
        counts = ", ".join(f"{view.settings.name} {view.records_total:,} records" for view in flows)
        return Verdict(True, f"caught up and stopped by itself: {counts}")

    def _wanted(self, flow: FlowSettings) -> bool:
        return not self.goal.flows or flow.name in self.goal.flows

    def _begun(self, view: FlowView) -> bool:
        """Asks once where the source ends, for all partitions of the flow. False: its source does not answer yet, or
        topics of it cannot be copied: the ends without theirs would pass for all there is."""
        flow = view.settings
        if self._without_lane(flow.name):
            return False
        if flow.name not in self._ends:
            specs = self.board.discovered_now(flow.name).specs
            try:
                found = starts.resolve(clients.admin(flow.source), specs, "latest", None, flow.isolation)
            except KafkaException:
                return False
            self._ends[flow.name] = {(spec.topic, spec.partition): end for spec, end in found.items()}
            self.board.set_goal(flow.name, self._ends[flow.name])
        return True

    def _without_lane(self, flow: str) -> list[Condition]:
        """Why topics that the flow mirrors have no lane: they are in no lag and in no list of partitions."""
        return [told for told in self.board.discovered_now(flow).conditions if told.stops]

    def _reached(self, view: FlowView) -> bool:
        goal = self.board.goal_view(view.settings.name)
        return goal is not None and goal.partitions == goal.done

    def _calm(self, flows: Iterable[FlowView]) -> bool:
        if any(view.records_lag != 0 for view in flows):
            self._calm_since = None
            return False
        self._calm_since = self._calm_since or time.monotonic()
        return time.monotonic() - self._calm_since >= self.goal.calm_s

    def _hopeless(self, view: FlowView) -> str | None:
        now = time.time() * 1000
        left, laneless = self._left(view), self._without_lane(view.settings.name)
        for pause in view.pauses:
            if any(pause.scope.covers(one.topic, one.partition) for one in left):
                return f"{pause.scope} is paused. Resume it with reconciler mirror resume, then start again"
        for condition, since_ms in view.conditions:
            waits = condition.code.endswith(_WAITING)
            held = (now - since_ms) / 1000 > (PATIENCE_S if waits else GRACE_S)
            concerns = condition.topic is None or any(
                one.topic == condition.topic and condition.partition in (None, one.partition) for one in left
            )
            missing = condition in laneless or condition.code.startswith(("target_topic", "start_"))
            if held and (condition.stops or waits) and (concerns or missing):
                return f"{condition.code}: {condition.text}. {condition.todo}"
        return None

    def _left(self, view: FlowView) -> list[PartitionView]:
        ends = self._ends.get(view.settings.name, {})
        done = self.board.done(view.settings.name)
        return [p for p in view.partitions if (p.topic, p.partition) in ends.keys() - done or not ends]
