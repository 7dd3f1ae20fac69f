"""Where a run of a rollout ends: after a named wave, halted, or at its end, and the exit code of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.errors import ReconcilerError
from reconciler.exit_codes import ExitCode
from reconciler.narrowing import Narrowed
from reconciler.places import suggestion
from reconciler.plans import Outcome, Plan, Result
from reconciler.rollout.assigning import until_wave


@dataclass(frozen=True, slots=True)
class Ended:
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


def code_of(code: ExitCode, ended: Ended) -> ExitCode:
    """``code``: what the outcomes alone come to. 5 when the rollout stands still with something done, by this run or an
    earlier one; 2 when all that was to be done by now is done, and later waves are left."""
    if ended.halted:
        failed = any(one.result is Result.FAILED for one in ended.outcomes)
        return code if code is ExitCode.ERROR and failed else ExitCode.PARTIAL
    course = ended.plan.rollout
    if not ended.until or course is None or ended.plan.unknown or ended.plan.refused:
        return code
    last = course.index(ended.until)
    later = {one.id for one in ended.plan.changes if course.index(one.wave) > last}
    now_done = all(one.result is Result.DONE for one in ended.outcomes if one.id not in later)
    return ExitCode.CHANGES if later and now_done else code
