"""Runs a reassignment: throttled, a few partitions at a time, resumable from the cluster's own state.

Steps: write the journal, set throttles, move partitions as earlier ones arrive, elect preferred leaders, clear
throttles, delete the journal. A run killed at any moment leaves only what the journal names; the next run continues
there, and clears nothing else.
"""

from collections.abc import Iterable, Mapping, Sequence

from reconciler.errors import ClusterError, ReconcilerError
from reconciler.model.changes import ReassignReplicas
from reconciler.model.live import LiveCluster, LiveTopic
from reconciler.model.plan import Outcome, Planned, Result
from reconciler.model.ports import ReplicaAdmin
from reconciler.model.replicas import Journal, Partition, Placement, ReassignmentPace, ReplicaFacts
from reconciler.resources.replicas.placement import PartitionReplicas, basis, place
from reconciler.resources.replicas.reassign import throttles
from reconciler.resources.replicas.reassign.in_flight import ReassignmentStopped, ReassignmentWatch, ReassignmentWindow
from reconciler.text import BRIEF, first_of, size_words

POLL_SECONDS = 1.0
RELEASE_SECONDS = 5.0
STALL_SECONDS = 120.0
"""Seconds without copied bytes or finished moves, after which waiting is given up."""


def reassign(
    planned: Sequence[Planned], environment: str, admin: ReplicaAdmin, watch: ReassignmentWatch
) -> tuple[Outcome, ...]:
    """Returns one outcome for each of ``planned``, all on one cluster. Raises only interrupts."""
    began = watch.now()
    run = ReassignmentRun(environment, admin, watch)
    try:
        run.carry_out(planned)
    except ReconcilerError as error:
        run.fail_rest(planned, str(error))
    seconds = (watch.now() - began) / max(1, len(planned))
    return tuple(
        Outcome(
            each.id,
            Result.FAILED if each.id in run.failures else Result.DONE,
            run.failures.get(each.id, ""),
            seconds,
        )
        for each in planned
    )


def cancel(environment: str, admin: ReplicaAdmin, watch: ReassignmentWatch) -> int:
    """Cancels moves in our journal and clears our throttles; returns the number of partitions. Raises ClusterError, and
    ReassignmentStopped if Kafka refuses to cancel one."""
    return ReassignmentRun(environment, admin, watch).cancel()


