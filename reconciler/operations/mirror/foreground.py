"""Commands that wait for their jobs: ``mirror start --until-caught-up``, ``verify`` and ``mirror host``."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from reconciler.backends.git import revision
from reconciler.backends.mirror_jobs.host.accept import read_accepted
from reconciler.backends.mirror_jobs.host.serve import HostedEnvironment, serve
from reconciler.backends.mirror_jobs.runner.command_line import require_spark
from reconciler.backends.mirror_jobs.runner.foreground_job import ForegroundRun, run_in_foreground
from reconciler.backends.mirror_jobs.runner.run_folder import required, state_folder
from reconciler.backends.state.lock import environment_lock
from reconciler.engine.observe.read_all import unlisted, with_answers
from reconciler.environment.declarations.mirrors import check_master
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.plan import Edition
from reconciler.model.reports.verify import Verification, VerificationRequest
from reconciler.operations.apply.execution import Execution, interrupted_by_sigterm, stopped_by_signals
from reconciler.operations.session.session import Session, now_ms, read_topology
from reconciler.render.console import say
from reconciler.replication.allowed import allowed, permit_policies
from reconciler.replication.status import CatchUpStatus, FlowStatus
from reconciler.resources.flows.routes import left_out_by
from reconciler.resources.mirrors.handover import handovers
from reconciler.resources.mirrors.verify_request import answered, request_fields
from reconciler.text import counted

POLL_S, TELL_S = 0.5, 5.0
_ENDED = ("stopped", "failed", "superseded")


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that ran in the foreground, after its end."""

    mirror: str
    reached: bool
    """The job reported its goal as reached, by ending with exit code 0."""
    last: LiveMirror | None
    """Its last status record; None if none arrived."""
    log: str
    """The end of its log."""


def catch_up(execute: Execution, mirrors: Sequence[str], flow: str | None, calm_s: float) -> str:
    """Runs mirrors until they have caught up; returns the closing words. Raises ReconcilerError if a job does not reach
    its goal."""
    texts = handovers(execute.session.topology)
    goal = {"flows": [flow] if flow else [], "calm_s": calm_s}

    def run() -> list[EndedJob]:
        # A running job of the mirror is stopped first: it has no goal, and two jobs of one mirror fence each other's
        # transactional ids.
        runner = execute.session.runner.on_this_machine(mirrors)
        asked_at_ms: dict[str, int] = {}
        for name in mirrors:
            runner.require_startable([name])
            folder = runner.folder(name)
            if any(each.supervisor_pid() for each in (folder, runner.other_folder(name))):
                runner.stop(name, say)
            folder = runner.folder(name)
            asked_at_ms[name] = runner.launch(name, texts[name], folder, goal=json.dumps(goal))

        # Each job is followed by its status record, which shows progress, and by its supervisor, which shows its end: a
        # job that dies leaves an old record, and only the exit code shows whether it reached its goal.
        ended: list[EndedJob] = []
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        terminal = sys.stderr.isatty()
        bars = Progress(*columns, console=Console(stderr=True), transient=True) if terminal else None
        shown = _Shown(flow, bars)
        with bars or nullcontext():
            while waiting := [name for name in mirrors if name not in {job.mirror for job in ended}]:
                for name in waiting:
                    folder = runner.folder(name)
                    state = folder.word("supervisor.json", "state")
                    over = state in _ENDED or (bool(state) and folder.supervisor_pid() is None)
                    last = None
                    with suppress(ClusterError):
                        reported = runner.status(name)
                        # Until the new application reports, the status record is the former one's.
                        ours = reported is not None and (reported.started_at_ms or 0) >= asked_at_ms[name]
                        last = reported if ours else None
                    if last is not None:
                        shown.take(last)
                    if over:
                        reached = state == "stopped" and folder.number("supervisor.json", "exit_code") == 0
                        ended.append(EndedJob(name, reached, last, folder.log_tail(4)))
                time.sleep(POLL_S)
        failed = [job for job in ended if not job.reached]
        names, why = [f"mirror {job.mirror} did not catch up" for job in failed], []
        for job in failed:
            # A job that gives up writes the reason into its status record; a killed job leaves only its log.
            over = job.last is not None and job.last.state in (JobState.FAILED, JobState.STOPPED)
            why.append((job.last.detail if job.last is not None and over else "") or f"Its log ends with:\n{job.log}")
        if failed:
            todo = "What was copied is committed. Fix the cause and start again: it continues from there."
            raise ReconcilerError("; ".join(names), "\n".join(why), todo)
        return ended

    try:
        ended = execute.perform(f"catch-up:{','.join(mirrors)}", run)
    except KeyboardInterrupt:
        stop = f"reconciler mirror stop ENV {flow}" if flow else "reconciler mirror stop ENV"
        say(f"the job continues and ends by itself: see reconciler status ENV; {stop} ends it now")
        raise

    lines = []
    for job in ended:
        lines.append(f"mirror {job.mirror} has caught up and has stopped by itself")
        for name, status in job.last.flows.items() if job.last is not None else ():
            more = "" if flow in (None, name) else ", copied along; it may be behind"
            lost = sum(loss.offsets for loss in status.lost)
            where = f"{counted(status.partitions, 'partition')} of {counted(status.topics, 'topic')}"
            words = f"{counted(status.records_total, 'record')} in {where}"
            lines.append(f"  flow {name}: {words}{', ' + counted(lost, 'offset') + ' lost' if lost else ''}{more}")
            if undecided := status.catch_up.offsets_undecided if status.catch_up is not None else 0:
                lines.append(
                    f"    not copied: {counted(undecided, 'offset')} behind transactions still open at the source"
                )
    return "\n".join(lines)


