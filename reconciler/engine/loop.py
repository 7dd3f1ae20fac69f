"""The reconcile loop of ``run``: observe, plan, apply what the autonomy level allows, report, wait.

A contested value is one that another tool resets each time: correcting it would never end, so the loop leaves it alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol, TypeAlias

from reconciler.engine.plan.select import Held, Narrowed, known_part, within, without
from reconciler.errors import LockHeld, ReconcilerError
from reconciler.model.changes import AlterConfigs
from reconciler.model.options import Autonomy
from reconciler.model.plan import Outcome, Plan, Planned, Result
from reconciler.text import one_line

SETTLE_SECONDS = 1.0
"""Seconds between two reads of the folder, which must agree: an edit of several files takes a moment."""
LIMIT = 3
WINDOW_SECONDS = 3_600.0

Field: TypeAlias = str
"""A field with its desired value: ``configs:west/east.orders retention.ms = 60000``."""


class LoopEnvironment(Protocol):
    """One environment with its clusters. Raises ReconcilerError; LockHeld once the lock is no longer ours."""

    def changed(self) -> bool:
        """Whether the folder's declarations have changed. Raises TopologyError if they cannot be read."""
        ...

    def take_over(self) -> bool:
        """Adopts the declarations that ``changed`` read. False: the folder has changed since."""
        ...

    def plan(self) -> Plan: ...

    def carry_out(self, plan: Plan) -> Sequence[Outcome]:
        """Carries out a plan. After a request to stop, finishes the present step and skips the rest."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970."""
        ...

    def wait(self, seconds: float) -> bool:
        """Waits; True, perhaps early, after a request to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """The observations and results of one turn of the loop."""

    number: int
    """Counts from 1 since the process began."""
    began: float
    """Seconds since 1970."""
    seconds: float
    """How long the turn took."""
    plan: Plan | None = None
    """None if the turn could not plan."""
    outcomes: tuple[Outcome, ...] = ()
    """Of the changes that this turn carried out."""
    held: tuple[Held, ...] = ()
    """Changes that this turn left out, each with the reason: unknown parts, the autonomy level, contested fields."""
    contested: frozenset[str] = frozenset()
    """Fields that someone else keeps changing back; they are not corrected any more."""
    taken_over: bool = False
    """This turn took over new declarations of the folder."""
    kept: str = ""
    """Why the last good topology stays in use."""
    error: str = ""
    """Why the turn could not plan or apply."""

    @property
    def quiet(self) -> bool:
        """Whether the round has nothing for a person to check."""
        planned = self.plan is not None and not (self.plan.changes or self.plan.unknown or self.plan.refused)
        return planned and not (self.outcomes or self.kept or self.error or self.taken_over)


@dataclass(frozen=True, slots=True)
class Corrections:
    """``done``: field -> times of corrections, newest last. The desired value is part of the field, so an edit in git
    starts afresh. ``limit`` corrections within ``window`` seconds make a field contested."""

    limit: int = LIMIT
    window: float = WINDOW_SECONDS
    done: Mapping[Field, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    contested: frozenset[Field] = frozenset()


@dataclass(frozen=True, slots=True)
class LoopPace:
    interval: float = 60.0
    autonomy: Autonomy = Autonomy.NONE
    history: Corrections = field(default_factory=Corrections)


def run(environment: LoopEnvironment, clock: Clock, pace: LoopPace, report: Callable[[Round], None]) -> int:
    """Runs rounds until a request to stop; returns their number. A failed round is reported, and the next one retries.

    Raises LockHeld once another run has taken the lock.
    """
    history, number = pace.history, 0
    while True:
        number += 1
        began = clock.now()
        this_round, history = turn(environment, clock, replace(pace, history=history))
        seconds = max(0.0, clock.now() - began)
        report(replace(this_round, number=number, began=began, seconds=seconds))
        if clock.wait(max(0.0, pace.interval - seconds)):
            return number


def turn(environment: LoopEnvironment, clock: Clock, pace: LoopPace) -> tuple[Round, Corrections]:
    """One round, and the corrections after it."""
    blank = Round(0, 0.0, 0.0, contested=pace.history.contested)
    blank = _refreshed(blank, environment, clock)
    try:
        plan = environment.plan()
        history = looked(pace.history, plan, clock.now())
        blank = replace(blank, plan=plan, contested=history.contested)

        # Narrows the plan to known changes, then to those that the autonomy level allows, then to uncontested ones.
        known = known_part(plan)
        allowed = within(known.plan, pace.autonomy)
        agreed = uncontested(allowed.plan, history)
        held = (*known.held, *allowed.held, *agreed.held)
        outcomes = tuple(environment.carry_out(agreed.plan)) if agreed.plan.changes else ()
    except LockHeld:
        raise
    except ReconcilerError as error:
        return replace(blank, error=str(error)), pace.history
    return replace(blank, outcomes=outcomes, held=held), corrected(history, agreed.plan, outcomes, clock.now())


def _refreshed(blank: Round, environment: LoopEnvironment, clock: Clock) -> Round:
    """Adopts new declarations of the folder, or reports why the last good topology stays in use."""
    try:
        if not environment.changed():
            return blank
        if clock.wait(SETTLE_SECONDS):
            return replace(blank, kept="asked to stop while the folder was being read")
        if environment.take_over():
            return replace(blank, taken_over=True)
    except ReconcilerError as error:
        return replace(blank, kept=f"the folder cannot be used, the last good topology is used: {one_line(error)}")
    return replace(blank, kept="the folder is being edited, the last good topology is used until edits stop")


def looked(history: Corrections, plan: Plan, now: float) -> Corrections:
    """Corrections after an observation: fields with their desired value are no longer contested; old corrections
    expire.

    A field becomes contested when it differs again after ``limit`` corrections within ``window`` seconds.
    """
    differing = {name for planned in plan.changes for name in planned.change.values}
    recent = {name: tuple(at for at in times if now - at <= history.window) for name, times in history.done.items()}
    again = {name for name in differing if len(recent.get(name, ())) >= history.limit}
    return replace(
        history,
        done=MappingProxyType({name: times for name, times in recent.items() if times}),
        contested=(history.contested & differing) | again,
    )


def uncontested(plan: Plan, history: Corrections) -> Narrowed:
    """The plan without contested fields; other configs of the same topic stay in it."""
    kept: list[Planned] = []
    held: list[Held] = []
    reasons: dict[str, str] = {}
    for planned in plan.changes:
        disputed = [name for name in planned.change.values if name in history.contested]
        change = planned.change
        if disputed and isinstance(change, AlterConfigs) and len(disputed) < len(change.configs):
            other_configs = tuple(
                config for config in change.configs if f"{planned.id} {config.key} = {config.after}" not in disputed
            )
            planned = replace(planned, change=replace(change, configs=other_configs))
            held.append(Held(planned.id, quarrel(history, disputed)))
        elif disputed:
            reasons[planned.id] = quarrel(history, disputed)
        kept.append(planned)
    narrowed = without(replace(plan, changes=tuple(kept)), reasons)
    return replace(narrowed, held=(*held, *narrowed.held))


def quarrel(history: Corrections, disputed: Iterable[Field]) -> str:
    return (
        f"{', '.join(disputed)}: corrected {history.limit} times within {history.window / 60:.0f} min and set back"
        " each time: someone else sets it to another value. It is left alone until it has the declared value, or git"
        " declares another one"
    )


def corrected(history: Corrections, plan: Plan, outcomes: Iterable[Outcome], now: float) -> Corrections:
    """Corrections with the outcomes of ``plan``. Changes that a probe reverted count, too: making and reverting them
    every round would never end either."""
    acted = (Result.DONE, Result.UNDONE, Result.UNPROVEN)
    succeeded = {outcome.id for outcome in outcomes if outcome.result in acted}
    done = dict(history.done)
    for planned in plan.changes:
        if planned.id in succeeded:
            for name in planned.change.values:
                done[name] = (*done.get(name, ()), now)
    return replace(history, done=MappingProxyType(done))
