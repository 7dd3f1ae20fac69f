"""Takes a cut-over back: always before *switch*; after it, while clients have written nothing at the destination."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from reconciler.errors import ReconcilerError
from reconciler.model.reports.cutover import CutoverPlan, CutoverReport, RollbackStep
from reconciler.model.reports.failover import GroupMove, StepResult
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState, key_of
from reconciler.operations.cutover.decide import group_seen
from reconciler.operations.cutover.world import CutoverWorld, StepEnd, in_order, step_end, unfenced, unkept
from reconciler.operations.failover.group_offsets import otherwise
from reconciler.replication.groups import may_write
from reconciler.text import counted, first_of

LOOK_S = 0.5


class CutoverRollback:
    """One run. A run can be repeated, since each step checks first what is left to do."""

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
