"""Limits of an apply, the callbacks that receive its progress, and its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reconciler.errors import BlockedError, ExitCode, ReconcilerError
from reconciler.model.options import PROBE_PATIENCE_S
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.ports import Prober
from reconciler.model.reports.probe import Probe
from reconciler.resources.acls.probe.rights import RulesAlone
from reconciler.text import first_of, grouped

_NAMED = 20

Gate = Callable[[], str]
"""Called before each step; returns why it may not begin, or empty."""


def open_gate() -> str:
    return ""


class WavePromotion(Protocol):
    """Controls the transitions between waves of a rollout. A plan without a rollout is one wave without a name."""

    def begin(self, wave: str) -> str:
        """Returns why the wave may not begin, or empty. May block for hours."""
        ...

    def ended(self, wave: str, outcomes: Sequence[Outcome]) -> None:
        """Called after the wave's changes, with the outcomes so far."""
        ...

    def conclude(self) -> None:
        """Called after the last wave. May block for hours."""
        ...

    def interrupted(self, by: str = "") -> None:
        """``by``: the signal that ended the run, if one did."""
        ...


class NoRollout:
    """A ``WavePromotion`` that never waits."""

    def begin(self, wave: str) -> str:  # noqa: ARG002 - as the protocol has it
        return ""

    def ended(self, wave: str, outcomes: Sequence[Outcome]) -> None:
        """Nothing follows from it."""

    def conclude(self) -> None:
        """There is nothing to wait for."""

    def interrupted(self, by: str = "") -> None:
        """Nothing is left open."""


@dataclass(frozen=True, slots=True)
class ApplyLimits:
    """Limits of a run. ``held``: returns why nothing more may be written, not even to undo a change, or empty: another
    run may hold the lock by now.

    ``prober`` and ``patience`` (seconds) are for the probe after each wave of access changes.
    ``promotion``: controls the transitions between waves.
    """

    gate: Gate = open_gate
    held: Gate = open_gate
    prober: Prober = field(default_factory=RulesAlone)
    patience: float = PROBE_PATIENCE_S
    promotion: WavePromotion = field(default_factory=NoRollout)


class Progress(Protocol):
    """Receives the progress of a run."""

    def outcome(self, outcome: Outcome) -> None: ...

    def note(self, change_id: str, text: str) -> None: ...

    def moving(self, change_id: str, text: str) -> None:
        """Progress of one change: called often, each text replaces the last one."""
        ...

    def probed(self, probe: Probe) -> None: ...


class Silent:
    """A ``Progress`` that shows nothing."""

    def outcome(self, outcome: Outcome) -> None:
        """Says nothing."""

    def note(self, change_id: str, text: str) -> None:
        """Says nothing."""

    def moving(self, change_id: str, text: str) -> None:
        """Says nothing."""

    def probed(self, probe: Probe) -> None:
        """Says nothing."""


def refuse_if_blocked(plan: Plan) -> None:
    """Raises BlockedError (exit 3) for refusals, ReconcilerError (exit 1) when something could not be read."""
    if plan.unknown:
        causes = grouped((unknown.what, unknown) for unknown in plan.unknown)
        lines = []
        for some in causes.values():
            subjects = list(dict.fromkeys(each.subject for each in some))
            lines.append(f"  {first_of(subjects, _NAMED)}: {some[0].error}")
        raise ReconcilerError(
            "nothing was applied, because something could not be read",
            _first(lines),
            "Fix it and run plan again, or apply what does not depend on it with --partial.",
        )
    if plan.refused:
        lines = [f"  {refusal.reason.text}\n    {refusal.todo}".rstrip() for refusal in plan.refused]
        todo = "Resolve them and plan again, or apply the rest with --partial."
        raise BlockedError("nothing was applied, because the plan has refusals", _first(lines), todo)


def _first(lines: Sequence[str]) -> str:
    """The first lines, with a count of the rest: there may be thousands, and the plan lists all of them."""
    more = [f"  and {len(lines) - _NAMED} more"] if len(lines) > _NAMED else []
    return "\n".join([*lines[:_NAMED], *more])


def exit_code(outcomes: Sequence[Outcome], plan: Plan | None = None) -> ExitCode:
    """0: everything done, 5: a part, 1: nothing. With ``plan``, its unknown and refused subjects count as not done.

    A change that was undone or not confirmed has begun, so it gives 5.
    """
    done = sum(outcome.result is Result.DONE for outcome in outcomes)
    begun = sum(outcome.result not in (Result.FAILED, Result.SKIPPED) for outcome in outcomes)
    left_out = plan is not None and bool(plan.unknown or plan.refused)
    if done == len(outcomes) and not left_out:
        return ExitCode.DONE
    if begun:
        return ExitCode.PARTIAL
    return plan.exit_code if plan is not None and left_out else ExitCode.ERROR
