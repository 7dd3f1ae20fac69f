"""Jobs that a command waits for: ``mirror start --until-caught-up``, ``verify``, and all jobs of a ``mirror host``."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from reconciler.backends.mirror_jobs.host.accept import read_accepted
from reconciler.backends.mirror_jobs.host.serve import HostedEnvironment, serve
from reconciler.backends.mirror_jobs.runner.command_line import require_java, spark_submit
from reconciler.backends.mirror_jobs.runner.foreground_job import ForegroundRun, run_in_foreground
from reconciler.backends.mirror_jobs.runner.run_folder import required, state_folder
from reconciler.backends.state.lock import environment_lock
from reconciler.engine.observe.read_all import unlisted, with_answers
from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.environment.topology import Flow
from reconciler.model.live import JobState, LiveMirror, LiveState
from reconciler.model.reports.verify import Verification, VerificationRequest
from reconciler.operations.apply.execution import Execution, ended_by_signals, interrupted_by_sigterm
from reconciler.operations.session.session import Session, read_topology
from reconciler.render.console import say
from reconciler.replication.allowed import allowed, permit_policies
from reconciler.replication.status import CatchUpStatus, FlowStatus
from reconciler.resources.flows.routes import left_out_by
from reconciler.resources.mirrors.handover import handovers
from reconciler.resources.mirrors.verify_request import answered, request_fields
from reconciler.text import counted

LOOK_S, TELL_S = 0.5, 5.0
_ENDED = ("stopped", "failed", "superseded")


@dataclass(frozen=True, slots=True)
class EndedJob:
    """``reached``: the job said so itself and ended with exit code 0. ``log``: the end of its log."""

    mirror: str
    reached: bool
    last: LiveMirror | None
    log: str


def catch_up(execute: Execution, mirrors: Sequence[str], flow: str | None, calm_s: float) -> str:
    """The words to end with. Raises ReconcilerError when a job could not reach its goal."""
    texts = handovers(execute.session.topology)
    goal = {"flows": [flow] if flow else [], "calm_s": calm_s}
    ended: list[EndedJob] = []

    def run() -> None:
        # A job that runs is stopped: it has no goal, and two of one mirror would fence each other.
        runner = execute.session.runner.on_this_machine(mirrors)
        asked_at_ms: dict[str, int] = {}
        for name in mirrors:
            runner.require_startable([name])
            folder = runner.folder(name)
            if any(each.supervisor_pid() for each in (folder, runner.other_folder(name))):
                runner.stop(name, say)
            folder = runner.folder(name)
            asked_at_ms[name] = runner.launch(name, texts[name], folder, goal=json.dumps(goal))

        # Each is followed to its end, by its status record and by its supervisor. Whether the goal was reached only its
        # exit code says.
        with _shown(flow) as shown:
            while waiting := [name for name in mirrors if name not in {job.mirror for job in ended}]:
                for name in waiting:
                    folder = runner.folder(name)
                    state = folder.word("supervisor.json", "state")
                    over = state in _ENDED or (bool(state) and folder.supervisor_pid() is None)
                    last = None
                    with suppress(ClusterError):
                        reported = runner.status(name)
                        ours = reported is not None and (reported.started_at_ms or 0) >= asked_at_ms[name]
                        last = reported if ours else None
                    if last is not None:
                        shown.take(last)
                    if over:
                        reached = state == "stopped" and folder.number("supervisor.json", "exit_code") == 0
                        ended.append(EndedJob(name, reached, last, folder.log_tail(4)))
                time.sleep(LOOK_S)
        if failed := [job for job in ended if not job.reached]:
            raise _not_reached(failed)

    try:
        execute.perform(f"catch-up:{','.join(mirrors)}", run)
    except KeyboardInterrupt:
        say("the job goes on and ends by itself: see reconciler status ENV; reconciler mirror stop ENV ends it now")
        raise
    return "\n".join(line for job in ended for line in _copied(job, flow))


def _copied(job: EndedJob, flow: str | None) -> Iterator[str]:
    yield f"mirror {job.mirror} has caught up and has stopped by itself"
    for name, flow_status in job.last.flows.items() if job.last is not None else ():
        more = "" if flow in (None, name) else ", copied along; it may be behind"
        lost = sum(loss.offsets for loss in flow_status.lost)
        where = f"{counted(flow_status.partitions, 'partition')} of {counted(flow_status.topics, 'topic')}"
        words = f"{counted(flow_status.records_total, 'record')} in {where}"
        yield f"  flow {name}: {words}{', ' + counted(lost, 'offset') + ' lost' if lost else ''}{more}"
        if undecided := flow_status.catch_up.offsets_undecided if flow_status.catch_up is not None else 0:
            yield f"    not copied: {counted(undecided, 'offset')} behind transactions still open at the source"


def _not_reached(failed: Sequence[EndedJob]) -> ReconcilerError:
    names, why = [], []
    for job in failed:
        names.append(f"mirror {job.mirror} did not catch up")
        said = job.last.detail if job.last is not None and job.last.state in (JobState.FAILED, JobState.STOPPED) else ""
        why.append(said or f"Its log ends with:\n{job.log}")
    todo = "What was copied is committed. Fix the cause and start again: it continues from there."
    return ReconcilerError("; ".join(names), "\n".join(why), todo)


class _Shown:
    """A bar for people who watch, a line now and then for a log."""

    def __init__(self, flow: str | None, bars: Progress | None) -> None:
        self.flow = flow
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}
        self.most: dict[str, int] = {}
        self.said = 0.0

    def take(self, mirror: LiveMirror) -> None:
        flows = [flow for name, flow in mirror.flows.items() if self.flow in (None, name) and flow.catch_up is not None]
        if self.bars is not None:
            for flow in flows:
                self._bar(self.bars, flow)
        elif flows and time.monotonic() - self.said >= TELL_S:
            self.said = time.monotonic()
            for flow in flows:
                say(f"flow {flow.name}: {_words(flow)}")

    def _bar(self, bars: Progress, flow: FlowStatus) -> None:
        lag = flow.catch_up.offsets_left if flow.catch_up is not None else None
        if lag is None:
            return
        self.most[flow.name] = most = max(self.most.get(flow.name, 0), lag)
        if flow.name not in self.tasks:
            self.tasks[flow.name] = bars.add_task(flow.name, total=max(1, most))
        task = self.tasks[flow.name]
        bars.update(task, total=max(1, most), completed=max(1, most) - lag, description=f"{flow.name}: {_words(flow)}")


def _words(flow: FlowStatus) -> str:
    goal = flow.catch_up or CatchUpStatus(0, 0, None)
    left = goal.offsets_left
    offsets = "not all positions known yet" if left is None else f"{counted(left, 'offset')} left"
    done = f"{goal.done} of {goal.partitions} partitions"
    return f"{done}, {offsets}, {flow.records_per_second:,.0f} records/s"


@contextmanager
def _shown(flow: str | None) -> Iterator[_Shown]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    if sys.stderr.isatty():
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            yield _Shown(flow, bars)
    else:
        yield _Shown(flow, None)


def prove(
    session: Session, request: VerificationRequest, mirrors: Sequence[str], progress: Callable[[str], None]
) -> Verification:
    """``mirrors``: those that carry the desired flows. ``progress``: for people who wait. Raises ReconcilerError."""
    began = time.monotonic()
    texts = handovers(session.topology)
    live = _live(session, request, mirrors)
    with interrupted_by_sigterm():
        answers = [_answer(session, request, name, (texts[name], live), progress) for name in mirrors]
    return Verification(
        session.topology.environment,
        request,
        tuple(partition for answer in answers for partition in answered(answer)),
        tuple(str(answer["application_id"]) for answer in answers),
        time.monotonic() - began,
        tuple(filter(None, (left_out_by(flow, session.topology, live) for flow in _flows(session, request, mirrors)))),
    )


def _flows(session: Session, request: VerificationRequest, mirrors: Sequence[str]) -> list[Flow]:
    flows = [flow for name in mirrors for flow in session.topology.flows_of(session.topology.mirrors[name])]
    return [flow for flow in flows if request.flow in (None, flow.name)]


def _live(session: Session, request: VerificationRequest, mirrors: Sequence[str]) -> LiveState:
    """Both sides of the flows that are asked about."""
    sides = {side for flow in _flows(session, request, mirrors) for side in (flow.source, flow.target)}
    live = {side: session.whole(side) for side in sorted(sides)}
    for side, names in unlisted(session.topology, LiveState(live, {})).items():
        live[side] = with_answers(live[side], session.clusters[side].read(names))
    return LiveState(live, {})


def _answer(
    session: Session,
    request: VerificationRequest,
    name: str,
    basis: tuple[str, LiveState],
    progress: Callable[[str], None],
) -> Mapping[str, Any]:
    """``basis``: the mirror's hand-over, and both sides of its flows."""
    handover, live = basis
    flows = _flows(session, request, [name])
    sides = {side: cluster for flow in flows for side in (flow.source, flow.target) if (cluster := live.known(side))}
    asked = request_fields(request, (flow.name for flow in flows), sides)
    mirror = session.topology.mirrors[name]
    return run_in_foreground(ForegroundRun(mirror, session.state, handover, asked, request.master), progress)


RUNS = ".host"
"""Beside the run folders of jobs that ``apply`` on the same machine keeps."""


def host(folders: list[Path], accept: Path) -> None:
    """Returns after SIGTERM, SIGINT or SIGHUP. Raises ReconcilerError for what keeps it from serving at all."""
    accepted = read_accepted(accept)
    require_java()
    spark_submit()
    permit_policies(allowed(os.environ))
    stopping = threading.Event()
    with ExitStack() as stack:
        environments = []
        for folder in folders:
            state = required(state_folder(folder) / RUNS)
            stack.enter_context(environment_lock(state, "mirror host"))
            environments.append(HostedEnvironment(read_topology(folder), state))
        stack.enter_context(ended_by_signals(lambda *_: stopping.set(), signal.SIGINT))
        # Refusals repeat text from __mirror_control.
        serve(environments, accepted, stopping, say)
