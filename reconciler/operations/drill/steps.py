"""The course of a drill: its client writes and reads; the canary fails over by the steps of a cut-over, and back.

A killed drill leaves at most deny rules on its canary, a pause of it, and a copy that clients may write. The next drill
first reverts these, and lets its group begin at the ends of all partitions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from reconciler.errors import ReconcilerError
from reconciler.model.reports.cutover import CutoverPlan, CutoverStep, GroupSeen
from reconciler.model.reports.drill import BackStep, CanaryRecords, DrillPlaces, RecoveryPoint
from reconciler.model.reports.failover import FailoverStep, GroupMove, Key, PartitionState, StepResult
from reconciler.operations.cutover.decide import group_seen
from reconciler.operations.cutover.steps import CutoverRun, fresh_journal
from reconciler.operations.cutover.world import CutoverWorld, StepEnd, in_order, step_end, unfenced
from reconciler.operations.drill.decide import PointWatch, tally, uncopied
from reconciler.operations.failover.group_offsets import otherwise
from reconciler.text import counted

DONE, SKIPPED, FAILED = StepResult.DONE, StepResult.SKIPPED, StepResult.FAILED
BATCH, PAUSE_S, AFTER = 12, 0.2, 60
"""Records of one batch at the origin; seconds between two batches; records written after each move."""
NOT_OF_A_DRILL = frozenset({CutoverStep.BEFORE, CutoverStep.CLIENTS, CutoverStep.AFTER})


class DrillWorld(CutoverWorld, Protocol):
    """The port of a drill: a cut-over of the canary, and the canary's client; ``live`` implements it, tests fake it.
    ``at_switch``: the client's reaction to the destination's address, in place of the hook *switch*; no hook of the
    environment runs. ``strange``: records in the canary's topics that are not from this drill."""

    places: DrillPlaces
    at_switch: Callable[[], str]
    strange: int

    def copied(self) -> Mapping[Key, PartitionState]:
        """Ends of the canary on the origin, and positions of its copy."""
        ...

    def copied_back(self) -> Mapping[Key, PartitionState]:
        """Ends on the destination, and positions of the copy back. Empty if no flow carries it back."""
        ...

    def to_ends(self) -> None:
        """Lets the group begin at the ends of all partitions, on both sides."""
        ...

    def write(self, numbers: Sequence[int], *, there: bool) -> None:
        """Returns once the brokers have acknowledged all records. ``there``: on the destination."""
        ...

    def read(self, share: float, *, there: bool) -> Sequence[int]:
        """Reads from the group's positions, up to this share of the existing records, and commits."""
        ...

    def compare(self) -> tuple[int, int]:
        """Number of this drill's records compared on both sides, and number of differences."""
        ...


@dataclass
class DrillCourse:
    """Results of a drill as far as it went: fields of its report."""

    steps: tuple[FailoverStep, ...] = ()
    back_steps: tuple[FailoverStep, ...] = ()
    recovery_s: float | None = None
    back_s: float | None = None
    point: RecoveryPoint | None = None
    positions: tuple[GroupSeen, ...] = ()
    records: CanaryRecords = field(default_factory=CanaryRecords)
    failure: str = ""
    """Why it ended early, or empty."""
    left: tuple[str, ...] = ()
    """Changes that could then not be reverted."""


def take_back(world: DrillWorld) -> tuple[str, ...]:
    """Reverts what a killed drill may have left on its canary. Returns words for what it reverted. Raises
    ReconcilerError."""
    leftovers = []
    _, made = world.rules()
    if made:
        world.unfence(made)
        leftovers.append(f"{counted(len(made), 'deny rule')} on the canary")
    done, _ = world.resume()
    if done:
        leftovers.append("a pause of the canary")
    if world.restore()[0] is DONE:
        leftovers.append("a copy of the canary that others may write")
    return tuple(leftovers)


