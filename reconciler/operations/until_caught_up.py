"""``mirror start --until-caught-up``: mirror jobs that end by themselves, followed to their end with a progress bar.

Border: puts edges into doings, as ``wiring`` does; no arguments, no exit codes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from reconciler.counts import counted
from reconciler.edges.catching_up import Ended, begin, follow
from reconciler.errors import ReconcilerError
from reconciler.executing import Execution
from reconciler.handover import handovers
from reconciler.live import FlowStatus, JobState, LiveMirror
from reconciler.terminal import say

TELL_S = 5.0


def catch_up(execute: Execution, mirrors: Sequence[str], flow: str | None, calm_s: float) -> str:
    """The words to end with. Raises ReconcilerError when a job could not reach its goal."""
    runner, told = execute.session.runner, handovers(execute.session.topology)
    goal = {"flows": [flow] if flow else [], "calm_s": calm_s}
    ended: list[Ended] = []

    def run() -> None:
        runs = [begin(runner, name, told[name], goal, say) for name in mirrors]
        with _shown(flow) as shown:
            ended.extend(follow(runner, runs, shown.take))
        if failed := [one for one in ended if not one.reached]:
            raise _not_reached(failed)

    try:
        execute.by_hand(f"catch-up:{','.join(mirrors)}", run)
    except KeyboardInterrupt:
        say("the job goes on and ends by itself: see reconciler status; reconciler mirror stop ends it now")
        raise
    return "\n".join(line for one in ended for line in _copied(one, flow))


def _copied(one: Ended, flow: str | None) -> Iterator[str]:
    yield f"mirror {one.mirror} has caught up and has stopped by itself"
    for name, found in one.last.flows.items() if one.last is not None else ():
        more = "" if flow in (None, name) else ", copied along; it may be behind"
        lost = sum(int(str(loss["offsets"])) for loss in found.lost)
        where = f"{counted(found.partitions, 'partition')} of {counted(found.topics, 'topic')}"
        words = f"{counted(found.records_total, 'record')} in {where}"
        yield f"  flow {name}: {words}{', ' + counted(lost, 'offset') + ' lost' if lost else ''}{more}"
        undecided = (found.catch_up or {}).get("offsets_undecided")
        if isinstance(undecided, int):
            yield f"    not copied: {counted(undecided, 'offset')} behind transactions still open at the source"


def _not_reached(failed: Sequence[Ended]) -> ReconcilerError:
    what, why = [], []
    for one in failed:
        what.append(f"mirror {one.mirror} did not catch up")
        said = one.last.detail if one.last is not None and one.last.state in (JobState.FAILED, JobState.STOPPED) else ""
        why.append(said or f"Its log ends with:\n{one.log}")
    todo = "What was copied is committed. Mend the cause and start again: it goes on from there."
    return ReconcilerError("; ".join(what), "\n".join(why), todo)


class _Shown:
    """A bar for people who watch, a line now and then for a log."""

    def __init__(self, flow: str | None, bars: Progress | None) -> None:
        self.flow = flow
        self.bars = bars
        self.tasks: dict[str, TaskID] = {}
        self.most: dict[str, int] = {}
        self.said = 0.0

    def take(self, mirror: LiveMirror) -> None:
        flows = [one for name, one in mirror.flows.items() if self.flow in (None, name) and one.catch_up is not None]
        if self.bars is not None:
            for one in flows:
                self._bar(self.bars, one)
        elif flows and time.monotonic() - self.said >= TELL_S:
            self.said = time.monotonic()
            for one in flows:
                say(f"flow {one.name}: {_words(one)}")

    def _bar(self, bars: Progress, one: FlowStatus) -> None:
        left = _left(one)
        if left is None:
            return
        self.most[one.name] = most = max(self.most.get(one.name, 0), left)
        if one.name not in self.tasks:
            self.tasks[one.name] = bars.add_task(one.name, total=max(1, most))
        task = self.tasks[one.name]
        bars.update(task, total=max(1, most), completed=max(1, most) - left, description=f"{one.name}: {_words(one)}")


def _left(one: FlowStatus) -> int | None:
    left = (one.catch_up or {}).get("offsets_left")
    return left if isinstance(left, int) else None


def _words(one: FlowStatus) -> str:
    goal, left = one.catch_up or {}, _left(one)
    offsets = "not all positions known yet" if left is None else f"{counted(left, 'offset')} left"
    return (
        f"{goal.get('done')} of {goal.get('partitions')} partitions, {offsets}, {one.records_per_second:,.0f} records/s"
    )


@contextmanager
def _shown(flow: str | None) -> Iterator[_Shown]:
    if not sys.stderr.isatty():
        yield _Shown(flow, None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Shown(flow, bars)
