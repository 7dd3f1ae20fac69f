"""``cutover plan``, ``apply`` and ``rollback``: checks a request, asks for consent, runs it and reports the result."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reconciler.backends.files import read_given, write_text
from reconciler.backends.state.environment_records import read_cutovers
from reconciler.errors import BlockedError, ExitCode, ReconcilerError, StalePlan
from reconciler.model.environment.topology import Principal
from reconciler.model.reports.cutover import CutoverPlan, CutoverReport
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState
from reconciler.operations.apply.execution import Execution, execution, interrupted_by_sigterm
from reconciler.operations.cutover import decide, live, steps
from reconciler.operations.cutover.plan import CutoverRequest, flows_back, planned
from reconciler.operations.cutover.rollback import CutoverRollback
from reconciler.operations.session.session import Session, now_ms, open_session
from reconciler.render.console import require_agreement, say, say_document, say_now, show, style
from reconciler.render.cutover import PLAN_FILE, page_in, plan_page, report_document, report_page
from reconciler.render.markup import Format
from reconciler.resources.flows.routes import declared_flow
from reconciler.text import first_of


@dataclass(frozen=True, slots=True)
class CutoverOptions:
    """``steal``: the reason for taking the lock from its holder."""

    yes: bool
    form: Format
    steal: str


def plan(env: Path, request: CutoverRequest, form: Format, out: Path | None) -> ExitCode:
    """Plans, prints and saves a cut-over. Exit codes: ``CutoverPlan.exit_code``."""
    with interrupted_by_sigterm(), open_session(env, Principal.APPLY) as session:
        made = planned(session, request, say_now)
    if out is not None:
        write_text(out, PLAN_FILE.dumps(made))
    show(page_in(form, plan_page(made), partial(PLAN_FILE.dumps, made), style()), form)
    return made.exit_code


def apply(env: Path, file: Path, options: CutoverOptions) -> ExitCode:
    """Carries out a plan, or the rest of it. Raises ReconcilerError if it cannot begin."""

    def run(execute: Execution, plan: CutoverPlan, journal: CutoverJournal | None) -> CutoverReport:
        if journal is None:
            _require_true(execute.session, plan)
            journal = steps.fresh_journal(plan, PLAN_FILE.digest(plan), execute.lock.holder.who, now_ms())
        if journal.state is CutoverState.DONE:  # a failback may have moved clients home since
            return CutoverReport("apply", plan, ())
        world = live.LiveWorld(execute.session, plan, execute, say)
        return steps.CutoverRun(world, plan, journal, now_ms).run()

    return _carried_out(env, file, "apply", options, run)


def rollback(env: Path, file: Path, options: CutoverOptions) -> ExitCode:
    """Takes a cut-over back; does nothing for a plan that never began."""

    def run(execute: Execution, plan: CutoverPlan, journal: CutoverJournal | None) -> CutoverReport:
        if journal is None:
            return CutoverReport("rollback", plan, ())
        world = live.LiveWorld(execute.session, plan, execute, say)
        return CutoverRollback(world, plan, journal, now_ms).run()

    return _carried_out(env, file, "rollback", options, run)


Run = Callable[[Execution, CutoverPlan, CutoverJournal | None], CutoverReport]


def _carried_out(env: Path, file: Path, command: str, options: CutoverOptions, run: Run) -> ExitCode:
    """Shows the plan, asks for consent, takes the lock, and runs. Raises ReconcilerError for a plan of another
    environment, and without consent."""
    plan = _read(file)
    with interrupted_by_sigterm(), open_session(env, Principal.APPLY) as session:
        if session.topology.environment != plan.environment:
            raise ReconcilerError(
                f"the plan is of environment {plan.environment}, and {env} is {session.topology.environment}",
                "It names clusters and flows of that environment.",
                f"Name the folder of {plan.environment}, or plan again: reconciler cutover plan {env} {plan.flow}",
            )
        declared_flow(session.topology, plan.flow, "There is nothing to move.")
        if not options.yes:
            say_document(page_in(Format.TEXT, plan_page(plan), str, style()))
            question = f"Do this {'cut-over' if command == 'apply' else 'rollback of the cut-over'}?"
            why = "It refuses writes and moves clients, so it needs consent."
            require_agreement(
                question, f"nothing was done by cutover {command}", why, "Read the plan, then pass --yes."
            )
        # Journals are read under the lock, because another run may just have finished a step. The report is shown
        # before the error of a lock that was lost meanwhile: the steps are done either way.
        with execution(session, f"cutover {command}", options.steal) as execute:
            journals = read_cutovers(execute.lock.cluster, plan.environment, Principal.APPLY)
            back = flows_back(session.topology, plan)
            report = run(execute, plan, journal_of(plan, PLAN_FILE.digest(plan), journals, back))
        document = partial(report_document, report, int(exit_code(report)))
        show(page_in(options.form, report_page(report), document, style()), options.form)
        execute.require_kept()
        return exit_code(report)


def journal_of(
    plan: CutoverPlan, own: str, journals: Sequence[CutoverJournal], back: Collection[str] = ()
) -> CutoverJournal | None:
    """The journal that this plan continues; None if it begins. Raises BlockedError while another cut-over moves the
    same topics. ``own``: digest of the plan; ``back``: as for ``in_the_way``. A plan with the same topics and groups
    may continue the journal of another plan: the file of that one may be lost, or it may wait for clients that never
    come."""
    mine = next((journal for journal in journals if journal.plan == own), None)
    if mine is None:
        mine = next((each for each in journals if decide.stands_in(plan, each)), None)
    for journal in journals:
        if journal is not mine and (words := decide.in_the_way(plan, journal, back)):
            why = "Two cut-overs of the same topics would undo each other's fences."
            raise BlockedError(words, why, decide.ended(journal))
    return None if mine is not None and mine.state is CutoverState.TAKEN_BACK else mine


def _require_true(session: Session, plan: CutoverPlan) -> None:
    """Raises StalePlan with planned and present values, BlockedError for checks that stop the plan."""
    request = CutoverRequest(plan.flow, plan.settings, plan.topics_expression, plan.groups_expression)
    now = planned(session, request, say_now)
    if moved := tuple(decide.moved_since(plan, now)):
        raise StalePlan(moved, "the plan of the cut-over is stale")
    if not now.topics:
        todo = "Check with reconciler explain ENV TOPIC, and plan again."
        raise BlockedError(f"no topic of {plan.flow} is chosen", "There is nothing to move.", todo)
    if now.blocked:
        stops = [check for check in now.checks if check.level.value == "stops"]
        why = "Nothing was changed."
        raise BlockedError(first_of([check.text for check in stops]), why, stops[0].todo)


def exit_code(report: CutoverReport) -> ExitCode:
    if report.own:
        return ExitCode.BLOCKED
    if report.failed is not None:
        return ExitCode.ERROR if report.untouched else ExitCode.PARTIAL
    wrong = report.findings or any(group.note for group in report.groups)
    return ExitCode.PARTIAL if wrong else ExitCode.DONE


def _read(file: Path) -> CutoverPlan:
    try:
        return PLAN_FILE.loads(read_given(file).decode())
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not text'}"
        todo = "Name the file that cutover plan --out has written."
        raise ReconcilerError(problem, "Only a reviewed plan is carried out.", todo) from None