class DrillRun:
    """One drill with one plan. ``write_s``: how long the canary is written at the origin."""

    def __init__(self, world: DrillWorld, plan: CutoverPlan, write_s: float, now_ms: Callable[[], int]) -> None:
        self.world, self.plan = world, plan
        self._write_s, self._now_ms = write_s, now_ms
        self._written: list[int] = []
        self._read: list[int] = []
        self._compared = (0, 0)
        self._began = 0.0
        self.course = DrillCourse()
        world.at_switch = self._at_destination

    def run(self) -> DrillCourse:
        """Never leaves the canary at the destination silently: the course names what could not be reverted."""
        course = self.course
        try:
            # Older records of the canary are copied and read first, so that only this drill's records are measured.
            self.world.say("canary       waits until it is copied, and sets its group to the ends")
            self._await_copied(self.world.copied)
            self._await_copied(self.world.copied_back)
            self.world.to_ends()
            course.point = self._write_and_watch()

            # The recovery time runs from here until the group reads at the destination (`_at_destination`).
            self._began = self.world.now()
            journal = fresh_journal(self.plan, "", "", self._now_ms())
            report = CutoverRun(self.world, self.plan, journal, self._now_ms).run()
            course.steps = tuple(step for step in report.steps if step.name not in NOT_OF_A_DRILL)
            course.positions = report.groups
            if report.failed is not None:
                raise ReconcilerError(f"the failover ended at step {report.failed.name}: {report.failed.text}")

            # The recovery time of the way back runs from here until the group reads at the origin again.
            self._began = self.world.now()
            course.back_steps = in_order(self.world, self._acts_back(), self.world.perform)
            last = course.back_steps[-1]
            if last.result is FAILED:
                raise ReconcilerError(f"the way back ended at step {last.name}: {last.text}")
        except ReconcilerError as error:
            course.failure = str(error)
            try:
                self.world.perform("take-back", self._take_back)
            except ReconcilerError as another:
                course.left = (str(another),)
        course.records = tally(self._written, self._read, self.world.strange, self._compared)
        return course

    def _take_back(self) -> StepEnd:
        leftovers = take_back(self.world)
        return step_end(bool(leftovers), f"taken back: {', '.join(leftovers) or 'nothing'}")

    def _write_and_watch(self) -> RecoveryPoint:
        """Writes for ``write_s`` seconds; after each batch counts acknowledged records that are not copied. The worst
        count is the recovery point. Half of the records are read at the end; the other half must be read at the
        destination, from the translated position."""
        world, watch, until = self.world, PointWatch(), self.world.now() + self._write_s
        world.say(f"canary       writes on {self.plan.origin} for {self._write_s:g} s")
        while world.now() < until:
            self._write(BATCH, there=False)
            at = world.now()
            states = world.copied()
            watch.wrote(at, states)
            watch.look(world.now(), states)
            world.sleep(PAUSE_S)
        self._await_copied(world.copied, watch)
        self._read += world.read(0.5, there=False)
        return watch.worst

    def _at_destination(self) -> str:
        """The recovery time ends once the group has read a record at the destination."""
        world, places = self.world, self.world.places
        own: list[int] = []
        fresh = list(world.read(1.0, there=True))
        if places.written:
            own = self._write(AFTER, there=True)
            # The flow of the way back gets records that the group has not read.
            fresh += world.read(0.5 if places.back else 1.0, there=True)
        self._read += fresh
        if not (set(fresh) & set(own) if own else fresh):
            todo = "Check the canary and its group on both clusters, and run the drill again."
            raise ReconcilerError(f"the group read nothing on {self.plan.destination}", "It has not recovered.", todo)
        self.course.recovery_s = world.now() - self._began
        wrote = f", of {counted(len(own), 'record')} written there" if own else ""
        return f"the group read {counted(len(fresh), 'record')} on {self.plan.destination}{wrote}"

    # the way back

    def _acts_back(self) -> Iterator[tuple[BackStep, Callable[[], StepEnd]]]:
        """Steps in the order of a failback: the group is set before the flow resumes, and the fence is removed once the
        origin has all records."""
        origin = self.plan.origin
        if self.world.places.back:
            yield BackStep.DRAIN, self._drain_back
        yield BackStep.GROUPS, self._groups_back
        yield BackStep.RESUME, self._resume
        if self.plan.lifts:
            yield BackStep.RESTORE, self.world.restore
        yield BackStep.UNFENCE, partial(unfenced, self.world, f"no fence rule is left on {origin}", f" on {origin}")
        yield BackStep.CLIENT, self._client_back
        yield BackStep.COMPARE, self._compare

    def _drain_back(self) -> StepEnd:
        self._await_copied(self.world.copied_back)
        return DONE, f"{self.world.places.back} has copied what was written on {self.plan.destination}"

    def _groups_back(self) -> StepEnd:
        moves: tuple[GroupMove, ...] = self.world.groups_back()
        count = sum(offset.after != offset.before for move in moves for offset in move.offsets)
        self.course.positions += tuple(group_seen(move, ()) for move in moves)
        return step_end(bool(count), f"{counted(count, 'offset')} set on {self.plan.origin}{otherwise(moves)}")

    def _resume(self) -> StepEnd:
        done, note = self.world.resume()
        return step_end(done, f"{self.plan.flow} copies the canary again", note)

    def _client_back(self) -> StepEnd:
        wrote = self._write(AFTER, there=False)
        fresh = self.world.read(1.0, there=False)
        self._read += fresh
        self.course.back_s = self.world.now() - self._began
        text = f"{counted(len(wrote), 'record')} written, {len(fresh):,} read on {self.plan.origin}"
        return DONE, text

    def _compare(self) -> StepEnd:
        self._await_copied(self.world.copied)
        self._compared = count, different = self.world.compare()
        if not count:
            return SKIPPED, "no record could be compared"
        return DONE, f"{counted(count, 'record')} compared on both sides, {different:,} different"

    # what several of them need

    def _write(self, count: int, *, there: bool) -> list[int]:
        numbers = list(range(len(self._written), len(self._written) + count))
        # Noted before the write: a record that a broker may have accepted must be looked for, even if the write fails.
        self._written += numbers
        self.world.write(numbers, there=there)
        return numbers

    def _await_copied(self, look: Callable[[], Mapping[Key, PartitionState]], watch: PointWatch | None = None) -> None:
        """Waits until nothing is left to copy. Raises ReconcilerError after ``within_s`` seconds."""
        within, began = self.plan.settings.within_s, self.world.now()
        while True:
            states = look()
            left = watch.look(self.world.now(), states) if watch is not None else uncopied(states)
            if not left:
                return
            if self.world.now() - began > within:
                raise ReconcilerError(
                    f"the canary has {counted(left, 'offset')} left to copy after {within:g} s",
                    "Without a mirror that keeps up there is no failover to rehearse.",
                    "Check with reconciler status ENV, and run the drill again.",
                )
            self.world.sleep(PAUSE_S)
