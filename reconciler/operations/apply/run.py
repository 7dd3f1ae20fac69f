"""``apply``: carries out a fresh or a saved plan after consent, and plans again to confirm the result.

A saved or reviewed plan is compared with the clusters first.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.backends.clusters.impact import ask_stakes
from reconciler.backends.git import revision
from reconciler.engine.apply import limits
from reconciler.engine.guards import from_here, guarded, is_prune, unjudged
from reconciler.engine.observe.read_all import observe
from reconciler.engine.observe.verdict import not_copying
from reconciler.engine.plan.build import basis_now, still_true
from reconciler.engine.plan.file import basis
from reconciler.engine.plan.impact import about, empty_then, filled
from reconciler.engine.plan.select import Narrowed, known_part, retention_steps_only, with_held
from reconciler.engine.rollout.waves import code_of, ending, require_wave
from reconciler.errors import BlockedError, ExitCode, Moved, ReconcilerError, StalePlan
from reconciler.model.changes import AddPartitions, Change, Reason, RestartMirror, StartMirror, Why
from reconciler.model.config_values import duration
from reconciler.model.environment.topology import Principal
from reconciler.model.live import LiveMirror
from reconciler.model.options import PROBE_PATIENCE_S
from reconciler.model.plan import Outcome, Plan, Result
from reconciler.model.reports.probe import Probe
from reconciler.model.state.last_apply import Consent
from reconciler.operations.apply.execution import Execution, execution, interrupted_by_sigterm
from reconciler.operations.apply.records import strange
from reconciler.operations.review.plan import read_plan
from reconciler.operations.review.reviews import make_plan
from reconciler.operations.session.notices import notify
from reconciler.operations.session.session import NOTHING_AGREED, Session, open_session
from reconciler.render.console import require_agreement, say, say_document, say_now, show, show_last, style
from reconciler.render.markup import SHOWN
from reconciler.render.markup import Format as Page
from reconciler.render.notices import of_apply
from reconciler.render.plan.kinds import headline
from reconciler.render.plan.outline import gates_words
from reconciler.render.plan.sections import AboutPlan
from reconciler.render.plan.text import plan_text
from reconciler.render.reports.apply import Rolled, outcomes_in
from reconciler.text import counted, pace_words


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """The options of ``apply``, beyond those of every command."""

    consent: Consent
    saved: Path | None = None
    """Apply exactly this plan."""
    reviewed: Path | None = None
    """A plan that must hold every change of the fresh one."""
    yes: bool = False
    form: Page = Page.TEXT
    part: bool = False
    """Leave out what depends on anything unknown or refused."""
    until: str = ""
    """End after this wave."""
    ignore: str = ""
    """The reason for skipping gates and soaks."""
    patience_s: float = PROBE_PATIENCE_S
    """How long brokers may take to show access changes."""
    move_lock: str = ""
    """The cluster that keeps the lock from now on."""


def apply(env: Path, request: ApplyRequest, steal: str) -> ExitCode:
    """``steal``: the reason for taking the lock from its holder. Raises ReconcilerError if it cannot begin."""
    # Plan files are read first: a wrong path ends the command before it takes the lock or asks a cluster.
    saved, reviewed = (read_plan(path) if path is not None else None for path in (request.saved, request.reviewed))
    with changing(env, "apply", steal, request.consent, request.move_lock) as execute:
        session = execute.session
        plan = make_plan(session, consent=request.consent) if saved is None else _saved(session, saved, request)
        # A reviewed plan is an upper bound: the fresh plan may have fewer changes, since an apply may have carried out
        # part of it, but a change that no reviewer saw ends the run.
        if reviewed is not None:
            if unseen := uncovered(plan, reviewed):
                raise StalePlan(unseen, "a fresh plan holds what the reviewed plan does not; nothing was applied")
            say("checked: every change of the fresh plan is in the reviewed one")
        require_wave(plan, request.until)
        if request.form is Page.TEXT:
            show(plan_text(plan, style(), request.ignore, AboutPlan(amounts=session.last.amounts)))

        # By default a plan is applied as a whole or not at all; --part asks for the changes that nothing blocks.
        if not request.part:
            limits.refuse_if_blocked(plan)
        chosen = ending(known_part(plan) if request.part else Narrowed(plan), request.until)
        if chosen.plan.changes and not request.yes:
            require_agreement(
                f"Apply {counted(len(chosen.plan.changes), 'change')}?",
                "nothing was applied",
                "A plan is only applied with consent.",
                "Pass --yes, or save the plan with plan --out FILE and review it before apply --plan FILE --yes.",
            )
            # The question may have waited for hours; the answer was about the plan's view of the clusters.
            if moved := what_moved(session, chosen.plan):
                raise StalePlan(moved, "the clusters changed while waiting for your answer")
        execute.probe_patience = request.patience_s
        execute.ignore_gates(request.ignore)
        said = _Said(chosen.plan)
        outcomes = with_held(plan, chosen.held, execute.carry_out(chosen.plan, said))
        code = code_of(limits.exit_code(outcomes, plan), plan, outcomes, execute.halted, request.until)
        # Changes are done even if their audit record is incomplete, so this is a partial success, not a failure.
        if execute.unrecorded:
            say(execute.unrecorded)
            code = ExitCode.PARTIAL if code is ExitCode.DONE and plan.changes else code
        if code is ExitCode.DONE and plan.changes:
            _verify(session, plan)
        # CI keeps these heads in its log, so a later verification notices an audit record rewritten as a whole.
        for place, head in execute.audit.heads().items():
            say(f"head of the audit record, {place}: {head}")
    if execute.unremembered:
        say(f"the record of this apply could not be written: {execute.unremembered}")
    rolled = Rolled(code, execute.halted, request.ignore, execute.ended_by) if plan.rollout else None
    show_last(outcomes_in(plan, outcomes, request.form, style(), said.probes, rolled), request.form)
    notify(session.topology, of_apply(plan, outcomes, code), say)
    # Last, after the report: a lock lost during the run fails the command, and its outcomes are shown anyway.
    execute.require_kept()
    return code


LEADERS_AFTER_S = (1.0, 2.0, 4.0)
"""Pauses between reads while the plan after an apply still has unknowns."""


@contextmanager
def changing(
    env: Path, command: str, steal: str, consent: Consent = NOTHING_AGREED, to: str = ""
) -> Iterator[Execution]:
    """The frame of commands that change clusters: SIGTERM acts as Ctrl-C, so that the lock is released; the session
    logs in as the principal apply, and holds the environment's lock throughout."""
    with (
        interrupted_by_sigterm(),
        open_session(env, Principal.APPLY) as session,
        execution(session, command, steal, consent, to=to) as execute,
    ):
        yield execute