class _Shown:
    """Shows progress: as a bar in a terminal, as a line every few seconds in a log."""

    def __init__(self, flow: str | None, bars: Progress | None) -> None:
        self.flow = flow
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}
        self.most: dict[str, int] = {}
        self.said = 0.0

    def take(self, mirror: LiveMirror) -> None:
        flows = [flow for name, flow in mirror.flows.items() if self.flow in (None, name) and flow.catch_up is not None]
        if self.bars is None:
            if flows and time.monotonic() - self.said >= TELL_S:
                self.said = time.monotonic()
                for flow in flows:
                    say(f"flow {flow.name}: {_words(flow)}")
            return
        for flow in flows:
            lag = flow.catch_up.offsets_left if flow.catch_up is not None else None
            if lag is None:
                continue
            # The bar's total is the largest lag so far: lag may grow until the positions of all partitions are known.
            self.most[flow.name] = most = max(1, lag, self.most.get(flow.name, 0))
            if flow.name not in self.tasks:
                self.tasks[flow.name] = self.bars.add_task(flow.name, total=most)
            words = f"{flow.name}: {_words(flow)}"
            self.bars.update(self.tasks[flow.name], total=most, completed=most - lag, description=words)


def _words(flow: FlowStatus) -> str:
    goal = flow.catch_up or CatchUpStatus(0, 0, None)
    left = goal.offsets_left
    offsets = "not all positions known yet" if left is None else f"{counted(left, 'offset')} left"
    done = f"{goal.done} of {goal.partitions} partitions"
    return f"{done}, {offsets}, {flow.records_per_second:,.0f} records/s"


def require_master(master: str) -> None:
    """Raises ReconcilerError for a ``--master`` that Spark would read otherwise, or that has a login."""
    try:
        check_master(master)
    except ValueError as error:
        raise ReconcilerError(
            f"--master: {error}",
            "The job, with its secrets, would go to another place or to none.",
            "Correct it, or leave it out: then the mirror's own master compares.",
        ) from None


def prove(
    session: Session, request: VerificationRequest, mirrors: Sequence[str], progress: Callable[[str], None]
) -> Verification:
    """Compares both sides of flows by one Spark application for each mirror. ``mirrors``: mirrors of the requested
    flows. Raises ReconcilerError."""
    began, at_ms, seen = time.monotonic(), now_ms(), revision(session.folder)
    topology, texts = session.topology, handovers(session.topology)
    carried = {
        name: [flow for flow in topology.flows_of(topology.mirrors[name]) if request.flow in (None, flow.name)]
        for name in mirrors
    }
    flows = [flow for each in carried.values() for flow in each]

    # Reads both sides of these flows; topics that git or a flow names are asked for by name, even if no cluster lists
    # them.
    ends = sorted({side for flow in flows for side in (flow.source, flow.target)})
    with ThreadPoolExecutor(max(1, len(ends))) as pool:
        read = dict(zip(ends, pool.map(session.whole, ends), strict=True))
    for side, names in unlisted(topology, LiveState(read, {})).items():
        read[side] = with_answers(read[side], session.clusters[side].read(names))
    live = LiveState(read, {})

    answers = []
    with interrupted_by_sigterm():
        for name, mine in carried.items():
            sides = {side: read[side] for flow in mine for side in (flow.source, flow.target)}
            progress_file = str(session.state / name / "verify-progress.json")
            asked = request_fields(request, (flow.name for flow in mine), sides, progress_file)
            run = ForegroundRun(topology.mirrors[name], session.state, texts[name], asked, request.master)
            answers.append(run_in_foreground(run, progress, say))
    return Verification(
        topology.environment,
        request,
        tuple(partition for answer in answers for partition in answered(answer)),
        tuple(str(answer["application_id"]) for answer in answers),
        time.monotonic() - began,
        tuple(filter(None, (left_out_by(flow, topology, live) for flow in flows))),
        tuple(sorted({words for answer in answers for words in answer.get("one_client", ())})),
        at_ms,
        Edition(seen.commit, seen.dirty),
    )


RUNS = ".host"
"""Subfolder for a host's run folders, apart from those of jobs that ``apply`` on the same machine keeps."""


def host(folders: list[Path], accept: Path) -> None:
    """Keeps mirrors until SIGTERM, SIGINT or SIGHUP. Raises ReconcilerError if the host cannot start."""
    accepted = read_accepted(accept)
    require_spark()
    permit_policies(allowed(os.environ))
    with ExitStack() as stack:
        environments = []
        for folder in folders:
            state = required(state_folder(folder) / RUNS)
            stack.enter_context(environment_lock(state, "mirror host"))
            environments.append(HostedEnvironment(read_topology(folder), state))
        stopping = stack.enter_context(stopped_by_signals())
        # Refusals contain text from __mirror_control, which other clients may write.
        serve(environments, accepted, stopping, say)