class ReassignmentRun:
    """One reassignment of one cluster. ``failures``: id of a change -> error."""

    def __init__(self, environment: str, admin: ReplicaAdmin, watch: ReassignmentWatch) -> None:
        self.environment = environment
        self.admin = admin
        self.watch = watch
        # By change id, why it failed; ``owner`` names the change of each partition. ``journal``: what of throttles is
        # ours to clear.
        self.failures: dict[str, str] = {}
        self.goals: dict[Partition, Placement] = {}
        self.owner: dict[Partition, str] = {}
        self.journal: Journal | None = None
        self.reached: set[Partition] = set()
        self.released: set[Partition] = set()

    def carry_out(self, planned: Sequence[Planned]) -> None:
        """Takes up all moves, also those of a killed run, and waits until the last has arrived. Raises
        ReassignmentStopped if one stalls, or if others reassign at the same time."""
        changes = {each.id: each.change for each in planned if isinstance(each.change, ReassignReplicas)}
        facts = self.admin.facts()
        names = {change.ref.name for change in changes.values()} | _journal_topics(facts.journal)
        live = self.admin.read(names)
        if others := facts.others():
            description = f"partition {others[0].topic}-{others[0].partition} is being reassigned by someone else"
            raise ReassignmentStopped(
                description, "Throttles and order would get in each other's way", "Wait until it has ended."
            )
        for change_id, change in changes.items():
            self._take_up(change_id, change, live, facts)
        # Waits for moves of an earlier run, too, even if no present change names them.
        for move in facts.moves:
            if move.key not in self.goals:
                self.goals[move.key] = Placement(move.partition, move.before, move.target)
        if not self.goals and facts.journal is None:
            return
        pace = next((change.pace for change in changes.values()), None)
        self._under_throttle(pace, facts, live.topics)

    def cancel(self) -> int:
        facts = self.admin.facts()
        self.journal = facts.journal
        if facts.journal is None:
            return 0
        ours = {move.key: None for move in facts.moves if facts.ours(move)}
        refused = self.admin.reassign(ours, factor_changes=True) if ours else {}
        until = self.watch.now() + STALL_SECONDS
        while moves := [move for move in self.admin.moves() if move.key in ours and move.key not in refused]:
            if self.watch.now() > until:
                raise ReassignmentStopped(
                    f"{_named(move.key for move in moves)} is still on the way", "Kafka has not cancelled it"
                )
            self.admin.wait(POLL_SECONDS / 4)
        if refused:
            key, why = next(iter(refused.items()))
            raise ReassignmentStopped(
                f"{_named(refused)} cannot be cancelled: {why}",
                f"{key[0]}-{key[1]} would have no replica in sync left. Throttles stay while it is on the way",
                "Bring the brokers of its old replicas back, or let it finish with apply.",
            )
        self._clear()
        return len(ours)

    def fail_rest(self, planned: Iterable[Planned], error: str) -> None:
        for each_planned in planned:
            mine = [key for key, owner in self.owner.items() if owner == each_planned.id]
            if each_planned.id not in self.failures and not (mine and self.reached.issuperset(mine)):
                self.failures[each_planned.id] = error

    # what is to be done

    def _take_up(self, change_id: str, change: ReassignReplicas, live: LiveCluster, facts: ReplicaFacts) -> None:
        """Adds the goals of one change. A partition that is neither as it was planned nor as it will be was moved by
        someone else: its change fails, and nothing of it is begun."""
        topic = live.topics.get(change.ref.name)
        if topic is None or topic.topic_id != change.topic_id:
            self.failures[change_id] = f"{change.ref} was deleted or made again since the plan\nRun plan again."
            return
        moves = {move.partition: move for move in facts.moves if move.topic == topic.name}
        goals: dict[Partition, Placement] = {}
        # Partitions that an earlier step of this plan has added.
        known = {placement.partition for placement in change.placements}
        late = [p for p in topic.partitions if p.index not in known and len(p.replicas) != change.after]
        standing = [PartitionReplicas(part.index, part.replicas, part.leader) for part in late]
        late_ones = place(topic.name, standing, change.after, basis(live)) if standing else ()
        for placement in (*change.placements, *late_ones):
            part = next((part for part in topic.partitions if part.index == placement.partition), None)
            begun = moves.get(placement.partition)
            now = begun.target if begun is not None else part.replicas if part is not None else ()
            if set(begun.before if begun else now) not in (set(placement.before), set(placement.after)):
                self.failures[change_id] = (
                    f"partition {placement.partition} of {change.ref} has replicas {_shown(now)}; planned was"
                    f" {_shown(placement.before)} -> {_shown(placement.after)}\nSomeone moved it since\nRun plan again."
                )
                return
            goals[topic.name, placement.partition] = placement
            if now == placement.after and placement.partition not in moves:
                self.reached.add((topic.name, placement.partition))
        self.owner |= dict.fromkeys(goals, change_id)
        self.goals |= {key: placement for key, placement in goals.items() if key not in self.reached}

    # doing it

    def _under_throttle(
        self, pace: ReassignmentPace | None, facts: ReplicaFacts, topics: Mapping[str, LiveTopic]
    ) -> None:
        """The journal is written before the first throttle, and deleted after the last is cleared: after a kill the
        next run knows what to clear."""
        self.journal = facts.journal
        if pace is not None and any(placement.added for placement in self.goals.values()):
            journal = facts.journal or Journal(self.environment, int(self.watch.now() * 1000))
            journal = throttles.journal_for(journal, self.goals, pace.throttle, facts, topics)
            self.admin.write_journal(journal)
            self.journal = journal
            failed = self.admin.throttle(tuple(throttles.set_lists(journal, topics)))
            failed = failed or self.admin.throttle(tuple(throttles.set_rates(journal, pace.throttle, facts.rates)))
            if failed:
                self._clear_if_still()
                raise failed[0]
            for broker, rate in throttles.kept_rates(self.goals.values(), journal, facts.rates).items():
                words = size_words(int(rate)) if rate.isdecimal() else rate
                self.watch.note(f"broker {broker} keeps its own throttle of {words}/s, set by someone else")
        try:
            self._move(pace or ReassignmentPace())
        except BaseException:
            self._clear_if_still()
            raise
        # Elects preferred leaders at once; Kafka's own balancing comes minutes later.
        live = self.admin.read({topic for topic, _ in self.reached}).topics if self.reached else {}
        wanted = [
            (topic.name, part.index)
            for topic in live.values()
            for part in topic.partitions
            if (topic.name, part.index) in self.reached and part.leader != part.replicas[0] in part.isr
        ]
        if wanted:
            self.admin.elect_preferred(wanted)
        self._clear()

    def _move(self, pace: ReassignmentPace) -> None:
        """Moves until every goal is reached. Raises ReassignmentStopped if one is not."""
        window = ReassignmentWindow(self.goals, self.admin, self.watch, pace)
        window.reached = self.reached
        released_at = self.watch.now() - RELEASE_SECONDS
        while not window.turn():
            if closed := self.watch.closed():
                raise ReassignmentStopped(closed, "What is in flight continues, throttled", "Run apply again.")
            self.watch.progress(window.words)
            now = self.watch.now()
            if now - released_at >= RELEASE_SECONDS:
                # While others are still moving, because our lists must exist as long as our rates.
                arrived = self.reached - self.released
                if (
                    self.journal is not None
                    and arrived
                    and not self.admin.throttle(tuple(throttles.release(self.journal, arrived)))
                ):
                    self.released |= arrived
                released_at = now
            if now - window.progress.moved_at > STALL_SECONDS:
                raise ReassignmentStopped(
                    f"no progress for {STALL_SECONDS:.0f} s: {window.words}",
                    f"A broker may be away, or {size_words(pace.throttle)}/s, the throttle, below what producers write",
                    "Fix it and run apply again, or cancel it with: reconciler reassignments cancel ENV.",
                )
            self.admin.wait(POLL_SECONDS)
        for key, why in window.lost.items():
            if owner := self.owner.get(key):
                self.failures.setdefault(owner, f"{key[0]}-{key[1]}: {why}\nRun plan again.")

    # the end

    def _clear_if_still(self) -> None:
        """After an error: clears throttles if none of our moves is in flight."""
        try:
            keys = set(self.goals)
            if not any(move.key in keys for move in self.admin.moves()):
                self._clear()
        except ReconcilerError:
            self.watch.note("throttles may be left; the next apply clears them")

    def _clear(self) -> None:
        """Clears rates, then lists, then the journal, so that the journal names every remaining setting of ours."""
        journal = self.journal
        if journal is None:
            return
        rates = self.admin.facts().rates
        failed = self.admin.throttle(tuple(throttles.clear_rates(journal, rates)))
        if failed:
            raise failed[0]
        # A broker that did not report its rates may still have one of ours.
        for broker in sorted({broker for broker, _ in journal.brokers} - rates.keys()):
            raise ClusterError(
                self.admin.name,
                "unreachable",
                f"broker {broker} does not answer, so its throttle could not be cleared",
                "The replicas are placed. Its rate holds as soon as it is back",
                "Start it and run apply again: that clears what is left.",
            )
        live = self.admin.read(_journal_topics(journal)).topics
        if failed := self.admin.throttle(tuple(throttles.clear_lists(journal, live))):
            raise failed[0]
        self.admin.write_journal(None)
        self.journal = None


def _journal_topics(journal: Journal | None) -> set[str]:
    if journal is None:
        return set()
    return {listed.topic for listed in journal.lists} | {topic for topic, _ in journal.targets}


def _named(keys: Iterable[Partition]) -> str:
    return first_of([f"{topic}-{index}" for topic, index in keys], BRIEF)


def _shown(replicas: Iterable[int]) -> str:
    return ", ".join(map(str, replicas)) or "none"