def _saved(session: Session, read: Plan, request: ApplyRequest) -> Plan:
    """The saved plan, checked against the live state and against a fresh plan. Raises StalePlan, or BlockedError."""
    plan = guard_saved(session, read, request.consent)
    if not request.part:
        limits.refuse_if_blocked(plan)
    if moved := what_moved(session, plan):
        raise StalePlan(moved)
    if is_prune(plan) and not request.consent.prune:
        why = "\n".join(f"  {planned.id}" for planned in plan.changes if planned.change.reason.code is Why.PRUNE)
        todo = "Pass --prune, or make a plan without it."
        raise BlockedError("nothing was applied, because the saved plan deletes by prune", why, todo)

    # A digest does not authenticate the file: an author of the file can write its digest, too, and a deletion rests on
    # a topic's absence from git. So a change is carried out only if a fresh plan from git and all clusters has it, too.
    fresh = make_plan(session, consent=request.consent, unread=True)
    if moved := tuple(beyond(plan, fresh)):
        raise StalePlan(moved, "the saved plan holds what a fresh plan does not; nothing was applied")
    return replace(plan, adopted_acls=fresh.adopted_acls)


def _verify(session: Session, plan: Plan) -> None:
    """The acceptance test of every apply: the next plan must be empty."""
    remaining = make_plan(session, unread=True)
    # A new topic with thousands of partitions has no leaders in its first seconds, so an unknown is read again first.
    for wait_s in LEADERS_AFTER_S:
        if not remaining.unknown:
            break
        time.sleep(wait_s)
        remaining = make_plan(session, unread=True)
    if stepped := retention_steps_only(remaining, plan):
        say(f"checked: only the next steps of retention are left, for {counted(stepped, 'topic')}; apply again")
    elif remaining.changes or remaining.unknown or remaining.refused:
        say("after the apply, a new plan is not empty:")
        say_document(plan_text(remaining))
    else:
        say("checked: a new plan is empty")
        # An empty plan proves that jobs run as declared, not that they copy every partition.
        begun = {each.change.mirror for each in plan.changes if isinstance(each.change, StartMirror | RestartMirror)}
        mirrors = session.last.live.mirrors if session.last.live is not None else {}
        for mirror in (mirrors.get(name) for name in sorted(begun)):
            if isinstance(mirror, LiveMirror):
                say(*(f"but {words}" for words in not_copying(mirror)))


PACE_EVERY_S = 2.0


class _Said:
    """Prints the progress of an apply."""

    def __init__(self, plan: Plan) -> None:
        self.total = len(plan.changes)
        self.done = 0
        self.began = time.monotonic()
        self.skipped = 0
        self.waits = plan.rollout is not None
        self.pace_at = 0.0
        self.probes: list[Probe] = []

    def outcome(self, outcome: Outcome) -> None:
        self.done += 1
        self.skipped += outcome.result is Result.SKIPPED
        if outcome.result is not Result.SKIPPED or self.skipped <= SHOWN:
            # The pace is shown now and then to keep lines short, and not across the waits of a rollout, which say
            # nothing about the speed of changes.
            now = time.monotonic()
            pace = "" if self.waits or now < self.pace_at else pace_words(self.done, self.total, now - self.began)
            if pace:
                self.pace_at, pace = now + PACE_EVERY_S, f" ({pace})"
            say(f"[{self.done}/{self.total}] {outcome.result.value:7} {outcome.id}{pace}")
        elif self.skipped == SHOWN + 1:
            say("        everything else that was not begun is listed at the end")

    def probed(self, probe: Probe) -> None:
        self.probes.append(probe)
        say(f"        access {probe.cluster}: probe of stage {probe.stage} {probe.verdict} ({probe.seconds:.1f} s)")

    def note(self, change_id: str, text: str) -> None:
        say(f"        {change_id}: {text} ({time.monotonic() - self.began:.0f} s)")

    def moving(self, change_id: str, text: str) -> None:
        say_now(f"        {change_id}: {text} ({time.monotonic() - self.began:.0f} s)")


