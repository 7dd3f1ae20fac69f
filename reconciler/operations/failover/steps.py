"""Failover and failback, step by step: drain, pause, offsets, start. Each step looks first and may be done again.

Killed at any moment, run again: what stands is found and told as such. Border: no arguments, no exit codes, no words
for people but progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from reconciler import steering
from reconciler.counts import counted
from reconciler.edges.moving import Committed
from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.executing import Execution
from reconciler.failing import (
    FailoverWish,
    checks_of,
    due,
    offsets_planned,
    otherwise,
    ours,
    pause_reason,
    started_by,
    written,
)
from reconciler.failovers import GroupMove, Move, PartitionState, Report, Seen, Step, StepResult, Way
from reconciler.handover import handovers
from reconciler.live import JobState, LiveMirror
from reconciler.pausing import words
from reconciler.surveying import Levers, Survey
from reconciler.wiring import Session
from replication.pauses import Scope

LOOK_S = 0.5
PAUSE_CONFIRM_S, LOST_CONFIRM_S = 60.0, 10.0
Say = Callable[[str], None]


class Switch:
    """One move of one environment. ``look`` first; ``carry_out`` once somebody has agreed."""

    def __init__(self, session: Session, move: Move, wish: FailoverWish, say: Say) -> None:
        self.session = session
        self.move = move
        self.wish = wish
        self.survey = Survey(session.topology, move)
        self._say = say
        self._began = time.monotonic()
        self._seen_levers = Levers({}, {})

    def look(self) -> Report:
        """What would be done, and what stands in the way. Raises ClusterError when the destination cannot be read."""
        self.survey.try_origin()
        self._seen_levers = self.levers()
        seen = self.survey.look(self._seen_levers)
        projected = replace(seen, groups=tuple(written(one, {}) for one in seen.groups))
        return self._report(projected, tuple(self._planned(projected)), dry=True)

    def nothing_done(self, report: Report) -> Report:
        """``look``'s report of a move that stands already, as the run that found nothing to do tells it."""
        return replace(report, dry=False, left_behind=self._left())

    def levers(self) -> Levers:
        flows = [name for name in (self.move.drained, self.move.started) if name]
        pauses, jobs = {}, {}
        for flow in flows:
            if self.survey.lost is not None and flow == self.move.started:
                continue  # its status and its pauses are kept on the origin
            jobs[flow] = steering.job_of(self.session, flow)
            if (pause := steering.pause_of(self.session, flow)) is not None:
                pauses[flow] = pause
        return Levers(pauses, jobs)

    def carry_out(self, execute: Execution, report: Report) -> Report:
        """Every step, audited. A step that fails ends the move there: what comes after rests on it."""
        steps: list[Step] = []
        seen, left = report.seen, None
        acts: tuple[tuple[str, Callable[[], Step]], ...] = (
            ("drain", lambda: self._drain(seen)),
            ("pause", lambda: self._pause(seen)),
        )
        for name, act in acts:
            steps.append(self._step(execute, name, act))
            if steps[-1].result is StepResult.FAILED:
                return self._report(seen, tuple(steps), dry=False)
        moved: list[GroupMove] = []
        steps.append(self._step(execute, "offsets", lambda: self._offsets(moved)))
        if steps[-1].result is not StepResult.FAILED:
            steps.append(self._step(execute, "start", lambda: self._start(seen)))
            left = self._left()
        return self._report(replace(seen, groups=tuple(moved) or seen.groups), tuple(steps), dry=False, left=left)

    def _report(self, seen: Seen, steps: tuple[Step, ...], *, dry: bool, left: int | None = None) -> Report:
        checks = checks_of(seen, self.wish)
        seconds = time.monotonic() - self._began
        return Report(self.session.topology.environment, seen, checks, steps, dry, left, seconds)

    def _step(self, execute: Execution, name: str, act: Callable[[], Step]) -> Step:
        began = time.monotonic()
        found: list[Step] = []
        try:
            execute.require_lock()
            execute.by_hand(f"{self.move.way}:{self.move.flow}:{name}", lambda: found.append(act()))
        except ReconcilerError as error:
            found[:] = [Step(name, StepResult.FAILED, str(error))]
        step = replace(found[0], seconds=time.monotonic() - began)
        self._say(f"{step.name:8} {step.result.value:8} {step.text}")
        return step

    # what would be done

    def _planned(self, seen: Seen) -> Iterator[Step]:
        move, flow = self.move, seen.flow
        levers = self._seen_levers
        if flow is not None and self._pauses(levers):
            if ours(flow.pause_reason):
                yield Step("pause", StepResult.ALREADY, f"{move.drained} is paused: {flow.pause_reason}")
            else:
                text = f"wait until {move.drained} has copied {_left(flow.left)}, at most {self.wish.drain_s:g} s"
                yield Step("drain", StepResult.PLANNED, text) if seen.reachable and flow.left else self._drained(seen)
                yield Step("pause", StepResult.PLANNED, f"pause {move.drained}: {move.destination} takes writes")
        elif flow is not None and flow.left:
            yield Step("drain", StepResult.PLANNED, f"wait until {move.drained} has copied {_left(flow.left)}")
        yield offsets_planned(seen.groups, move.destination)
        if move.started:
            yield self._start_planned(seen, levers)

    def _drained(self, seen: Seen) -> Step:
        if not seen.reachable:
            return Step("drain", StepResult.SKIPPED, f"{self.move.origin} does not answer")
        return Step("drain", StepResult.ALREADY, f"{self.move.drained} has copied everything up to now")

    def _start_planned(self, seen: Seen, levers: Levers) -> Step:
        name = self.move.started
        job, paused = levers.jobs.get(name), name in levers.pauses
        if _runs(job) and not paused:
            return Step("start", StepResult.ALREADY, f"{name} runs")
        if not seen.reachable:
            return Step("start", StepResult.SKIPPED, f"{name} writes to {self.move.origin}, which does not answer")
        return Step("start", StepResult.PLANNED, f"{'resume' if paused else 'start'} {name}")

    def _pauses(self, levers: Levers) -> bool:
        """A failover pauses its flow. A failback pauses the flow that a failover has started, and no other."""
        if self.move.way is Way.FAILOVER:
            return True
        pause = levers.pauses.get(self.move.started)
        return pause is not None and started_by(pause.reason, self.move.drained)

    # the steps

    def _drain(self, seen: Seen) -> Step:
        flow, name = seen.flow, self.move.drained
        if flow is None:
            return Step("drain", StepResult.SKIPPED, self.move.note or "no flow to drain")
        if not seen.reachable:
            return Step("drain", StepResult.SKIPPED, f"{self.move.origin} does not answer")
        if flow.paused_by:
            return Step("drain", StepResult.SKIPPED, f"{name} is paused with {_left(flow.left)} left")
        goal = self._goal()
        if isinstance(goal, Unknown):
            raise ReconcilerError(goal.error, "Nothing was changed.", goal.todo)
        total = _left_of(goal, self.survey.destination.positions(name))
        began = time.monotonic()
        bar = _Bar(total, self._say)
        while (left := _left_of(goal, self.survey.destination.positions(name))) > 0:
            bar.tell(left)
            if time.monotonic() - began > self.wish.drain_s:
                if self.wish.accept_loss:
                    return Step("drain", StepResult.DONE, f"left on {self.move.origin}, as accepted: {_left(left)}")
                raise ReconcilerError(
                    f"{name} has {left:,} of {counted(total, 'offset')} left after {self.wish.drain_s:g} s",
                    "Nothing was changed: consumers and the flow are as before.",
                    "Stop the producers or give it longer (--drain), or leave them behind with --accept-loss.",
                )
            time.sleep(LOOK_S)
        if total == 0:
            return Step("drain", StepResult.ALREADY, f"{name} has copied everything up to now")
        return Step("drain", StepResult.DONE, f"{name} has copied everything up to when this began: {total} offsets")

    def _goal(self) -> tuple[PartitionState, ...] | Unknown:
        return self.survey.partitions()

    def _pause(self, seen: Seen) -> Step:
        name = self.move.drained
        levers = self.levers()
        if seen.flow is None or not self._pauses(levers):
            return Step("pause", StepResult.SKIPPED, f"{name or 'no flow'} goes on as it is")
        pause = levers.pauses.get(name)
        if pause is not None:
            return Step("pause", StepResult.ALREADY, f"{name} is paused {words(pause)}")
        fresh = self.move.way is Way.FAILOVER and seen.reachable and self._would_start(levers)
        starts = self.move.started if fresh else ""
        reason = pause_reason(self.move, starts)
        if not seen.reachable:
            self._say(f"pause    {name}: its mirror may confirm within {LOST_CONFIRM_S:g} s, or be lost, too")
        try:
            notes = steering.hold(
                self.session, Scope(name), reason, PAUSE_CONFIRM_S if seen.reachable else LOST_CONFIRM_S
            )
        except ClusterError:
            raise
        except ReconcilerError as error:
            if seen.reachable:
                raise
            notes = [error.what]  # it is recorded; a job that died with the origin confirms nothing
        told = f"; {'; '.join(notes)}" if notes else ""
        return Step("pause", StepResult.DONE, f"{name} is paused, {self.move.destination} takes writes{told}")

    def _would_start(self, levers: Levers) -> bool:
        name = self.move.started
        return bool(name) and (name in levers.pauses or not _runs(levers.jobs.get(name)))

    def _offsets(self, moved: list[GroupMove]) -> Step:
        groups = self.survey.exact_groups()
        wanted = due(groups)
        asked = {
            group: {one.destination: Committed(one.translated.offset or 0, one.metadata) for one in offsets}
            for group, offsets in wanted.items()
        }
        refused = self.survey.destination.commit(asked)
        moved += [written(group, refused.get(group.group, {})) for group in groups]
        count = sum(map(len, wanted.values())) - sum(map(len, refused.values()))
        wrong = otherwise(moved)
        if not count and not wrong:
            return Step("offsets", StepResult.ALREADY, "all offsets were set already")
        text = f"{counted(count, 'offset')} of {counted(len(wanted), 'group')} set on {self.move.destination}"
        return Step("offsets", StepResult.DONE, text + wrong)

    def _start(self, seen: Seen) -> Step:
        name = self.move.started
        if not name:
            return Step("start", StepResult.SKIPPED, self.move.note or "no flow to start")
        planned = self._start_planned(seen, self.levers())
        if planned.result is not StepResult.PLANNED:
            return planned
        told = []
        if steering.pause_of(self.session, name) is not None:
            told = steering.lift(self.session, Scope(name), PAUSE_CONFIRM_S)
        if not _runs(steering.job_of(self.session, name)):
            mirror = steering.mirror_of(self.session, name)
            self.session.runner.start(mirror, handovers(self.session.topology)[mirror], self._say)
        return Step("start", StepResult.DONE, "; ".join([f"{name} runs", *told]))

    def _left(self) -> int | None:
        """Offsets on the origin that the flow did not copy; None when the origin does not answer."""
        if not self.move.drained or self.survey.lost is not None:
            return None
        found = self.survey.partitions()
        return None if isinstance(found, Unknown) else sum(one.left or 0 for one in found)


class _Bar:
    """Progress of a drain, a line whenever it has moved."""

    def __init__(self, total: int, say: Say) -> None:
        self._total = total
        self._say = say
        self._told = -1
        self._began = time.monotonic()

    def tell(self, left: int) -> None:
        if left == self._told:
            return
        self._told = left
        done = 0 if self._total == 0 else max(0, self._total - left)
        filled = 20 * done // max(1, self._total)
        bar = "#" * filled + "." * (20 - filled)
        self._say(f"drain    [{bar}] {left:,} of {self._total:,} left ({time.monotonic() - self._began:.0f} s)")


def _left_of(goal: tuple[PartitionState, ...], positions: Mapping[tuple[str, int], int]) -> int:
    """Offsets before the ends of ``goal`` that are not copied yet."""
    return sum(
        max(0, (one.end or 0) - positions.get(one.target, one.position or 0)) for one in goal if one.end is not None
    )


def _runs(job: LiveMirror | Unknown | None) -> bool:
    return isinstance(job, LiveMirror) and job.state in (JobState.STARTING, JobState.RUNNING)


def _left(offsets: int | None) -> str:
    return "an unknown number of offsets" if offsets is None else counted(offsets, "offset")
