"""The steps that move consumer groups at a failover: fence, drain, pause, set offsets, lift, start.

Each step recognises that it is done, so the command can be repeated after a kill at any moment.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from reconciler.backends.clusters.groups import Side
from reconciler.errors import ClusterError, ReconcilerError, Unknown, known
from reconciler.kafka.client.cluster import CommittedPosition
from reconciler.model.environment.topology import Principal
from reconciler.model.live import LiveMirror
from reconciler.model.reports.failover import (
    ConsumerMove,
    CopiesSeen,
    FailoverFacts,
    FailoverStep,
    FenceSeen,
    GroupMove,
    PartitionState,
    Report,
    StepResult,
    Way,
)
from reconciler.operations.apply.execution import Execution
from reconciler.operations.cutover.world import StepEnd, in_order
from reconciler.operations.failover import decide, group_offsets
from reconciler.operations.failover.fence import LIFT, RESTORE, Fence, ReadOnlyCopies, fence_planned
from reconciler.operations.failover.rejoin import Rejoin, RejoinPlan
from reconciler.operations.failover.rejoin_live import LiveRejoin, look_apart
from reconciler.operations.failover.rights import StepNeeds, denied
from reconciler.operations.failover.survey import Levers, Survey
from reconciler.operations.mirror import pause as steering
from reconciler.operations.session.session import Session
from reconciler.replication.records.pauses import Scope
from reconciler.resources.mirrors.handover import handovers
from reconciler.resources.mirrors.pause_and_seek import words
from reconciler.text import counted, pace_words, total

ALREADY, DONE, PLANNED, SKIPPED = StepResult.ALREADY, StepResult.DONE, StepResult.PLANNED, StepResult.SKIPPED
LOOK_S = 0.5
PAUSE_CONFIRM_S, LOST_CONFIRM_S = 60.0, 10.0
Say = Callable[[str], None]


class Switch:
    """One move of one environment. Call ``look`` first, and ``carry_out`` once the user has agreed."""

    def __init__(
        self, session: Session, move: ConsumerMove, request: decide.FailoverRequest, say: Say, say_now: Say
    ) -> None:
        self.session = session
        self.move = move
        self.request = request
        self.survey = Survey(session.topology, move, session.visits)
        self.say, self._say_now = say, say_now
        self._began = time.monotonic()
        self._seen_levers = Levers({}, {})
        self.fence = Fence(session.topology, move.flow)
        self.copies = ReadOnlyCopies(session.topology, move.flow)
        self._rejoin: tuple[LiveRejoin, RejoinPlan] | None = None

    def now(self) -> float:
        return time.monotonic()

    def look(self) -> Report:
        """Surveys both sides: planned steps, and checks that prevent them. Raises ClusterError if the destination
        cannot be read."""
        self.survey.try_origin()
        self._seen_levers = self.levers()

        # Existing deny rules, and for a failover with --fence the missing ones.
        if self.request.fence and self.survey.lost is None:
            partitions = known(self.survey.partitions(), "Which topics to fence is not known.")
            fence = self.fence.look({state.source[0] for state in partitions})
        elif self.move.way is Way.FAILOVER:
            fence = FenceSeen()
        else:
            made = self.fence.made()
            fence = FenceSeen(obstacle=made.with_todo) if isinstance(made, Unknown) else FenceSeen(made)

        # Steps and rights follow from the groups with their due offsets set.
        away = self.move.way is Way.FAILBACK and self.survey.lost is not None
        copies = CopiesSeen() if away else self.copies.look()
        facts = replace(self.survey.look(self._seen_levers), fence=fence, copies=copies)
        projected = replace(facts, groups=tuple(group_offsets.written(move, {}) for move in facts.groups))
        paused = self.move.started in self._seen_levers.pauses
        self._rejoin, obstacles = look_apart(self.session, facts, self.request.diverged, self.fence, paused=paused)
        steps = tuple(self._planned(projected))
        missing = denied(tuple(self._needs(facts, steps)), lost=self.survey.lost is not None)
        return self._report(replace(projected, denied=(*obstacles, *missing)), steps, dry=True, lag=None)

    def nothing_done(self, report: Report) -> Report:
        """The report of ``look``, for a move that is already complete, in the form of a run that found nothing to
        do."""
        return replace(report, dry=False, left_behind=self._left())

    def levers(self) -> Levers:
        """Present jobs and pauses of both flows. Without the origin, what it keeps is left out."""
        flows = [name for name in (self.move.drained, self.move.started) if name]
        pauses, jobs, unread = {}, {}, {}
        for flow in flows:
            if self.survey.lost is not None and flow == self.move.started:
                continue  # the origin keeps its status and pauses
            jobs[flow] = steering.job_of(self.session, flow)
            try:
                pause = steering.pause_of(self.session, flow)
            except ClusterError as error:
                if self.survey.lost is None or error.kind != "unreachable":
                    raise
                mirror = steering.mirror_of(self.session.topology, flow)
                unread[flow] = f"the status of its mirror, {mirror}, is kept on {error.cluster}, which does not answer"
                continue
            if pause is not None:
                pauses[flow] = pause
        return Levers(pauses, jobs, unread)

    def carry_out(self, execute: Execution, report: Report) -> Report:
        """Takes every step and audits it. A failed step ends the move, since later steps depend on it."""
        facts, moved = report.seen, list[GroupMove]()
        acts: dict[str, Callable[[], StepEnd]] = {}
        if self._rejoin is not None:
            world, plan = self._rejoin
            world.execute = execute
            acts |= Rejoin(world, plan).acts()
        acts |= {
            **({"fence": lambda: self.fence.make(facts)} if self.request.fence else {}),
            "drain": lambda: self._drain(facts),
            "pause": lambda: self.pause(facts),
            "offsets": lambda: self._offsets(execute, moved),
            **({LIFT: self.copies.lift} if self._copies_step(facts, Way.FAILOVER) else {}),
            "start": lambda: self.start(facts),
            **({RESTORE: self.copies.restore} if self._copies_step(facts, Way.FAILBACK) else {}),
            **({"unfence": self.fence.take_back} if self._unfences(facts) else {}),
        }

        prefix = f"{self.move.way}:{self.move.flow}"
        steps = in_order(self, acts.items(), lambda name, act: execute.perform(f"{prefix}:{name}", act))
        lag = self._left() if len(steps) == len(acts) else None
        groups = tuple(moved) or tuple(map(group_offsets.untouched, facts.groups))
        return self._report(replace(facts, groups=groups), steps, dry=False, lag=lag)

    def _report(self, facts: FailoverFacts, steps: tuple[FailoverStep, ...], *, dry: bool, lag: int | None) -> Report:
        environment, checks = self.session.topology.environment, decide.checks_of(facts, self.request)
        return Report(environment, facts, checks, steps, dry, lag, time.monotonic() - self._began)

    # what would be done

    def _planned(self, facts: FailoverFacts) -> Iterator[FailoverStep]:
        """Planned steps in order, for ``--dry-run`` and the question. Each says whether an earlier run has already
        taken it."""
        move, flow = self.move, facts.flow
        # The order is that of ``carry_out``. The fence comes before the drain: while producers write, a flow never has
        # copied everything. Offsets are set after the pause, because a sync of groups could overwrite them.
        levers = self._seen_levers
        if self._rejoin is not None:
            yield from self._rejoin[1].steps()
        if self.request.fence:
            yield FailoverStep("fence", *fence_planned(facts))
        # Without the job's report nothing says whether it is paused, or how far it has copied: waiting for it would
        # only end with the time limit.
        if flow is not None and flow.unread:
            yield FailoverStep("pause", SKIPPED, f"{move.drained} cannot be paused: {flow.unread}")
        elif flow is not None and self._pauses(levers):
            # An earlier run got as far as its pause, so it had drained before: the flow copies nothing that one could
            # wait for.
            if decide.ours(flow.pause_reason):
                yield FailoverStep("pause", ALREADY, f"{move.drained} is paused: {flow.pause_reason}")
            else:
                if not facts.reachable:
                    yield FailoverStep("drain", SKIPPED, f"{move.origin} does not answer")
                elif flow.left:
                    text = f"wait until {move.drained} has copied {_offsets_words(flow.left)}"
                    yield FailoverStep("drain", PLANNED, f"{text}, at most {self.request.drain_s:g} s")
                else:
                    yield FailoverStep("drain", ALREADY, f"{move.drained} has copied everything up to now")
                yield FailoverStep("pause", PLANNED, f"pause {move.drained}: {move.destination} takes writes")
        elif flow is not None and flow.left:
            yield FailoverStep("drain", PLANNED, f"wait until {move.drained} has copied {_offsets_words(flow.left)}")
        yield group_offsets.offsets_planned(facts.groups, move.destination)
        if lift := self._copies_step(facts, Way.FAILOVER):
            yield lift
        if move.started:
            yield FailoverStep("start", *self._start_planned(facts, levers))
        if restore := self._copies_step(facts, Way.FAILBACK):
            yield restore
        if self._unfences(facts):
            rules = counted(len(facts.fence.made), "deny rule")
            yield FailoverStep(
                "unfence", PLANNED, f"take back {rules} on {move.destination}: producers may write again"
            )

    def _needs(self, facts: FailoverFacts, steps: Collection[FailoverStep]) -> Iterator[StepNeeds]:
        """Rights that the steps need, by principal and cluster."""
        planned = {step.name for step in steps if step.result is PLANNED}
        clusters = self.session.topology.clusters
        if wanted := group_offsets.unset(facts.groups):
            topics = sorted({topic for topics in wanted.values() for topic in topics})
            yield StepNeeds(clusters[self.move.destination], Principal.MIRROR, tuple(topics), tuple(sorted(wanted)))
        # One question for each principal and cluster, with all that it needs there: brokers are asked once for it.
        alters = dict[str, str]()
        if planned & {"fence", "unfence"}:
            done = "made" if "fence" in planned else "taken back"
            alters[self.fence.cluster.name] = f"the fence could not be {done}"
        if planned & {LIFT, RESTORE}:
            done = "taken back" if LIFT in planned else "made again"
            alters[self.copies.cluster.name] = f"the deny rules of copies could not be {done}"
        writes = dict[str, str]()
        if "start" in planned and self.move.started in self._seen_levers.pauses:
            writes[steering.place_of(self.session, self.move.started).name] = "the flow could not be resumed"
        if "pause" in planned:
            writes[steering.place_of(self.session, self.move.drained).name] = "the flow could not be paused"
        for name in sorted(alters.keys() | writes.keys()):
            yield StepNeeds(clusters[name], Principal.APPLY, alters=alters.get(name, ""), writes=writes.get(name, ""))

    def _unfences(self, facts: FailoverFacts) -> bool:
        return self.move.way is Way.FAILBACK and bool(facts.fence.made)

    def _copies_step(self, facts: FailoverFacts, way: Way) -> FailoverStep | None:
        step = LIFT if way is Way.FAILOVER else RESTORE
        return self.copies.planned(facts.copies, step) if self.move.way is way else None

    def _start_planned(self, facts: FailoverFacts, levers: Levers) -> StepEnd:
        """The planned result for the flow of the other direction: it already runs, cannot write because its target does
        not answer, or is to be resumed or started."""
        name = self.move.started
        job, paused = levers.jobs.get(name), name in levers.pauses
        if _runs(job) and not paused:
            return ALREADY, f"{name} runs"
        if not facts.reachable:
            return SKIPPED, f"{name} writes to {self.move.origin}, which does not answer"
        return PLANNED, f"{'resume' if paused else 'start'} {name}"

    def _pauses(self, levers: Levers) -> bool:
        """Whether this move pauses its flow: a failover does; a failback pauses only a flow that a failover has
        started."""
        if self.move.way is Way.FAILOVER:
            return True
        pause = levers.pauses.get(self.move.started)
        return pause is not None and decide.started_by(pause.reason, self.move.drained)

    # the steps

    def _drain(self, facts: FailoverFacts) -> StepEnd:
        """Waits until the flow has copied all that was on the origin when this began."""
        flow, name = facts.flow, self.move.drained
        if flow is None:
            return SKIPPED, self.move.note or "no flow to drain"
        if not facts.reachable:
            return SKIPPED, f"{self.move.origin} does not answer"
        if flow.paused_by:
            return SKIPPED, f"{name} is paused with {_offsets_words(flow.left)} left"
        goal = known(self.survey.partitions(), "Nothing was changed.")

        # A partition without a leader has an unknown end, so no position proves that it is copied.
        if (unread := decide.unread_ends(goal)) and not self.request.accept_loss:
            raise ReconcilerError(
                f"whether {name} has copied {unread} is not known: {self.move.origin} does not report where they end",
                "Nothing was changed: consumers and the flow are as before.",
                "Wait until their leaders answer, or leave uncopied records behind with --accept-loss.",
            )
        # The goal is fixed at the present ends: if producers keep writing, a moving goal would never be reached.
        begin_left = _left_of(goal, self.survey.positions(name))
        began, shown = time.monotonic(), -1
        while (left := _left_of(goal, self.survey.positions(name))) > 0:
            if left != shown:
                self._say_now(_drain_line(begin_left, left, time.monotonic() - began))
                shown = left
            if time.monotonic() - began > self.request.drain_s:
                if self.request.accept_loss:
                    return DONE, f"left on {self.move.origin}, as accepted: {_offsets_words(left)}"
                raise ReconcilerError(
                    f"{name} has {left:,} of {counted(begin_left, 'offset')} left after {self.request.drain_s:g} s",
                    "Nothing was changed: consumers and the flow are as before.",
                    "Stop the producers or give it longer (--drain), or leave them behind with --accept-loss.",
                )
            time.sleep(LOOK_S)
        if begin_left == 0:
            return ALREADY, f"{name} has copied everything up to now"
        return DONE, f"{name} has copied everything up to when this began: {begin_left} offsets"

    def pause(self, facts: FailoverFacts) -> StepEnd:
        """Pauses the drained flow, and waits until its job confirms it: from then on the destination may take
        writes."""
        name = self.move.drained
        levers = self.levers()
        if facts.flow is None or not self._pauses(levers):
            return SKIPPED, f"{name or 'no flow'} continues as it is"
        if name in levers.unread:
            return SKIPPED, f"{name} cannot be paused: {levers.unread[name]}"
        pause = levers.pauses.get(name)
        if pause is not None:
            return ALREADY, f"{name} is paused {words(pause)}"

        # The pause's reason names the flow that this failover starts, so that the failback pauses that flow and no
        # other.
        back = self.move.started
        waits = bool(back) and (back in levers.pauses or not _runs(levers.jobs.get(back)))
        fresh = self.move.way is Way.FAILOVER and facts.reachable and waits
        reason = decide.pause_reason(self.move, back if fresh else "")

        # A job that died with the origin confirms no pause, but obeys the record once it runs again.
        if not facts.reachable:
            self.say(f"pause    {name}: its mirror may confirm within {LOST_CONFIRM_S:g} s, or be lost, too")
        try:
            confirm_s = PAUSE_CONFIRM_S if facts.reachable else LOST_CONFIRM_S
            notes = steering.hold(self.session, [Scope(name)], reason, confirm_s)
        except ClusterError:
            raise
        except ReconcilerError as error:
            if facts.reachable:
                raise
            notes = [error.what]
        text = f"; {'; '.join(notes)}" if notes else ""
        return DONE, f"{name} is paused, {self.move.destination} takes writes{text}"

    def _offsets(self, execute: Execution, moved: list[GroupMove]) -> StepEnd:
        # Groups are read again: members may have read on since the report that the user agreed to.
        """Sets offsets of groups that have no members at the destination. ``moved`` gets all groups, as they are
        afterwards."""
        groups = self.survey.exact_groups()
        execute.require_lock()  # the wait for exact offsets may have outlasted the lock
        moved += set_positions(self.survey.destination, groups)
        count = sum(offset.after != offset.before for group in moved for offset in group.offsets)
        wrong = group_offsets.otherwise(moved)
        if not count and not wrong:
            return ALREADY, "all offsets were set already"
        due = counted(len(group_offsets.due(groups)), "group")
        text = f"{counted(count, 'offset')} of {due} set on {self.move.destination}"
        return DONE, text + wrong

    def start(self, facts: FailoverFacts) -> StepEnd:
        """Lets the flow of the other direction run, so that what clients write at the destination reaches the
        origin."""
        name = self.move.started
        if not name:
            return SKIPPED, self.move.note or "no flow to start"
        # The pause is lifted before the job starts, so that the job does not begin paused.
        planned = self._start_planned(facts, self.levers())
        if planned[0] is not PLANNED:
            return planned
        lines = []
        if steering.pause_of(self.session, name) is not None:
            lines = steering.lift(self.session, [Scope(name)], PAUSE_CONFIRM_S)
        if not _runs(steering.job_of(self.session, name)):
            mirror = steering.mirror_of(self.session.topology, name)
            self.session.runner.start(mirror, handovers(self.session.topology)[mirror], self.say)
        return DONE, "; ".join([f"{name} runs", *lines])

    def _left(self) -> int | None:
        """Number of offsets on the origin that the flow did not copy; None if unknown."""
        if not self.move.drained or self.survey.lost is not None:
            return None
        partitions = self.survey.partitions()
        return None if isinstance(partitions, Unknown) else total(partition.left for partition in partitions)


def set_positions(side: Side, groups: Collection[GroupMove]) -> tuple[GroupMove, ...]:
    """Commits due offsets on one side, and returns the resulting groups."""
    asked = {
        group: {each.destination: CommittedPosition(each.translated.offset or 0, each.metadata) for each in offsets}
        for group, offsets in group_offsets.due(tuple(groups)).items()
    }
    refused = side.commit(asked, [move.group for move in groups if move.origin.is_share])
    return tuple(group_offsets.written(move, refused.get(move.group, {})) for move in groups)


def _drain_line(begin_left: int, left: int, seconds: float) -> str:
    """``begin_left``: offsets left at the beginning, ``seconds`` ago."""
    done = max(0, begin_left - left)
    filled = 20 * done // max(1, begin_left)
    pace = pace_words(done, begin_left, seconds)
    words = f"{left:,} of {begin_left:,} left ({seconds:.0f} s{', ' + pace if pace else ''})"
    return f"drain    [{'#' * filled}{'.' * (20 - filled)}] {words}"


def _left_of(goal: tuple[PartitionState, ...], positions: Mapping[tuple[str, int], int]) -> int:
    """Number of offsets before the ends of ``goal`` that are not copied yet."""
    return sum(
        max(0, (partition.end or 0) - positions.get(partition.target, partition.position or 0))
        for partition in goal
        if partition.end is not None
    )


def _runs(job: LiveMirror | Unknown | None) -> bool:
    return isinstance(job, LiveMirror) and job.state.runs


def _offsets_words(offsets: int | None) -> str:
    return "an unknown number of offsets" if offsets is None else counted(offsets, "offset")
