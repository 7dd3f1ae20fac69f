"""The reconcile loop of ``run``: observe, plan, apply what the autonomy level allows, report, wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from reconciler.engine.drift.contested import Corrections, corrected, looked, uncontested
from reconciler.engine.plan.select import Held, Narrowed, known_part, within
from reconciler.errors import LockHeld, ReconcilerError
from reconciler.model.options import Autonomy
from reconciler.model.plan import Outcome, Plan

SETTLE_SECONDS = 1.0
"""An edit of several files is under way for a moment; only what reads the same twice is taken over."""


class LoopEnvironment(Protocol):
    """One environment with its clusters. Raises ReconcilerError; LockHeld when the lock is no longer ours."""

    def changed(self) -> bool:
        """Whether the folder now declares something else. Raises TopologyError when it cannot be read."""
        ...

    def take_over(self) -> bool:
        """Takes what the last ``changed`` read, when the folder still reads the same. False: it does not."""
        ...

    def plan(self) -> Plan: ...

    def carry_out(self, plan: Plan) -> Sequence[Outcome]:
        """Ends early, with the rest skipped, when a stop is asked for: the step under way is finished first."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def wait(self, seconds: float) -> bool:
        """True when a stop is asked for, perhaps before ``seconds`` are over."""
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """What one turn of the loop saw and did.

    ``kept``: why the last good topology still counts. ``error``: why nothing could be planned or done.
    """

    number: int
    began: float
    seconds: float
    plan: Plan | None = None
    outcomes: tuple[Outcome, ...] = ()
    held: tuple[Held, ...] = ()
    contested: frozenset[str] = frozenset()
    taken_over: bool = False
    kept: str = ""
    error: str = ""

    @property
    def quiet(self) -> bool:
        """Nothing happened that a person should look at."""
        planned = self.plan is not None and not (self.plan.changes or self.plan.unknown or self.plan.refused)
        return planned and not (self.outcomes or self.kept or self.error or self.taken_over)


@dataclass(frozen=True, slots=True)
class LoopPace:
    interval: float = 60.0
    autonomy: Autonomy = Autonomy.NONE
    history: Corrections = field(default_factory=Corrections)


def run(environment: LoopEnvironment, clock: Clock, pace: LoopPace, tell: Callable[[Round], None]) -> int:
    """Turns until a stop is asked for; the number of rounds. A round that fails is told, and the next one tries again.

    Raises LockHeld when another run took the lock over.
    """
    history, number = pace.history, 0
    while True:
        number += 1
        began = clock.now()
        this_round, history = turn(environment, clock, replace(pace, history=history))
        seconds = max(0.0, clock.now() - began)
        tell(replace(this_round, number=number, began=began, seconds=seconds))
        if clock.wait(max(0.0, pace.interval - seconds)):
            return number


def turn(environment: LoopEnvironment, clock: Clock, pace: LoopPace) -> tuple[Round, Corrections]:
    """One round, and what is known of corrections after it."""
    blank = Round(0, 0.0, 0.0, contested=pace.history.contested)
    blank = _refreshed(blank, environment, clock)
    try:
        plan = environment.plan()
        history = looked(pace.history, plan, clock.now())
        blank = replace(blank, plan=plan, contested=history.contested)
        allowed = _allowed(plan, pace.autonomy, history)
        outcomes = tuple(environment.carry_out(allowed.plan)) if allowed.plan.changes else ()
    except LockHeld:
        raise
    except ReconcilerError as error:
        return replace(blank, error=str(error)), pace.history
    return (
        replace(blank, outcomes=outcomes, held=allowed.held),
        corrected(history, allowed.plan, outcomes, clock.now()),
    )


def _refreshed(blank: Round, environment: LoopEnvironment, clock: Clock) -> Round:
    """Takes over what the folder declares now, or says why the last good topology is kept."""
    try:
        if not environment.changed():
            return blank
        if clock.wait(SETTLE_SECONDS):
            return replace(blank, kept="asked to stop while the folder was being read")
        if environment.take_over():
            return replace(blank, taken_over=True)
    except ReconcilerError as error:
        return replace(blank, kept=f"the folder cannot be used, the last good topology is used: {error}")
    return replace(blank, kept="the folder is being edited, the last good topology is used until edits stop")


def _allowed(plan: Plan, autonomy: Autonomy, history: Corrections) -> Narrowed:
    known = known_part(plan)
    allowed = within(known.plan, autonomy)
    agreed = uncontested(allowed.plan, history)
    return Narrowed(agreed.plan, (*known.held, *allowed.held, *agreed.held))
