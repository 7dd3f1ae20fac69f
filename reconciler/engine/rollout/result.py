"""The result of a rollout: done, stopped after a wave, or halted, with its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.engine.plan.select import Narrowed
from reconciler.engine.rollout.waves import until_wave
from reconciler.errors import ExitCode, ReconcilerError
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.text import suggestion


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """One run: ``outcomes`` of the whole ``plan``. ``until``: the wave it was to end after, or empty. ``halted``: why
    its rollout is not over, or empty."""

    plan: Plan
    outcomes: Sequence[Outcome]
    until: str
    halted: str


def require_wave(plan: Plan, name: str) -> None:
    """Raises ReconcilerError for a wave that the environment does not have."""
    if not name:
        return
    environment = plan.basis.environment
    if plan.rollout is None:
        raise ReconcilerError(
            f"--until-wave is {name}, and environment {environment} has no rollout",
            "Nothing was applied: without waves there is nothing to end after.",
            "Declare rollout in the topology, or leave --until-wave out.",
        )
    if name not in plan.rollout.names:
        raise ReconcilerError(
            f"--until-wave is {name}, and environment {environment} has no such wave",
            "Nothing was applied.",
            f"{suggestion(name, plan.rollout.names, 'Name one of its waves')}.",
        )


def ending(chosen: Narrowed, until: str) -> Narrowed:
    """``chosen`` without the waves after ``until``; empty: all of it."""
    if not until:
        return chosen
    cut = until_wave(chosen.plan, until)
    return Narrowed(cut.plan, (*chosen.held, *cut.held))


def code_of(code: ExitCode, ended: RolloutResult) -> ExitCode:
    """``code``: what the outcomes alone come to. 5 when the rollout stands still with something done, by this run or an
    earlier one; 2 when all that was to be done by now is done, and later waves are left."""
    if ended.halted:
        failed = any(outcome.result is Result.FAILED for outcome in ended.outcomes)
        return code if code is ExitCode.ERROR and failed else ExitCode.PARTIAL
    course = ended.plan.rollout
    if not ended.until or course is None or ended.plan.unknown or ended.plan.refused:
        return code
    last = course.index(ended.until)
    later = {planned.id for planned in ended.plan.changes if course.index(planned.wave) > last}
    now_done = all(outcome.result is Result.DONE for outcome in ended.outcomes if outcome.id not in later)
    return ExitCode.CHANGES if later and now_done else code
