"""``mirror start --until-caught-up``: mirror jobs that end by themselves, with a progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from reconciler.backends.mirror_jobs.runner.until_caught_up import EndedJob, begin, follow
from reconciler.errors import ReconcilerError
from reconciler.model.live import JobState, LiveMirror
from reconciler.operations.apply.execution import Execution
from reconciler.render.console import say
from reconciler.replication.status import CatchUpStatus, FlowStatus
from reconciler.resources.mirrors.handover import handovers
from reconciler.text import counted

TELL_S = 5.0


def catch_up(execute: Execution, mirrors: Sequence[str], flow: str | None, calm_s: float) -> str:
    """The words to end with. Raises ReconcilerError when a job could not reach its goal."""
    runner, texts = execute.session.runner, handovers(execute.session.topology)
    goal = {"flows": [flow] if flow else [], "calm_s": calm_s}
    ended: list[EndedJob] = []

    def run() -> None:
        runs = [begin(runner, name, texts[name], goal, say) for name in mirrors]
        with _shown(flow) as shown:
            ended.extend(follow(runner, runs, shown.take))
        if failed := [job for job in ended if not job.reached]:
            raise _not_reached(failed)

    try:
        execute.by_hand(f"catch-up:{','.join(mirrors)}", run)
    except KeyboardInterrupt:
        say("the job goes on and ends by itself: see reconciler status; reconciler mirror stop ends it now")
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
