"""``cutover plan``, ``apply`` and ``rollback``: checks a request, asks for consent, runs it and reports the result."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from reconciler.backends.files import read_given_text, write_text
from reconciler.backends.state.environment_records import read_cutovers
from reconciler.errors import BlockedError, ExitCode, ReconcilerError, StalePlan
from reconciler.model.environment.topology import Principal
from reconciler.model.reports.cutover import CutoverPlan, CutoverReport, RollbackStep
from reconciler.model.reports.failover import GroupMove, StepResult
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState, key_of
from reconciler.operations.apply.execution import Execution, execution, interrupted_by_sigterm
from reconciler.operations.cutover import decide, live, steps
from reconciler.operations.cutover.decide import group_seen
from reconciler.operations.cutover.plan import CutoverRequest, flows_back, planned
from reconciler.operations.cutover.quiet import LOOK_S
from reconciler.operations.cutover.world import CutoverWorld, StepEnd, in_order, step_end, unfenced, unkept
from reconciler.operations.failover.group_offsets import otherwise
from reconciler.operations.session.session import Session, now_ms, open_session
from reconciler.render.console import require_agreement, say, say_document, say_now, show, style
from reconciler.render.cutover import PLAN_FILE, page_in, plan_page, report_document, report_page
from reconciler.render.markup import Format
from reconciler.replication.groups import may_write
from reconciler.resources.flows.routes import declared_flow
from reconciler.text import counted, first_of


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
    why, todo = "Only a reviewed plan is carried out.", "Name the file that cutover plan --out has written."
    plan = PLAN_FILE.loads(read_given_text(file, str(file), why, todo))
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


class CutoverRollback:
    """Takes a cut-over back: always before *switch*; after it, while clients have written nothing at the destination. A
    run can be repeated, since each step checks first what is left to do."""

    def __init__(
        self, world: CutoverWorld, plan: CutoverPlan, journal: CutoverJournal, now_ms: Callable[[], int]
    ) -> None:
        self.world, self.plan, self.journal = world, plan, journal
        self._now_ms = now_ms
        self._groups: tuple[GroupMove, ...] = ()

    def run(self) -> CutoverReport:
        """Does nothing if clients have written at the destination: the report then has the counts. Raises
        ReconcilerError if that is unknown."""
        began = self.world.now()
        if own := self._own():
            return CutoverReport("rollback", self.plan, (), own=own)
        steps = in_order(self.world, self._acts(), self.world.perform)
        lost: tuple[str, ...] = ()
        if steps[-1].result is not StepResult.FAILED:
            try:
                self.world.keep(replace(self.journal, state=CutoverState.TAKEN_BACK, at_ms=self._now_ms()))
            except ReconcilerError as error:
                lost = (unkept(error, "finds all taken back"),)
        groups = tuple(group_seen(move, ()) for move in self._groups)
        return CutoverReport("rollback", self.plan, steps, lost, groups, seconds=self.world.now() - began)

    def _own(self) -> dict[str, int]:
        """Partition -> records that clients wrote at the destination since the fence. Raises ReconcilerError if other
        flows write there, too: offsets do not tell their records from those of clients."""
        if not self.journal.switched:
            return {}
        if self.plan.shared:
            raise ReconcilerError(
                f"other flows write {first_of(self.plan.shared)} on {self.plan.destination}, too",
                "Whether a client has written there since the switch cannot be determined.",
                f"Go back with: reconciler failback ENV {self.plan.flow}",
            )
        its = self.journal
        before, drained, there = (
            {key_of(name): end for name, end in ends.items()} for ends in (its.before, its.ends, its.there)
        )
        own = Counter(self.world.own_records(there)) + Counter(self.world.early_records(before, drained, there))
        return {f"{key[0]}-{key[1]}": count for key, count in sorted(own.items())}

    def _acts(self) -> Iterator[tuple[RollbackStep, Callable[[], StepEnd]]]:
        """Steps in the reverse order of the cut-over. The fence is removed last: the origin takes writes only once the
        flow copies again and groups have their positions back."""
        if self.journal.started:
            yield RollbackStep.HOLD, self._hold
        if self.journal.switched:
            yield RollbackStep.GROUPS, self._groups_back
        yield RollbackStep.RESUME, self._resume
        if self.plan.lifts:
            yield RollbackStep.RESTORE, self.world.restore
        origin = self.plan.origin
        again = f": {origin} takes writes again"
        yield RollbackStep.UNFENCE, partial(unfenced, self.world, f"no fence rule is left on {origin}", again)

    def _hold(self) -> StepEnd:
        done, note = self.world.hold_back()
        return step_end(done, f"{self.journal.started} is paused", note)

    def _groups_back(self) -> StepEnd:
        # A group with a later offset on the origin has read on there and keeps it. Kafka refuses a commit for a group
        # with members, so such a group waits until they have left.
        """Sets positions on the origin by what groups have read at the destination."""
        until, moved = self.world.now() + self.plan.settings.catch_up_s, dict[str, GroupMove]()
        while True:
            moves = {move.group: move for move in self.world.groups_back() if _concerned(move)}
            moved |= moves
            if not any(move.destination.members for move in moves.values()) or self.world.now() >= until:
                break
            self.world.sleep(LOOK_S)
        self._groups = tuple(moved.values())
        count = sum(offset.after != offset.before for move in self._groups for offset in move.offsets)
        text = f"{counted(count, 'offset')} of {counted(len(self._groups), 'group')} set on {self.plan.origin}"
        return step_end(bool(count), text + otherwise(self._groups))

    def _resume(self) -> StepEnd:
        """Looks once more for records of clients, since from now on copies lie beside them. The journal then says that
        no client was switched: a run after a kill does not take those copies for records of clients, and a cut-over
        that goes on instead fences and drains again."""
        if own := self._own():
            raise ReconcilerError(
                f"written on {self.plan.destination} while this ran: {counted(sum(own.values()), 'record')} in "
                f"{first_of(list(own))}",
                f"They would stay there, and {self.plan.flow} would copy behind them.",
                f"Go back with: reconciler failback ENV {self.plan.flow}",
            )
        self.journal = replace(self.journal, switched=False, at_ms=self._now_ms())
        self.world.keep(self.journal)
        done, note = self.world.resume()
        return step_end(done, f"{self.plan.flow} copies again", note)


def _concerned(move: GroupMove) -> bool:
    """Whether the cut-over set the group's position, or failed to."""
    if any(offset.after != offset.before for offset in move.offsets):
        return True
    wanted = ((offset.translated.offset, offset.before) for offset in move.offsets)
    return any(at is not None and may_write(at, before, rewound=False) for at, before in wanted)
