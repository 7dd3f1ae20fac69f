"""The command that changes clusters, and what every changing command opens first."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from reconciler import applying, planfile, rendering
from reconciler.errors import ReconcilerError, StalePlan
from reconciler.executing import Execution, execution, interrupted_by_sigterm
from reconciler.narrowing import Narrowed, known_part, with_held
from reconciler.plans import ExitCode, Outcome, Plan
from reconciler.rendering.review import outcomes_in
from reconciler.rendering.style import Format as Page
from reconciler.reviewed import uncovered
from reconciler.terminal import Env, PageOption, StealOption, say, show, style
from reconciler.topology import Principal
from reconciler.wiring import Session, open_session


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
    steal: StealOption = "",
) -> None:
    """Carry out a fresh plan, or a saved one; a stale one is refused with what moved."""
    with changing(env, "apply", steal) as execute:
        session = execute.session
        made = session.plan() if saved is None else _saved(session, saved, part)
        if reviewed is not None:
            _require_reviewed(made, reviewed)
        if form is Page.TEXT:
            show(rendering.plan_text(made, style()))
        if not part:
            applying.refuse_if_blocked(made)
        chosen = known_part(made) if part else Narrowed(made)
        if chosen.plan.changes and not yes:
            _confirm(session, chosen.plan)
        outcomes = with_held(made, chosen.held, execute.carry_out(chosen.plan, _Said(chosen.plan)))
        code = applying.exit_code(outcomes, made)
        if code is ExitCode.DONE and made.changes:
            _verify(session)
    show(outcomes_in(made, outcomes, form, style()))
    execute.require_kept()
    raise typer.Exit(code)


@contextmanager
def changing(env: Path, command: str, steal: str) -> Iterator[Execution]:
    with (
        interrupted_by_sigterm(),
        open_session(env, Principal.APPLY) as session,
        execution(session, command, steal) as execute,
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


def _saved(session: Session, path: Path, part: bool) -> Plan:
    made = _read_plan(path)
    if not part:
        applying.refuse_if_blocked(made)
    if moved := session.moved(made):
        raise StalePlan(moved)
    return made


def _confirm(session: Session, made: Plan) -> None:
    if not sys.stdin.isatty():
        raise ReconcilerError(
            "nothing was applied: nobody can be asked, standard input is not a terminal",
            "A plan is only carried out when someone agrees to it.",
            "Pass --yes, or save the plan with plan --out FILE and review it before apply --plan FILE --yes.",
        )
    if not typer.confirm(f"Apply these {len(made.changes)} changes?", err=True):
        raise ReconcilerError("nothing was applied, as you wished")
    if moved := session.moved(made):
        raise StalePlan(moved, "the clusters moved while you were asked")


def _verify(session: Session) -> None:
    """The acceptance test of every apply: the next plan is empty."""
    left = session.plan()
    if left.changes or left.unknown or left.refused:
        say("after the apply, a new plan is not empty:")
        say(rendering.plan_text(left))
    else:
        say("checked: a new plan is empty")


class _Said:
    """Progress of an apply, to people."""

    def __init__(self, made: Plan) -> None:
        self.total = len(made.changes)
        self.done = 0
        self.began = time.monotonic()

    def outcome(self, outcome: Outcome) -> None:
        self.done += 1
        say(f"[{self.done}/{self.total}] {outcome.result.value:7} {outcome.id}")

    def note(self, change_id: str, text: str) -> None:
        say(f"        {change_id}: {text} ({time.monotonic() - self.began:.0f} s)")
