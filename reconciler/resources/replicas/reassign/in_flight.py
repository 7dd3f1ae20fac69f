"""Partitions in flight of a reassignment: started while the limit allows, confirmed by the brokers, with progress."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from reconciler.errors import ReconcilerError
from reconciler.model.live import LivePartition, LiveTopic
from reconciler.model.ports import ReplicaAdmin
from reconciler.model.replicas import Partition, Placement, ReassignmentPace, largest
from reconciler.text import counted, size_words, time_words

WINDOW_SECONDS = 30.0
"""Seconds over which the rate is measured."""

Sizes = Mapping[tuple[str, int, int], int]


@dataclass(slots=True)
class ReassignmentProgress:
    """How far a reassignment has come. Bytes are of added replicas."""

    total: int
    """Partitions; ``done``: of them those that have arrived."""
    done: int = 0
    samples: list[tuple[float, int]] = field(default_factory=list)
    """(time, bytes) of the last turns, for the rate."""
    moved_at: float = 0.0
    """When anything moved last: too long ago means a stall."""
    _finished: dict[Partition, int] = field(default_factory=dict)

    def look(self, now: float, goals: Mapping[Partition, Placement], flying: set[Partition], sizes: Sizes) -> str:
        """Notes the progress of copies, and returns it in words. ``sizes``: of topics in flight."""
        wanted = largest(sizes)
        here = bytes_left = 0
        for key in flying:
            placement = goals[key]
            for broker in placement.added:
                # A replica counts for no more than its goal: it may still hold segments that the others have deleted.
                size = min(wanted.get(key, 0), sizes.get((*key, broker), 0))
                here += size
                bytes_left += wanted.get(key, 0) - size
            self._finished[key] = wanted.get(key, 0) * len(placement.added)
        # Finished partitions keep counting, so that the total, and with it the rate, never falls.
        copied = here + sum(size for key, size in self._finished.items() if key not in flying)
        before = self.samples[-1][1] if self.samples else -1
        if copied != before or not self.samples:
            self.moved_at = now
        self.samples = [sample for sample in self.samples if now - sample[0] <= WINDOW_SECONDS] + [(now, copied)]
        on_the_way = len(flying)
        parts = [f"{self.done} of {counted(self.total, 'partition')} done, {on_the_way} on the way"]
        if self.samples[-1][1] or bytes_left:
            parts.append(f"{size_words(self.samples[-1][1])} copied, {size_words(bytes_left)} of those on the way left")
        if rate := self.rate():
            parts.append(f"{size_words(int(rate))}/s")
            parts.append(f"these in about {time_words(bytes_left / rate)}")
        return ", ".join(parts)

    def rate(self) -> float:
        """Bytes a second."""
        if len(self.samples) < 2:
            return 0.0
        (began, first), (now, last) = self.samples[0], self.samples[-1]
        return max(0.0, (last - first) / (now - began)) if now > began else 0.0


CONFIRM_TRIES = 10
"""Reads until brokers show the controller's change, which they replay a moment later."""


@dataclass(frozen=True, slots=True)
class ReassignmentWatch:
    """Callbacks of a reassignment, which may take hours."""

    note: Callable[[str], None]
    """Prints a line."""
    closed: Callable[[], str]
    """Returns why no further partition may begin, or empty."""
    progress: Callable[[str], None]
    """Takes the progress at each turn."""
    now: Callable[[], float] = time.time


class ReassignmentStopped(ReconcilerError):  # noqa: N818 - says what happened
    """Some partitions did not reach their replicas; moves on their way continue."""


