"""Partitions in flight of a reassignment: started while the limit allows, confirmed by the brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from reconciler.errors import ReconcilerError
from reconciler.model.live import LivePartition, LiveTopic
from reconciler.model.ports import ReplicaAdmin
from reconciler.model.replicas import Partition, Placement, ReassignmentPace, largest
from reconciler.resources.replicas.reassign.progress import ReassignmentProgress

CONFIRM_TRIES = 10
"""Brokers show what the controller did a moment later."""


@dataclass(frozen=True, slots=True)
class ReassignmentWatch:
    """``note`` tells people; ``closed`` says why no further partition may begin, or nothing. ``progress``: told at each
    look how far it is."""

    note: Callable[[str], None]
    closed: Callable[[], str]
    progress: Callable[[str], None]
    now: Callable[[], float] = time.time


class ReassignmentStopped(ReconcilerError):  # noqa: N818 - says what happened
    """Some partitions did not get where they should; what is on the way goes on."""


class ReassignmentWindow:
    """``reached`` and ``lost``, with why, hold what is no longer on the way; ``words`` tell how far it is."""

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
        self.waiting = sorted(goals)
        self.asked: dict[Partition, int] = {}
        self.reached: set[Partition] = set()
        self.lost: dict[Partition, str] = {}
        self.progress = ReassignmentProgress(len(goals), moved_at=watch.now())
        self.words = ""

    def turn(self) -> bool:
        """Looks, begins what there is room for; True when nothing is left to do."""
        admin, goals = self.admin, self.goals
        moves = {move.key: move for move in admin.moves() if move.key in goals}
        flying = {key for key, move in moves.items() if move.target == goals[key].after}
        for key in moves.keys() & self.asked.keys() - flying:
            self._lose(key, "someone else reassigned it meanwhile")
        self.waiting = [key for key in self.waiting if key not in flying]
        self.asked |= dict.fromkeys(flying, 0)
        topics = {topic for topic, _ in (*self.asked, *self.waiting[: self.pace.partitions_in_flight])}
        live = admin.read(topics).topics if topics else {}
        # What is no longer on the way has arrived, or was taken back by someone.
        for partition in [partition for partition in self.asked if partition not in flying]:
            part = part_of(live, partition)
            if part is not None and part.replicas == self.goals[partition].after:
                del self.asked[partition]
                self.reached.add(partition)
                self.progress.done += 1
                self.progress.stirred(self.watch.now())
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
            if part is not None and self._safe(part, self.goals[key]):
                chosen[key] = self.goals[key].after
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

    def _safe(self, part: LivePartition, goal: Placement) -> bool:
        """Nothing is taken away while a replica that stays is out of sync."""
        return not goal.removed or set(goal.after) & set(goal.before) <= set(part.isr)

    def _lose(self, key: Partition, why: str) -> None:
        self.asked.pop(key, None)
        self.lost[key] = why


def part_of(live: Mapping[str, LiveTopic], key: Partition) -> LivePartition | None:
    topic = live.get(key[0])
    return next((part for part in topic.partitions if part.index == key[1]), None) if topic else None
