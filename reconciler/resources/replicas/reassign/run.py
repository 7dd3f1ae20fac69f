"""Runs a reassignment: throttled, a few partitions at a time, resumable from the cluster's own state.

Steps: write the journal, set throttles, move partitions as earlier ones arrive, elect preferred leaders, clear
throttles, delete the journal. A run killed at any moment leaves only what the journal names; the next run continues
there, and clears nothing else.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.model import replicas
from reconciler.model.changes import ReassignReplicas
from reconciler.model.live import LiveCluster, LiveTopic
from reconciler.model.plan import Outcome, Planned, Result
from reconciler.model.ports import ReplicaAdmin
from reconciler.model.replicas import Journal, Partition, Placement, ReassignmentPace, ReplicaFacts
from reconciler.resources.replicas.placement import PartitionReplicas, basis, place
from reconciler.resources.replicas.reassign.in_flight import ReassignmentStopped, ReassignmentWatch, ReassignmentWindow
from reconciler.text import BRIEF, counted, first_of, size_words

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
        # Those that are done keep their outcome. What is under way goes on in Kafka, and the next run finds it there.
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
        live = self._with_configs(names)
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

    def _with_configs(self, names: Collection[str]) -> LiveCluster:
        """Reads topics. Raises ReassignmentStopped without their configs, which hold the lists of throttled replicas: a
        list of others would look like ours, and one of ours as cleared."""
        live = self.admin.read(names)
        for topic in live.topics.values():
            if isinstance(topic.configs, Unknown):
                why = f"configs of {topic.name} could not be read, so its throttle can neither be set nor cleared"
                raise ReassignmentStopped(why, topic.configs.error, topic.configs.todo)
        return live

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
        if late and change.after > len(live.brokers):
            self.failures[change_id] = (
                f"the new partitions of {change.ref} are to have {change.after} replicas, and"
                f" {counted(len(live.brokers), 'broker')} are there\nA broker stopped since the plan\nRun plan again."
            )
            return
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
            journal = journal_for(journal, self.goals, pace.throttle, facts, topics)
            self.admin.write_journal(journal)
            self.journal = journal
            failed = self.admin.throttle(tuple(set_lists(journal, topics)))
            failed = failed or self.admin.throttle(tuple(set_rates(journal, pace.throttle, facts.rates)))
            if failed:
                self._clear_if_still()
                raise failed[0]
            for broker, rate in kept_rates(self.goals.values(), journal, facts.rates).items():
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
                    and not self.admin.throttle(tuple(release(self.journal, arrived)))
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
        failed = self.admin.throttle(tuple(clear_rates(journal, rates)))
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
        live = self._with_configs(_journal_topics(journal)).topics
        if failed := self.admin.throttle(tuple(clear_lists(journal, live))):
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


# Replication throttles of a reassignment: their keys, owners, and how to set and clear them. Pure functions.
#
# A throttle is two rates on brokers and two lists on topics (KIP-73). Leaders send from existing replicas, followers
# fetch into new ones; Kafka never throttles in-sync replicas. Lists are set before rates and cleared after them, so
# that a rate of ours exists only while a topic names it. Settings of other tools are kept: their rates stay, and lists
# gain and lose only our entries.

EVERYTHING = "*"

Rates = Mapping[int, Mapping[str, str]]


def journal_for(
    begun: replicas.Journal,
    goals: Mapping[replicas.Partition, replicas.Placement],
    rate: int,
    facts: replicas.ReplicaFacts,
    live: Mapping[str, LiveTopic],
) -> replicas.Journal:
    """The journal of ``begun`` (of an earlier run, or empty), with settings that will be ours."""
    begun = _still_there(begun, facts, live)
    growing = {key: placement for key, placement in goals.items() if placement.added}
    ours = {*begun.rates, rate}
    # A rate of another tool stays theirs: the end of the reassignment clears only ours.
    brokers = {
        (broker, key)
        for placement in growing.values()
        for key, side in ((replicas.LEADER_RATE, placement.before), (replicas.FOLLOWER_RATE, placement.added))
        for broker in side
        if facts.rates.get(broker, {}).get(key) in (None, *map(str, ours))
    }
    lists = {(listed.topic, listed.key): listed for listed in begun.lists}
    entries: dict[tuple[str, str], list[str]] = {}
    for (topic, partition), placement in sorted(growing.items()):
        for key, side in (
            (replicas.LEADER_REPLICAS, placement.before),
            (replicas.FOLLOWER_REPLICAS, placement.added),
        ):
            entries.setdefault((topic, key), []).extend(f"{partition}:{broker}" for broker in side)
    for (topic, key), wanted in entries.items():
        here = entries_of(live[topic].overrides.get(key, ""))
        # `*` already throttles every partition.
        if EVERYTHING in here:
            continue
        known = lists.get((topic, key))
        our_entries = known.entries if known else ()
        fresh = known.fresh if known else key not in live[topic].overrides
        added = tuple(name for name in wanted if name not in here and name not in our_entries)
        lists[topic, key] = replicas.ListEntries(topic, key, (*our_entries, *added), fresh)
    targets = {**begun.targets, **{key: placement.after for key, placement in goals.items()}}
    return replicas.Journal(
        environment=begun.environment,
        began_ms=begun.began_ms,
        targets=MappingProxyType(targets),
        rates=tuple(sorted(ours)),
        brokers=tuple(sorted({*begun.brokers, *brokers})),
        lists=tuple(lists[key] for key in sorted(lists)),
    )


def _still_there(
    begun: replicas.Journal, facts: replicas.ReplicaFacts, live: Mapping[str, LiveTopic]
) -> replicas.Journal:
    """Without what is gone by now or was set by others: that is not ours to set or clear any more."""
    mine = set(map(str, begun.rates))
    flying = {move.key for move in facts.moves}
    brokers = tuple(broker for broker in begun.brokers if facts.rates.get(broker[0], {}).get(broker[1]) in mine)
    lists = []
    for listed in begun.lists:
        here = _there(listed, live)
        if entries := tuple(entry for entry in listed.entries if entry in here):
            lists.append(replace(listed, entries=entries))
    return replace(
        begun,
        targets=MappingProxyType({key: to for key, to in begun.targets.items() if key in flying}),
        rates=begun.rates if brokers else (),
        brokers=brokers,
        lists=tuple(lists),
    )


def set_lists(journal: replicas.Journal, live: Mapping[str, LiveTopic]) -> Iterator[replicas.ThrottleEdit]:
    """Appends missing list entries."""
    for listed in journal.lists:
        here = _there(listed, live) if listed.topic in live else (EVERYTHING,)
        if missing := [entry for entry in listed.entries if entry not in here and EVERYTHING not in here]:
            yield replicas.ThrottleEdit(listed.key, "append", ",".join(missing), topic=listed.topic)


def set_rates(journal: replicas.Journal, rate: int, rates: Rates) -> Iterator[replicas.ThrottleEdit]:
    for broker, key in journal.brokers:
        if rates.get(broker, {}).get(key) != str(rate):
            yield replicas.ThrottleEdit(key, "set", str(rate), broker=broker)


def release(journal: replicas.Journal, arrived: Collection[replicas.Partition]) -> Iterator[replicas.ThrottleEdit]:
    """Removes list entries of arrived partitions: an in-sync follower that falls behind by a record would be throttled,
    and producers with acks=all would wait for it."""
    for listed in journal.lists:
        done = [entry for entry in listed.entries if (listed.topic, int(entry.partition(":")[0])) in arrived]
        if done:
            yield replicas.ThrottleEdit(listed.key, "subtract", ",".join(done), topic=listed.topic)


def clear_rates(journal: replicas.Journal, rates: Rates) -> Iterator[replicas.ThrottleEdit]:
    """Clears rates that still have our value; another value is from another tool."""
    mine = set(map(str, journal.rates))
    for broker, key in journal.brokers:
        if rates.get(broker, {}).get(key) in mine:
            yield replicas.ThrottleEdit(key, "delete", broker=broker)


def clear_lists(journal: replicas.Journal, live: Mapping[str, LiveTopic]) -> Iterator[replicas.ThrottleEdit]:
    """Removes our entries. A list that we made is deleted as a whole unless another tool has added to it."""
    for listed in journal.lists:
        here = _there(listed, live)
        mine = [entry for entry in listed.entries if entry in here]
        set_by_us = listed.fresh and listed.topic in live and listed.key in live[listed.topic].overrides
        if set_by_us and set(here) <= set(listed.entries):
            yield replicas.ThrottleEdit(listed.key, "delete", topic=listed.topic)
        elif mine:
            yield replicas.ThrottleEdit(listed.key, "subtract", ",".join(mine), topic=listed.topic)


def kept_rates(goals: Iterable[replicas.Placement], journal: replicas.Journal, rates: Rates) -> dict[int, str]:
    """Broker -> rate of another tool, which limits our copying, too."""
    mine = set(map(str, journal.rates))
    by_name: dict[int, str] = {}
    for placement in goals:
        for key, side in ((replicas.LEADER_RATE, placement.before), (replicas.FOLLOWER_RATE, placement.added)):
            for broker in side if placement.added else ():
                value = rates.get(broker, {}).get(key)
                if value is not None and value not in mine:
                    by_name[broker] = value
    return by_name


def _there(listed: replicas.ListEntries, live: Mapping[str, LiveTopic]) -> tuple[str, ...]:
    """The present list of a topic, with entries of all tools; empty for a deleted topic."""
    return entries_of(live[listed.topic].overrides.get(listed.key, "")) if listed.topic in live else ()


def entries_of(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())