class ReassignmentWindow:
    """``reached``, ``lost`` (with reasons): finished moves. ``words``: progress of the others."""

    def __init__(
        self,
        goals: Mapping[Partition, Placement],
        admin: ReplicaAdmin,
        watch: ReassignmentWatch,
        pace: ReassignmentPace,
    ) -> None:
        self.goals = goals
        self.admin = admin
        self.watch = watch
        self.pace = pace
        # Partitions: waiting, requested (with time), reached, and lost (with reason). The pace limits those in flight.
        self.waiting = sorted(goals)
        self.asked: dict[Partition, int] = {}
        self.reached: set[Partition] = set()
        self.lost: dict[Partition, str] = {}
        self.progress = ReassignmentProgress(len(goals), moved_at=watch.now())
        self.words = ""

    def turn(self) -> bool:
        """One turn: reads, and starts as many moves as the pace allows. True once nothing is left to do."""
        admin, goals = self.admin, self.goals
        moves = {move.key: move for move in admin.moves() if move.key in goals}
        flying = {key for key, move in moves.items() if move.target == goals[key].after}
        for key in moves.keys() & self.asked.keys() - flying:
            self._lose(key, "someone else reassigned it meanwhile")
        self.waiting = [key for key in self.waiting if key not in flying]
        self.asked |= dict.fromkeys(flying, 0)
        topics = {topic for topic, _ in (*self.asked, *self.waiting[: self.pace.partitions_in_flight])}
        live = admin.read(topics).topics if topics else {}
        # A move that is no longer in flight has arrived, or another tool has cancelled it.
        for partition in [partition for partition in self.asked if partition not in flying]:
            part = part_of(live, partition)
            if part is not None and part.replicas == self.goals[partition].after:
                del self.asked[partition]
                self.reached.add(partition)
                self.progress.done += 1
                self.progress.moved_at = self.watch.now()
            elif self.asked[partition] >= CONFIRM_TRIES:
                self._lose(partition, "the brokers show other replicas: someone cancelled or replaced the reassignment")
            else:
                self.asked[partition] += 1
        sizes = admin.sizes({topic for topic, _ in (*flying, *self.waiting[: self.pace.partitions_in_flight])})
        self._begin(flying, live, largest(sizes))
        self.words = self.progress.look(self.watch.now(), goals, flying, sizes)
        return not (self.waiting or self.asked)

    def _begin(
        self, flying: Collection[Partition], live: Mapping[str, LiveTopic], sizes: Mapping[Partition, int]
    ) -> None:
        """Begins as many waiting partitions as the pace allows; at least one if none is being copied, however large it
        is."""
        if not self.waiting or self.watch.closed():
            return
        room = self.pace.partitions_in_flight - len(self.asked)
        held = sum(self._bytes(key, sizes) for key in flying)
        chosen: dict[Partition, tuple[int, ...]] = {}
        for key in list(self.waiting):
            size = self._bytes(key, sizes)
            if len(chosen) >= room or ((flying or chosen) and held + size > self.pace.bytes_in_flight):
                break
            part = part_of(live, key)
            goal = self.goals[key]
            # Removes no replica while a remaining one is out of sync.
            staying = set(goal.after) & set(goal.before)
            if part is not None and (not goal.removed or staying <= set(part.isr)):
                chosen[key] = goal.after
                held += size
                self.waiting.remove(key)
        now = {key: part.replicas for key in chosen if (part := part_of(live, key)) is not None}
        for changes in (True, False):
            some = {key: to for key, to in chosen.items() if (len(to) != len(now[key])) is changes}
            refused = self.admin.reassign(some, changes) if some else {}
            self.asked |= {key: 0 for key in some if key not in refused}
            for key, why in refused.items():
                self._lose(key, why)

    def _bytes(self, key: Partition, sizes: Mapping[Partition, int]) -> int:
        return sizes.get(key, 0) * len(self.goals[key].added)

    def _lose(self, key: Partition, why: str) -> None:
        self.asked.pop(key, None)
        self.lost[key] = why


def part_of(live: Mapping[str, LiveTopic], key: Partition) -> LivePartition | None:
    topic = live.get(key[0])
    return next((part for part in topic.partitions if part.index == key[1]), None) if topic else None