# Compares a saved or reviewed plan with the clusters and a fresh plan, so that no unreviewed change is carried out.


def guard_saved(session: Session, saved: Plan, consent: Consent) -> Plan:
    """A saved plan with the guards' present objections. Reads only clusters that git and earlier applies do not
    confirm."""
    session.keep_last_apply(session.read_last_apply(consent), revision(session.folder))
    live = observe({name: session.clusters[name] for name in strange(session, saved) if name in session.clusters})
    made = from_here(unjudged(saved), session.last.applied, session.last.origin, newer=session.last.newer)
    return guarded(made, session.topology, live, session.last.applied, consent)


def what_moved(session: Session, planned: Plan) -> tuple[Moved, ...]:
    """Facts of the plan's basis that have changed since. Reads nothing else."""
    wanted, mirrors = basis([observation.subject for observation in planned.basis.observed])
    readers = {name: session.clusters[name] for name in wanted.topics or () if name in session.clusters}
    session.find_strays(set(mirrors))
    live = observe(readers, session.runner, mirrors, wanted)
    if unknown := live.unanswered:
        why = "\n".join(f"  {each_unknown.subject}: {each_unknown.error}" for each_unknown in unknown)
        todo = "Fix it and apply again."
        raise ReconcilerError("nothing was applied: what the plan depends on could not be read again", why, todo)

    # A topic that was empty at planning time may hold records now.
    asked = about(empty_then(planned), live)
    with ThreadPoolExecutor(max(1, len(session.topology.clusters))) as pool:
        stakes = ask_stakes(pool, session.topology.clusters, session.principal, asked)()
    return (*still_true(planned, basis_now(planned, session.topology, live)), *filled(planned, stakes))


def uncovered(fresh: Plan, reviewed: Plan) -> tuple[Moved, ...]:
    """Changes of ``fresh`` that ``reviewed`` lacks or has in another form; empty if all were reviewed.

    Changes of ``reviewed`` alone do not count: an apply has carried them out since.
    """
    if fresh.basis.environment != reviewed.basis.environment:
        return (Moved("environment", reviewed.basis.environment, fresh.basis.environment),)
    if fresh.rollout != reviewed.rollout:
        return (Moved("rollout", _course(reviewed), _course(fresh)),)
    moved, reviewed_changes = list[Moved](), {planned.id: planned for planned in reviewed.changes}
    for planned in fresh.changes:
        before, now = reviewed_changes.get(planned.id), headline(planned.change)
        if before is None:
            moved.append(Moved(planned.id, "not in the reviewed plan", now))
        elif _what_it_does(before.change) != _what_it_does(planned.change):
            was = headline(before.change)
            moved.append(Moved(planned.id, was, f"{now}, with other values" if was == now else now))
        # The same change may be riskier by now: a topic that was empty at the review has readers.
        elif before.risk != planned.risk:
            moved.append(Moved(planned.id, f"{before.risk} risk", f"{planned.risk} risk: {planned.risk_why}"))
    return tuple(moved)


def beyond(saved: Plan, fresh: Plan) -> Iterator[Moved]:
    """Changes of ``saved`` that a fresh plan lacks, or has in another form, wave or order."""
    if fresh.rollout != saved.rollout:
        yield Moved("rollout", _course(saved), _course(fresh))
    now = {planned.id: planned for planned in fresh.changes}
    for planned in saved.changes:
        same = now.get(planned.id)
        if same is None:
            yield Moved(planned.id, headline(planned.change), "not in a fresh plan")
        elif _what_it_does(same.change) != _what_it_does(planned.change):
            yield Moved(planned.id, headline(planned.change), f"{headline(same.change)}, with other values")
        elif (same.needs, same.stage, same.wave) != (planned.needs, planned.stage, planned.wave):
            yield Moved(planned.id, f"in {planned.stage}", f"in {same.stage}, at another place of the order")


def _course(plan: Plan) -> str:
    if plan.rollout is None:
        return "without waves"
    waves = [f"{wave.name} ({', '.join(wave.clusters)}; soak {duration(wave.soak_ms)})" for wave in plan.rollout.waves]
    return f"{', then '.join(waves)}; {gates_words(plan.rollout.gates)}"


def _what_it_does(change: Change) -> Change:
    """The change without the source's partition count, which may grow meanwhile and does not alter the outcome."""
    return replace(change, reason=Reason(Why.NOTHING, "")) if isinstance(change, AddPartitions) else change
