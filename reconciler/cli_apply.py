"""The command that changes clusters, and what every changing command opens first."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from reconciler import applying, planfile
from reconciler.applied import Consent
from reconciler.counts import counted
from reconciler.errors import BlockedError, Moved, ReconcilerError, StalePlan
from reconciler.executing import Execution, execution, interrupted_by_sigterm
from reconciler.exit_codes import ExitCode
from reconciler.guarding import is_prune
from reconciler.guarding.pruning import PRUNE
from reconciler.narrowing import Narrowed, known_part, retention_steps_only, with_held
from reconciler.plans import Outcome, Plan
from reconciler.probes import Probe
from reconciler.probing import PATIENCE_SECONDS
from reconciler.rendering.outcomes import Rolled
from reconciler.rendering.review import outcomes_in
from reconciler.rendering.style import Format as Page
from reconciler.rendering.text import plan_text
from reconciler.reviewed import uncovered
from reconciler.rollout.ending import Ended, code_of, ending, require_wave
from reconciler.terminal import Env, PageOption, PruneOption, StealOption, say, seconds, show, show_last, style
from reconciler.topology import Principal
from reconciler.wiring import NOTHING_AGREED, Session, open_session


def apply(
    env: Env,
    saved: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="apply this saved plan and nothing else")
    ] = None,
    reviewed: Annotated[
        Path | None,
        typer.Option("--reviewed", metavar="FILE", help="a fresh plan, if each of its changes is in this saved one"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    form: PageOption = Page.TEXT,
    part: Annotated[bool, typer.Option("--partial", help="apply what rests on nothing unknown or refused")] = False,
    prune: PruneOption = False,
    contact: Annotated[
        bool, typer.Option("--first-contact", help="change clusters this environment never changed before")
    ] = False,
    shrink: Annotated[
        bool, typer.Option("--allow-shrink", help="agree that much of what was declared is gone")
    ] = False,
    steal: StealOption = "",
    until: Annotated[
        str, typer.Option("--until-wave", metavar="NAME", help="end after this wave of the rollout and its soak")
    ] = "",
    ignore: Annotated[
        str, typer.Option("--ignore-gates", metavar="REASON", help="waves in order, but without gates and soaks")
    ] = "",
    probe: Annotated[
        str,
        typer.Option("--probe-timeout", metavar="DURATION", help="for brokers to show access changes"),
    ] = f"{PATIENCE_SECONDS:.0f}s",
) -> None:
    """Carry out a fresh plan, or a saved one; a stale one is refused with what moved."""
    consent, patience = Consent(contact, shrink, prune), seconds("--probe-timeout", probe)
    with changing(env, "apply", steal, consent) as execute:
        session = execute.session
        made = session.plan(consent=consent) if saved is None else _saved(session, saved, part, consent)
        if reviewed is not None:
            _require_reviewed(made, reviewed)
        require_wave(made, until)
        if form is Page.TEXT:
            show(plan_text(made, style(), ignore))
        if not part:
            applying.refuse_if_blocked(made)
        chosen = ending(known_part(made) if part else Narrowed(made), until)
        if chosen.plan.changes and not yes:
            _confirm(session, chosen.plan)
        execute.probe_patience = patience
        execute.ignore_gates(ignore)
        said = _Said(chosen.plan)
        outcomes = with_held(made, chosen.held, execute.carry_out(chosen.plan, said))
        code = code_of(applying.exit_code(outcomes, made), Ended(made, outcomes, until, execute.halted))
        if execute.unrecorded:
            say(execute.unrecorded)
            code = ExitCode.PARTIAL if code is ExitCode.DONE and made.changes else code
        if code is ExitCode.DONE and made.changes:
            _verify(session)
    if execute.unremembered:
        say(f"the record of this apply could not be written: {execute.unremembered}")
    rolled = Rolled(code, execute.halted, ignore) if made.rollout else None
    show_last(outcomes_in(made, outcomes, form, style(), said.probes, rolled))
    execute.require_kept()
    raise typer.Exit(code)


@contextmanager
def changing(env: Path, command: str, steal: str, consent: Consent = NOTHING_AGREED) -> Iterator[Execution]:
    with (
        interrupted_by_sigterm(),
        open_session(env, Principal.APPLY) as session,
        execution(session, command, steal, consent) as execute,
    ):
        yield execute


def _require_reviewed(made: Plan, path: Path) -> None:
    if unseen := uncovered(made, _read_plan(path)):
        raise StalePlan(unseen, "a fresh plan holds what the reviewed plan does not; nothing was applied")
    say("checked: every change of the fresh plan is in the reviewed one")


def _read_plan(path: Path) -> Plan:
    try:
        return planfile.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ReconcilerError(
            f"the saved plan {path} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}",
            "Nothing was applied.",
            "Make it with: reconciler plan ENV --out FILE.",
        ) from None


def _saved(session: Session, path: Path, part: bool, consent: Consent) -> Plan:
    made = session.guard(_read_plan(path), consent)
    if not part:
        applying.refuse_if_blocked(made)
    if moved := session.moved(made):
        raise StalePlan(moved)
    if is_prune(made):
        _require_still_left_over(session, made, consent)
    return made


def _require_still_left_over(session: Session, saved: Plan, consent: Consent) -> None:
    """What made a topic left over is what is not there, and only a fresh look at everything can see that."""
    if not consent.prune:
        raise BlockedError(
            "nothing was applied, because the saved plan deletes by prune",
            "\n".join(f"  {one.id}" for one in saved.changes if one.change.reason.code == PRUNE),
            "Agree with --prune, or make a plan without it.",
        )
    fresh = {planned.id: planned.change for planned in session.plan(consent=consent, alone=True).changes}
    gone = [one for one in saved.changes if one.change.reason.code == PRUNE and fresh.get(one.id) != one.change]
    if gone:
        raise StalePlan(tuple(Moved(one.id, "left over", "no longer, or another topic") for one in gone))


def _confirm(session: Session, made: Plan) -> None:
    if not sys.stdin.isatty():
        raise ReconcilerError(
            "nothing was applied: nobody can be asked, standard input is not a terminal",
            "A plan is only carried out when someone agrees to it.",
            "Pass --yes, or save the plan with plan --out FILE and review it before apply --plan FILE --yes.",
        )
    if not typer.confirm(f"Apply {counted(len(made.changes), 'change')}?", err=True):
        raise ReconcilerError("nothing was applied, as you wished")
    if moved := session.moved(made):
        raise StalePlan(moved, "the clusters moved while you were asked")


def _verify(session: Session) -> None:
    """The acceptance test of every apply: the next plan is empty."""
    left = session.plan(alone=True)
    if stepped := retention_steps_only(left):
        say(f"checked: only the next steps of retention are left, for {counted(stepped, 'topic')}")
    elif left.changes or left.unknown or left.refused:
        say("after the apply, a new plan is not empty:")
        say(plan_text(left))
    else:
        say("checked: a new plan is empty")


class _Said:
    """Progress of an apply, to people."""

    def __init__(self, made: Plan) -> None:
        self.total = len(made.changes)
        self.done = 0
        self.began = time.monotonic()
        self.probes: list[Probe] = []

    def outcome(self, outcome: Outcome) -> None:
        self.done += 1
        say(f"[{self.done}/{self.total}] {outcome.result.value:7} {outcome.id}")

    def probed(self, probe: Probe) -> None:
        self.probes.append(probe)
        say(f"        access {probe.cluster}: probe of stage {probe.stage} {probe.verdict} ({probe.seconds:.1f} s)")

    def note(self, change_id: str, text: str) -> None:
        say(f"        {change_id}: {text} ({time.monotonic() - self.began:.0f} s)")
