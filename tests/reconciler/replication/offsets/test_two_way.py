"""Two clusters write one topic under one name: where a group of one goes on at the other, against the logs themselves.

Lanes are the real bookkeeping of a lane (Copied), killed at any moment, writing their maps late; logs are lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from reconciler_mirror.lane.copied_runs import Copied

from reconciler.replication.offsets.codec import MapPartition, decode
from reconciler.replication.offsets.map import PartitionMap
from reconciler.replication.offsets.translate import Interleaved

Entry = tuple[str, int] | None
"""Cluster where a record was written, and its number; None: a control marker, or what was aborted."""
PLACE = MapPartition("flow", "orders", 0)


@dataclass
class Lane:
    """Copies what ``name`` itself has written from one log to the end of the other, exactly once."""

    name: str
    source: list[Entry]
    target: list[Entry]
    position: int | None = None
    copied: Copied = field(default_factory=Copied)
    topic: dict[bytes, bytes] = field(default_factory=dict)

    def copy(self, most: int) -> None:
        if self.position is None:
            self.position = 0
            self.copied.begin(0, first=True)
        end = min(len(self.source), self.position + most)
        if end == self.position:
            return
        mine = [at for at in range(self.position, end) if (one := self.source[at]) is not None and one[0] == self.name]
        for at in mine:
            self.copied.acknowledged(((at, 1),), len(self.target))
            self.target.append(self.source[at])
        if mine:
            self.target.append(None)
        self.position = end
        self.copied.committed(end)

    def write_map(self) -> None:
        self.topic |= dict(chunk.encode(PLACE) for chunk in self.copied.chunks())
        self.copied.written(len(self.copied.full), self.copied.version, self.copied.newest)

    def restart(self) -> None:
        """Killed: what was not written of the map is lost."""
        self.copied = Copied()
        if self.position is not None:
            self.copied.begin(self.position)

    def map(self) -> PartitionMap:
        return PartitionMap(decode(key, value)[1] for key, value in self.topic.items())


class World:
    def __init__(self) -> None:
        self.here: list[Entry] = []
        self.there: list[Entry] = []
        self.out = Lane("here", self.here, self.there)
        self.back = Lane("there", self.there, self.here)
        self.written = 0

    def do(self, step: tuple[str, int]) -> None:
        what, count = step
        match what:
            case "here" | "there":
                log = self.here if what == "here" else self.there
                log += [(what, self.written + i) for i in range(count)]
                self.written += count
            case "marker here":
                self.here.append(None)
            case "marker there":
                self.there.append(None)
            case "out":
                self.out.copy(count)
            case "back":
                self.back.copy(count)
            case "map out":
                self.out.write_map()
            case "map back":
                self.back.write_map()
            case "kill out":
                self.out.restart()
            case "kill back":
                self.back.restart()

    def settle(self) -> None:
        """Nobody writes; both flows go on until nothing is left."""
        for _ in range(3):
            for lane in (self.out, self.back):
                lane.copy(1000)
        self.out.write_map()
        self.back.write_map()


ALWAYS = ("here", "there", "marker here", "marker there", "out", "back", "map out", "map back")
STEPS = st.lists(st.tuples(st.sampled_from((*ALWAYS, "kill out", "kill back")), st.integers(1, 5)), max_size=30)
GENTLE = st.lists(st.tuples(st.sampled_from(ALWAYS), st.integers(1, 5)), max_size=30)
FEW = st.lists(st.tuples(st.sampled_from(ALWAYS), st.integers(1, 5)), max_size=6)


def first_unread(world: World, position: int) -> int:
    read = set(world.here[:position])
    unread = (at for at, one in enumerate(world.there) if one is not None and one not in read)
    return next(unread, len(world.there))


@given(STEPS, st.floats(0, 1), st.tuples(FEW, FEW, FEW, FEW))
def test_never_ahead_however_the_world_moves_between_the_readings(
    before: list[tuple[str, int]], part: float, meanwhile: tuple[list[tuple[str, int]], ...]
) -> None:
    world = World()
    for step in before:
        world.do(step)
    position = int(part * len(world.here))
    steps = iter(meanwhile)
    for step in next(steps):
        world.do(step)
    back_to = world.back.position
    for step in next(steps):
        world.do(step)
    back = world.back.map()
    for step in next(steps):
        world.do(step)
    out_to = world.out.position
    for step in next(steps):
        world.do(step)
    both = Interleaved(world.out.map(), out_to, back, back_to)
    found = both.translate(position)
    if found.offset is None:
        assert not found.exact
        return
    unread = first_unread(world, position)
    assert found.offset <= unread
    assert both.missed(position, found.offset) == 0
    read = set(world.here[:position])
    assert both.read_again(position, found.offset) <= sum(one in read for one in world.there[found.offset :] if one)
    counts = both.counts(position, found.offset)
    assert counts is None or counts == (sum(one in read for one in world.there[found.offset :] if one), 0)
    if found.exact:
        assert not [one for one in world.there[found.offset : unread] if one is not None]


@given(GENTLE, st.floats(0, 1), st.integers(0, 60))
def test_in_a_world_at_rest_every_position_is_exact_and_what_is_read_again_is_counted(
    before: list[tuple[str, int]], part: float, other: int
) -> None:
    world = World()
    for step in before:
        world.do(step)
    world.settle()
    position = int(part * len(world.here))
    both = Interleaved(world.out.map(), world.out.position, world.back.map(), world.back.position)
    found = both.translate(position)
    assert found.offset is not None
    assert found.exact, found
    unread, read = first_unread(world, position), set(world.here[:position])
    assert not [one for one in world.there[found.offset : unread] if one is not None]
    for offset in (found.offset, other):
        again = sum(one in read for one in world.there[offset:] if one)
        missed = sum(one not in read for one in world.there[:offset] if one)
        assert (both.read_again(position, offset), both.missed(position, offset)) == (again, missed)
        if offset <= len(world.there):
            assert both.counts(position, offset) == (again, missed)


def test_who_has_read_everything_reads_nothing_again_although_the_last_copy_lies_far_back() -> None:
    world = World()
    for step in (("here", 3), ("out", 9), ("there", 50), ("back", 99)):
        world.do(step)
    world.settle()
    both = Interleaved(world.out.map(), world.out.position, world.back.map(), world.back.position)
    assert both.translate(len(world.here)).offset == len(world.there)
    assert both.read_again(len(world.here), len(world.there)) == 0


def test_one_position_cannot_say_two_and_the_rest_is_counted() -> None:
    """There, our record came before ten of theirs; here, those ten came before ours, which the group has not read."""
    world = World()
    world.do(("there", 10))
    world.do(("back", 5))
    world.do(("here", 1))
    world.do(("out", 99))
    world.do(("back", 99))
    world.settle()
    both = Interleaved(world.out.map(), world.out.position, world.back.map(), world.back.position)
    position = world.here.index(("here", 10))
    found = both.translate(position)
    assert found.offset is not None
    assert world.there[found.offset] == ("there", 5)
    position = len(world.here) - 1  # behind the last of theirs, and of ours
    assert both.translate(position).exact
