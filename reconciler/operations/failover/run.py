"""``failover`` and ``failback``: survey both sides, ask for consent, move consumer groups, report."""

from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from reconciler.backends.files import write_text
from reconciler.errors import ClusterError, ExitCode, ReconcilerError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.options import KeepDiverged
from reconciler.model.reports.failover import Report, StepResult, Way
from reconciler.operations.apply.execution import execution, interrupted_by_sigterm
from reconciler.operations.failover.decide import FailoverRequest, move_of, ours
from reconciler.operations.failover.rejoin import own_records
from reconciler.operations.failover.steps import Switch
from reconciler.operations.mirror import pause as steering
from reconciler.operations.session.session import Session, open_session
from reconciler.render.console import filled_in, require_agreement, say, say_document, say_now, show, style
from reconciler.render.markup import Format
from reconciler.render.reports.failover import failover_html, failover_json, failover_markdown, failover_text
from reconciler.resources.flows.routes import declared_flow
from reconciler.resources.mirrors.pause_and_seek import words as pause_words
from reconciler.text import counted


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """What is asked for, and how ``failover`` and ``failback`` ask and report."""

    request: FailoverRequest
    dry: bool
    """Change nothing."""
    yes: bool
    """Do not ask."""
    form: Format
    """Of the output."""
    out: Path | None
    """A file for the report, besides the output; its ending decides the format."""
    steal: str
    """The reason for taking the lock from its holder."""


def move(env: Path, way: Way, flow: str, options: FailoverOptions) -> ExitCode:
    """Moves consumer groups along a flow. Raises ReconcilerError if the move cannot begin."""
    dry = options.dry
    with interrupted_by_sigterm(), open_session(env, Principal.APPLY) as session:
        flow_declared = declared_flow(session.topology, flow, "There is nothing to move consumers along.")
        if options.request.diverged is not None and not flow_declared.keeps_offsets:
            raise ReconcilerError(
                f"flow {flow} does not keep offsets: no record on {flow_declared.source} lies in the place of one on"
                f" {flow_declared.target}",
                f"Records of {flow_declared.source} that were never copied travel when the failback resumes the flow.",
                f"Leave --diverged away: reconciler failback ENV {flow}",
            )

        # The survey needs no lock, and shows what consent is asked for. If nothing is to do, or a check stops the move,
        # the command ends here without touching a cluster.
        switch = Switch(session, move_of(session.topology, way, flow), options.request, say, say_now)
        report = _looked(switch)
        code = exit_code(report)
        if not dry and code is ExitCode.DONE:
            report = switch.nothing_done(report)
            code = exit_code(report)
        if dry or code is not ExitCode.CHANGES:
            _show(report, code, options)
            return code

        # The question itself has the number of records that --diverged discard gives up, so that --yes is no slip.
        if not options.yes:
            say_document(failover_text(report, style()))
            why = "It moves consumers, so it needs consent."
            given_up = sum(each.source_records for each in own_records(report.seen.parted))
            discards = options.request.diverged is not None and options.request.diverged.keep is KeepDiverged.DISCARD
            words = f"Give up {counted(given_up, 'record')} for good, and do" if discards and given_up else "Do"
            require_agreement(
                f"{words} this {way}?", f"no {way} was done", why, "Check with --dry-run, then pass --yes."
            )
        with execution(session, str(way), options.steal, keeper=_keeper(session, switch)) as execute:
            report = switch.carry_out(execute, report)
        code = exit_code(report)
        _show(report, code, options)
        execute.require_kept()
        return code


def _looked(switch: Switch) -> Report:
    """The survey. Raises ReconcilerError; for a failback to a cluster that is still down, it says that consumers can
    stay."""
    move = switch.move
    try:
        return switch.look()
    except ClusterError as error:
        if move.way is not Way.FAILBACK or error.kind != "unreachable" or error.cluster != move.destination:
            raise
        pause = steering.pause_of(switch.session, move.flow)
        if pause is None or not ours(pause.reason):
            raise
        why = f"Consumers are failed over to {move.origin} ({pause_words(pause)}), which answers and takes writes."
        todo = f"There is no hurry: wait until {move.destination} is back, and run this again. {error.todo}"
        raise ReconcilerError(f"{error.what}: nothing was moved back", why, todo) from None


def _keeper(session: Session, switch: Switch) -> Cluster | None:
    """The cluster that keeps the lock instead, if its home is the lost cluster."""
    origin, destination = switch.move.origin, switch.move.destination
    if switch.survey.lost is None:
        return None
    try:
        session.find_home()
    except ClusterError as error:
        if error.cluster == origin:
            say(f"the environment's lock is kept on {origin}, which does not answer: taken on {destination}")
            return session.topology.clusters[destination]
    return None


def exit_code(report: Report) -> ExitCode:
    """For a dry run: 3 blocked, 2 steps to take, 0 none. For a move: 0 complete, 5 partial, 1 stopped."""
    results = [step.result for step in report.steps]
    if report.dry:
        if report.blocked:
            return ExitCode.BLOCKED
        return ExitCode.CHANGES if StepResult.PLANNED in results else ExitCode.DONE
    if StepResult.FAILED in results:
        return ExitCode.PARTIAL if StepResult.DONE in results else ExitCode.ERROR
    return ExitCode.PARTIAL if any(group_move.note for group_move in report.seen.groups) else ExitCode.DONE


def _show(report: Report, code: ExitCode, options: FailoverOptions) -> None:
    """Shows it first: what was done is known also where the file cannot be written."""
    show(_text(report, code, options.form), options.form)
    if options.out is not None:
        ending = {".json": Format.JSON, ".html": Format.HTML}.get(options.out.suffix, Format.MARKDOWN)
        write_text(options.out, filled_in(_text(report, code, ending), options.out.suffix))


def _text(report: Report, code: ExitCode, form: Format) -> str:
    match form:
        case Format.TEXT:
            return failover_text(report, style())
        case Format.JSON:
            return failover_json(report, int(code))
        case Format.MARKDOWN:
            return failover_markdown(report)
        case Format.HTML:
            return failover_html(report)
        case _:
            assert_never(form)
