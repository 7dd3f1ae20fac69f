"""``apply``: a fresh or a saved plan carried out, with whoever has to agree, and the look afterwards.

Border: no arguments; those are ``cli_apply``. What every changing command opens first is here too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler import applying, planfile
from reconciler.applied import Consent
from reconciler.choices import PROBE_PATIENCE_S
from reconciler.counts import counted
from reconciler.errors import BlockedError, Moved, ReconcilerError, StalePlan
from reconciler.executing import Execution, execution, interrupted_by_sigterm
from reconciler.exit_codes import ExitCode
from reconciler.guarding import is_prune
from reconciler.guarding.pruning import PRUNE
from reconciler.narrowing import Narrowed, known_part, retention_steps_only, with_held
from reconciler.plans import Outcome, Plan, Result
from reconciler.probes import Probe
from reconciler.rendering.outcomes import Rolled
from reconciler.rendering.review import outcomes_in
from reconciler.rendering.style import SHOWN
from reconciler.rendering.style import Format as Page
from reconciler.rendering.text import plan_text
from reconciler.reviewed import uncovered
from reconciler.rollout.ending import Ended, code_of, ending, require_wave
from reconciler.terminal import require_agreement, say, show, show_last, style
from reconciler.topology import Principal
from reconciler.wiring import NOTHING_AGREED, Session, open_session


@dataclass(frozen=True, slots=True)
class ApplyWish:
    """``saved``: apply this plan and nothing else. ``reviewed``: a fresh one that this one holds. ``part``: what rests
    on nothing unknown or refused. ``until``: end after this wave. ``ignore``: why gates and soaks are left out.
    ``patience_s``: how long brokers may take to show access changes."""

    consent: Consent
    saved: Path | None = None
    reviewed: Path | None = None
    yes: bool = False
    form: Page = Page.TEXT
    part: bool = False
    until: str = ""
    ignore: str = ""
    patience_s: float = PROBE_PATIENCE_S


def apply(env: Path, wish: ApplyWish, steal: str) -> ExitCode:
    """``steal``: why the lock is taken whoever holds it. Raises ReconcilerError for what ends it before it begins."""
    with changing(env, "apply", steal, wish.consent) as execute:
        session = execute.session
        made = session.plan(consent=wish.consent) if wish.saved is None else _saved(session, wish.saved, wish)
        if wish.reviewed is not None:
            _require_reviewed(made, wish.reviewed)
        require_wave(made, wish.until)
        if wish.form is Page.TEXT:
            show(plan_text(made, style(), wish.ignore))
        if not wish.part:
            applying.refuse_if_blocked(made)
        chosen = ending(known_part(made) if wish.part else Narrowed(made), wish.until)
        if chosen.plan.changes and not wish.yes:
            _confirm(session, chosen.plan)
        execute.probe_patience = wish.patience_s
        execute.ignore_gates(wish.ignore)
        said = _Said(chosen.plan)
        outcomes = with_held(made, chosen.held, execute.carry_out(chosen.plan, said))
        code = code_of(applying.exit_code(outcomes, made), Ended(made, outcomes, wish.until, execute.halted))
        if execute.unrecorded:
            say(execute.unrecorded)
            code = ExitCode.PARTIAL if code is ExitCode.DONE and made.changes else code
        if code is ExitCode.DONE and made.changes:
            _verify(session, made)
    if execute.unremembered:
        say(f"the record of this apply could not be written: {execute.unremembered}")
    rolled = Rolled(code, execute.halted, wish.ignore) if made.rollout else None
    show_last(outcomes_in(made, outcomes, wish.form, style(), said.probes, rolled))
    execute.require_kept()
    return code


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


def _saved(session: Session, path: Path, wish: ApplyWish) -> Plan:
    made = session.guard(_read_plan(path), wish.consent)
    if not wish.part:
        applying.refuse_if_blocked(made)
    if moved := session.moved(made):
        raise StalePlan(moved)
    if is_prune(made):
        _require_still_left_over(session, made, wish.consent)
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
    require_agreement(
        f"Apply {counted(len(made.changes), 'change')}?",
        "nothing was applied",
        "A plan is only carried out when someone agrees to it.",
        "Pass --yes, or save the plan with plan --out FILE and review it before apply --plan FILE --yes.",
    )
    if moved := session.moved(made):
        raise StalePlan(moved, "the clusters moved while you were asked")


def _verify(session: Session, made: Plan) -> None:
    """The acceptance test of every apply: the next plan is empty."""
    left = session.plan(alone=True)
    if stepped := retention_steps_only(left, made):
        say(f"checked: only the next steps of retention are left, for {counted(stepped, 'topic')}; apply again")
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
        self.skipped = 0
        self.probes: list[Probe] = []

    def outcome(self, outcome: Outcome) -> None:
        self.done += 1
        if outcome.result is Result.SKIPPED:
            self.skipped += 1
            if self.skipped > SHOWN:
                if self.skipped == SHOWN + 1:
                    say("        what else is not begun is told at the end")
                return
        say(f"[{self.done}/{self.total}] {outcome.result.value:7} {outcome.id}")

    def probed(self, probe: Probe) -> None:
        self.probes.append(probe)
        say(f"        access {probe.cluster}: probe of stage {probe.stage} {probe.verdict} ({probe.seconds:.1f} s)")

    def note(self, change_id: str, text: str) -> None:
        say(f"        {change_id}: {text} ({time.monotonic() - self.began:.0f} s)")
