"""The commands that move consumers between the clusters of a flow: failover and failback. Arguments and exit codes."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, assert_never

import typer

from reconciler.edges.files import write_text
from reconciler.errors import ReconcilerError
from reconciler.executing import execution, interrupted_by_sigterm
from reconciler.exit_codes import ExitCode
from reconciler.failing import FailoverWish, move_of
from reconciler.failovers import Report, StepResult, Way
from reconciler.locks import lock_cluster
from reconciler.rendering.failover import failover_json, failover_markdown, failover_text
from reconciler.switching import Switch
from reconciler.terminal import Env, OutOption, StealOption, say, seconds, show, style
from reconciler.topology import Cluster, Principal
from reconciler.wiring import Session, open_session


class Page(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


Flow = Annotated[str, typer.Argument(metavar="FLOW", help="the flow whose consumers move")]
Dry = Annotated[bool, typer.Option("--dry-run", help="look, check and tell; change nothing")]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask")]
Unplanned = Annotated[
    bool, typer.Option("--unplanned", help="go on although the cluster that consumers leave does not answer")
]
Loss = Annotated[bool, typer.Option("--accept-loss", help="go on although records there are not copied")]
Drain = Annotated[str, typer.Option("--drain", metavar="DURATION", help="how long copying may take to catch up")]
Form = Annotated[Page, typer.Option("--format", help="text for people, json for machines, markdown for a comment")]


def failover(
    env: Env,
    flow: Flow,
    dry: Dry = False,
    yes: Yes = False,
    unplanned: Unplanned = False,
    loss: Loss = False,
    drain: Drain = "60s",
    form: Form = Page.TEXT,
    out: OutOption = None,
    steal: StealOption = "",
) -> None:
    """Move consumers of FLOW to its target: drain, pause the flow, set their exact offsets, start the flow back."""
    wish = FailoverWish(unplanned, loss, seconds("--drain", drain))
    raise typer.Exit(_move(env, Way.FAILOVER, flow, wish, (dry, yes), (form, out), steal))


def failback(
    env: Env,
    flow: Flow,
    dry: Dry = False,
    yes: Yes = False,
    unplanned: Unplanned = False,
    loss: Loss = False,
    drain: Drain = "60s",
    form: Form = Page.TEXT,
    out: OutOption = None,
    steal: StealOption = "",
) -> None:
    """Move consumers of FLOW back to its source, their offsets translated back, and resume the flow."""
    wish = FailoverWish(unplanned, loss, seconds("--drain", drain))
    raise typer.Exit(_move(env, Way.FAILBACK, flow, wish, (dry, yes), (form, out), steal))


def _move(
    env: Path,
    way: Way,
    flow: str,
    wish: FailoverWish,
    consent: tuple[bool, bool],
    output: tuple[Page, Path | None],
    steal: str,
) -> ExitCode:
    dry, yes = consent
    with interrupted_by_sigterm(), open_session(env, Principal.APPLY) as session:
        switch = Switch(session, move_of(session.topology, way, flow), wish, say)
        report = switch.look()
        code = exit_code(report)
        if not dry and code is ExitCode.DONE:
            report = switch.nothing_done(report)
            code = exit_code(report)
        if dry or code is not ExitCode.CHANGES:
            _tell(report, code, output)
            return code
        if not yes:
            say(failover_text(report, style()))
            _confirm(way)
        with execution(session, str(way), steal, keeper=_keeper(session, switch)) as execute:
            report = switch.carry_out(execute, report)
        code = exit_code(report)
        _tell(report, code, output)
        execute.require_kept()
        return code


def _keeper(session: Session, switch: Switch) -> Cluster | None:
    """Where the lock is kept instead, when the cluster that keeps it is the one that is lost."""
    usual, lost = lock_cluster(session.topology), switch.survey.lost
    if lost is None or usual.name != switch.move.origin:
        return None
    say(f"the environment's lock is kept on {usual.name}, which does not answer: taken on {switch.move.destination}")
    return session.topology.clusters[switch.move.destination]


def exit_code(report: Report) -> ExitCode:
    """Dry: 3 blocked, 2 something would be done, 0 nothing. Done: 0 as it should be, 5 not all of it, 1 stopped."""
    results = [step.result for step in report.steps]
    if report.dry:
        if report.blocked:
            return ExitCode.BLOCKED
        return ExitCode.CHANGES if StepResult.PLANNED in results else ExitCode.DONE
    if StepResult.FAILED in results:
        return ExitCode.PARTIAL if StepResult.DONE in results else ExitCode.ERROR
    return ExitCode.PARTIAL if any(one.note for one in report.seen.groups) else ExitCode.DONE


def _confirm(way: Way) -> None:
    if not sys.stdin.isatty():
        raise ReconcilerError(
            f"no {way} was done: nobody can be asked, standard input is not a terminal",
            "It moves consumers, so someone has to agree to it.",
            "Look with --dry-run, then pass --yes.",
        )
    if not typer.confirm(f"Do this {way}?", err=True):
        raise ReconcilerError(f"no {way} was done, as you wished")


def _tell(report: Report, code: ExitCode, output: tuple[Page, Path | None]) -> None:
    form, out = output
    match form:
        case Page.TEXT:
            text = failover_text(report, style())
        case Page.JSON:
            text = failover_json(report, int(code))
        case Page.MARKDOWN:
            text = failover_markdown(report)
        case _:
            assert_never(form)
    if out is not None:
        write_text(out, failover_json(report, int(code)) if out.suffix == ".json" else failover_markdown(report))
    show(text)
