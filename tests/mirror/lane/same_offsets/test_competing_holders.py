"""Any past of a source, any number of holders at a time, frozen and killed anywhere: the copy has the same offsets.

The holders here do what the lane does with the functions that the lane has it from; ``TargetLogs`` judges as brokers
do. ``HISTORIES`` in the environment runs more of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterable, Mapping
from contextlib import suppress

import pytest
from reconciler_mirror.lane.same_offsets import holes, place
from reconciler_mirror.lane.same_offsets.holes import NO_LEADER_KNOWN, SPARE, Fillers, OwnMarkers
from reconciler_mirror.lane.same_offsets.place import DATA_EPOCH, CopyPlace, Look, look
from reconciler_mirror.lane.same_offsets.segments import Hole, Run, Segment, segments, split
from reconciler_mirror.lane.state import RestartError

from reconciler.kafka.client.errors import BrokerError
from reconciler.kafka.protocol.producers.write_markers import Epochs
from reconciler.kafka.records.batches import SEQUENCES, CommittedFilter, scan
from reconciler.kafka.records.records import key_and_value, records_of
from tests.support.fakes.source_log import SourceLog, random_log
from tests.support.fakes.target_log import (
    CONCURRENT,
    DUPLICATE,
    FENCED,
    INVALID_EPOCH,
    INVALID_STATE,
    NOT_LEADER,
    OUT_OF_ORDER,
    Key,
    RefusedError,
    TargetLogs,
)

DATA, OWN_MARKERS, MARKERS = 500, 501, "mirror.flow.0"
HISTORIES = int(os.environ.get("HISTORIES", "75"))
SEEDS = [pytest.param(seed, marks=[pytest.mark.long] if seed % 50 else []) for seed in range(0, HISTORIES, 25)]


@pytest.fixture(autouse=True)
def _same_again_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock: a seed is always the same history."""
    monkeypatch.setattr("reconciler_mirror.lane.same_offsets.place.PAUSE", 0)


class FencedError(Exception):
    pass


class DivergedError(Exception):
    pass


class Markers:
    """The producer of markers over the fake."""

    def __init__(self, holder: Holder) -> None:
        self._holder, self._target = holder, holder.target
        self._pid = self._epoch = -1
        self._sequences: dict[Key, int] = {}

    @property
    def epoch(self) -> int:
        return self._epoch

    async def begin(self) -> None:
        while True:
            try:
                self._pid, self._epoch = await self._target.init(MARKERS)
                return
            except RefusedError as error:
                if error.code != CONCURRENT:
                    raise
                await self._holder.nap()

    async def _told(self, ask: object) -> None:
        while True:
            await self._holder.nap()
            try:
                await ask()  # type: ignore[operator]
                return
            except RefusedError as error:
                if error.code in (FENCED, INVALID_EPOCH, INVALID_STATE):
                    raise FencedError from None
                if error.code != CONCURRENT:
                    raise

    async def add(self, keys: Iterable[Key]) -> None:
        named = tuple(keys)
        await self._told(lambda: self._target.add(MARKERS, self._pid, self._epoch, named))

    async def append(self, batches: Mapping[Key, Fillers]) -> Mapping[Key, int]:
        bases = {}
        for key, fillers in batches.items():
            await self._holder.nap()
            bases[key] = await self._one(key, fillers.records)
        return bases

    async def _one(self, key: Key, count: int) -> int:
        sequence = self._sequences.get(key, 0)
        while True:
            try:
                base = await self._target.produce(key, self._pid, self._epoch, sequence, ["filler"] * count, MARKERS)
            except RefusedError as error:
                if error.code != NOT_LEADER:
                    raise FencedError from None
                await self._holder.nap()
                continue
            self._sequences[key] = sequence + count
            return base

    async def abort(self, keys: Iterable[Key], *, announce: bool) -> Mapping[Key, int]:
        """With a look behind it; of a bare one the partitions join with it. Nothing is repeated."""
        named = tuple(keys)
        await self._holder.nap()
        try:
            ends = await self._target.abort_and_look(MARKERS, self._pid, self._epoch, named, join=announce)
        except RefusedError:
            raise FencedError from None
        if ends is not None:
            return ends
        while not await self._target.complete(MARKERS):
            await self._holder.nap()
        return {key: await self._target.log_end(key) for key in named}


class Holder:
    """One process that copies some partitions. ``committed``: positions as group offsets have them, which lag."""

    def __init__(
        self, target: TargetLogs, sources: Mapping[Key, SourceLog], rng: random.Random, committed: dict[Key, CopyPlace]
    ) -> None:
        self.target, self.sources, self.rng, self.committed = target, sources, rng, committed
        self.slow = 0.0
        self.may_write_markers = False
        self.epochs: dict[Key, int] = {}
        self.refreshing = True
        self.places: dict[Key, CopyPlace] = {}
        self.markers = Markers(self)
        self.own: OwnMarkers | None = None
        """Where the principal may."""

    async def nap(self) -> None:
        """Frozen anywhere, now and then for long."""
        if self.rng.random() < self.slow:
            for _ in range(self.rng.choice([1, 5, 300])):
                await asyncio.sleep(0)

    async def sequences(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError | None]:
        found = {}
        for key in keys:
            if self.refreshing:
                self.epochs[key] = self.target.log(key).epoch
            await self.nap()
            found[key] = await self.target.describe(key, DATA)
        self.refreshing = False
        return found

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """With the leader epoch of the metadata, as it was before the sequence was asked for."""
        found: dict[Key, int | BrokerError] = {}
        for key in keys:
            try:
                found[key] = await self.target.log_end(key, self.epochs[key])
            except RefusedError as error:
                found[key] = BrokerError(error.code, "the leader is another one")
        return found

    async def replicated(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        return {key: await self.target.high_watermark(key) for key in keys}

    async def last_markers(self, keys: Iterable[Key]) -> Mapping[Key, Epochs | BrokerError]:
        await self.nap()
        return {key: Epochs(*await self.target.last_marker(key, OWN_MARKERS)) for key in keys}

    async def require_current(self) -> None:
        await self.nap()
        if await self.target.epoch_of(MARKERS) != self.markers.epoch:
            raise FencedError

    async def leaders(self, keys: Iterable[Key]) -> Mapping[Key, object]:
        return {key: self.target.log(key).epoch for key in keys}

    async def write_markers(self, markers: Mapping[Key, Epochs], leaders: Mapping[Key, object]) -> Mapping[Key, int]:
        await self.nap()
        if leaders != await self.leaders(leaders):
            return dict.fromkeys(markers, NO_LEADER_KNOWN)
        asked = (self.target.write_marker(key, OWN_MARKERS, *epochs) for key, epochs in markers.items())
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await self.nap()
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, RefusedError):
                raise answer
        return {
            key: answer.code if isinstance(answer, RefusedError) else 0
            for key, answer in zip(markers, answers, strict=True)
        }

    async def run(self) -> None:
        await self.markers.begin()
        if self.may_write_markers:
            self.own = OwnMarkers(self, self.markers.epoch)
        for key in self.sources:
            told = await self._look(key)
            known = self.committed.get(key)
            assert known is not None
            self.places[key] = known.looked(told)
        while any(self.places[key].reached < log.stable for key, log in self.sources.items()):
            waiting = {}
            for key in self.sources:
                hole = await self._data(key)
                if hole is not None:
                    waiting[key] = (self.places[key].look.end, hole.next_offset, hole.timestamp)
            if waiting:
                await self._fill(waiting)

    async def _look(self, key: Key) -> Look:
        self.refreshing = True
        while isinstance(told := (await look(self, [key]))[key], BrokerError):
            self.refreshing = True
            await self.nap()
        return told

    def _left(self, key: Key) -> list[tuple[Segment, memoryview]]:
        log, at = self.sources[key], self.places[key].reached
        if at >= log.stable:
            return []
        if at < log.start:
            return [(Hole(at, log.start, absent=True), memoryview(b""))]
        view, aborted = log.fetch(at, self.rng.randint(0, 8))
        keep = CommittedFilter(view, aborted)
        batches = [(batch, keep.delivers(batch)) for batch in scan(view) if batch.base < log.stable]
        found = segments(view, batches, at, lambda _: None)
        return [(part, view) for whole in found for part in self._cut(view, whole)]

    def _cut(self, view: memoryview, segment: Segment) -> list[Segment]:
        """Other holders have other batches of the same records."""
        inside = segment.next_offset - segment.first
        if isinstance(segment, Hole) or inside < 2 or self.rng.random() < 0.6:
            return [segment]
        return list(split(view, segment, segment.first + self.rng.randint(1, inside - 1)))

    async def _data(self, key: Key) -> Hole | None:
        """Copies up to the next hole, or a while; gives the hole."""
        left = self._left(key)
        sending: list[tuple[Segment, memoryview]] = []
        for segment, view in left:
            for part in self._seen(key, segment, view):
                if isinstance(part, Hole):
                    if sending:
                        await self._send(key, sending)
                        return None
                    return part
                sending.append((part, view))
                if len(sending) > self.rng.randint(0, 4) or self.places[key].look.last_sequence is None:
                    await self._send(key, sending)
                    return None
        if sending:
            await self._send(key, sending)
        return None

    def _seen(self, key: Key, segment: Segment, view: memoryview) -> list[Segment]:
        """What of it the target does not have yet."""
        at = self.places[key]
        if at.level:
            self.places[key] = at.settled()
            return [segment]
        end = at.look.end
        rest: list[Segment] = []
        if segment.next_offset > end:
            segment, after = split(view, segment, end)
            rest = [after]
        absent = isinstance(segment, Hole) and segment.absent
        at = at.seen(segment.records, segment.first, segment.next_offset, absent=absent)
        if at.level:
            if at.displaced:
                raise DivergedError(key, at)
            at = at.settled()
        self.places[key] = at
        return rest

    async def _send(self, key: Key, parts: list[tuple[Segment, memoryview]]) -> None:
        await self.nap()
        at = self.places[key]
        assert (at.level, parts[0][0].first) == (True, at.reached)
        asked = []
        planned = at
        for segment, view in parts:
            sequence = planned.look.next_sequence
            asked.append(self.target.produce(key, DATA, DATA_EPOCH, sequence, values_of(segment, view)))
            planned = planned.appended(segment.records, segment.next_offset)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await self.nap()
        for (segment, _), answer in zip(parts, answers, strict=True):
            if isinstance(answer, RefusedError):
                assert answer.code in (OUT_OF_ORDER, DUPLICATE, NOT_LEADER), answer
                break
            assert not isinstance(answer, BaseException), answer
            if answer != segment.first:
                raise DivergedError(key, segment.first, answer)
            self.places[key] = self.places[key].appended(segment.records, segment.next_offset)
            if self.rng.random() < 0.3:
                self.committed[key] = self.places[key]
        else:
            return
        told = await self._look(key)
        self.places[key] = self.places[key].looked(told)

    async def _fill(self, waiting: Mapping[Key, tuple[int, int, int]]) -> None:
        some = {key: hole for key, hole in waiting.items() if self.rng.random() < 0.7}
        if not some:
            return
        ends: dict[Key, int | None] = {}
        left = dict(some)
        if self.own is not None:
            parts = {key: self.own.own_part(Hole(first, after)) for key, (first, after, _) in some.items()}
            ends |= await self.own.fill({key: part for key, part in parts.items() if self.own.may(key)})
            for key, end in list(ends.items()):
                _, after, at = left.pop(key)
                if end == parts[key].next_offset < after:
                    left[key] = (end, after - SPARE, at)
        ends |= await holes.fill(self.markers, left) if left else {}
        for key, end in ends.items():
            _, after, _ = some[key]
            if end is None or end > after:
                told = await self._look(key)
                self.places[key] = self.places[key].looked(told)
            else:
                self.places[key] = self.places[key].appended(0, end)


def beginning(first: int) -> CopyPlace:
    """Committed before anything is written."""
    return CopyPlace(first, Look(first, None), trusted=True)


def values_of(segment: Segment, view: memoryview) -> list[bytes | None]:
    assert not isinstance(segment, Hole)
    records = segment.members if isinstance(segment, Run) else records_of(view, segment.batch)
    return [key_and_value(record)[1] for record in records]


async def history(
    seed: int, *, failovers: float = 0.0, first: int = 0, own: bool = False, doubled: float = 0.0
) -> None:
    """``own``: holders may write markers themselves."""
    rng = random.Random(seed)
    target = TargetLogs(rng, failovers=failovers, doubled=doubled)
    sources = {("t", p): random_log(rng, first) for p in range(rng.randint(1, 3))}
    for key in sources:
        target.log(key).begin = target.log(key).high = first
    committed = {key: beginning(first) for key in sources}
    slow, running = rng.choice([0.05, 0.2, 0.5]), list[asyncio.Task[None]]()
    for _ in range(rng.randint(1, 12)):
        holder = Holder(target, sources, rng, committed)
        holder.slow, holder.may_write_markers = slow, own
        running.append(asyncio.ensure_future(holder.run()))
        for _ in range(rng.choice([1, 10, 50, 200, 800])):
            await asyncio.sleep(0)
        if rng.random() < 0.5:
            rng.choice(running).cancel()
        if rng.random() < 0.1:
            target.time_out(MARKERS)
    await _to_the_end(target, sources, rng, committed, own=own)
    for ended in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(ended, BaseException) and not isinstance(
            ended, (FencedError, RestartError, asyncio.CancelledError)
        ):
            raise ended
    while target.tasks:
        await asyncio.gather(*target.tasks, return_exceptions=True)
    for key, log in sources.items():
        assert target.log(key).end == log.stable
        assert target.committed(key) == log.committed
        assert target.committed(key).keys() == log.committed.keys()


async def _to_the_end(
    target: TargetLogs,
    sources: Mapping[Key, SourceLog],
    rng: random.Random,
    committed: dict[Key, CopyPlace],
    *,
    own: bool = False,
) -> None:
    for _ in range(200):
        with suppress(FencedError, RestartError):
            holder = Holder(target, sources, rng, committed)
            holder.may_write_markers = own
            await holder.run()
            return
    raise AssertionError("no holder ever comes to the end")


@pytest.mark.parametrize("seed", SEEDS)
def test_any_history_is_equal_offset_by_offset(seed: int) -> None:
    for one in range(seed, seed + 25):
        asyncio.run(history(one))


@pytest.mark.parametrize("seed", SEEDS)
def test_leaders_may_die_with_what_no_one_was_promised_is_safe(seed: int) -> None:
    for one in range(seed, seed + 25):
        asyncio.run(history(one, failovers=0.05))


@pytest.mark.parametrize(("failovers", "doubled"), [(0.0, 0.1), (0.05, 0.0)])
@pytest.mark.parametrize("seed", SEEDS)
def test_holders_that_write_markers_themselves_leave_it_equal(seed: int, failovers: float, doubled: float) -> None:
    """Also where leaders die, and where the coordinator writes those of long holes twice."""
    for one in range(seed, seed + 25):
        asyncio.run(history(one, failovers=failovers, own=True, doubled=doubled))


@pytest.mark.parametrize("seed", range(20))
def test_sequences_wrap(seed: int) -> None:
    asyncio.run(history(seed, failovers=0.02, first=SEQUENCES - 40))
    assert place.Look(SEQUENCES + 5, None).next_sequence == 5


@pytest.mark.parametrize("seed", range(60))
def test_a_marker_that_is_written_twice_is_never_passed_over(seed: int) -> None:
    """Kafka's coordinator does so where the broker that leads a partition dies before it has answered. What lies before
    is right, and nothing is written behind it, unless the next offset is one of a hole too."""
    rng = random.Random(seed)
    asyncio.run(_doubled(TargetLogs(rng, doubled=0.2), rng))


async def _doubled(target: TargetLogs, rng: random.Random) -> None:
    key = ("t", 0)
    sources, committed = {key: random_log(rng)}, {key: beginning(0)}
    log = sources[key]
    with suppress(DivergedError):  # which its lane writes into the position
        await Holder(target, sources, rng, committed).run()
        assert target.log(key).end >= log.stable
    assert target.committed(key).items() <= log.committed.items()


@pytest.mark.parametrize("seed", range(40))
def test_a_stranger_is_noticed(seed: int) -> None:
    asyncio.run(_strange(random.Random(seed)))


async def _strange(rng: random.Random) -> None:
    key, target = ("t", 0), TargetLogs(rng)
    sources, committed = {key: random_log(rng)}, {key: beginning(0)}
    holder = Holder(target, sources, rng, committed)
    running = asyncio.ensure_future(holder.run())
    for _ in range(rng.randint(0, 300)):
        await asyncio.sleep(0)
    target.write_as_stranger(key, "stranger")
    if rng.random() < 0.5:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        while target.tasks:
            await asyncio.gather(*target.tasks, return_exceptions=True)
        committed |= {key: place for key, place in holder.places.items() if place.level}
        holder = Holder(target, sources, rng, committed)
        running = asyncio.ensure_future(holder.run())
    (ended,) = await asyncio.gather(running, return_exceptions=True)
    copied = {offset: value for offset, value in target.committed(key).items() if value != "stranger"}
    right = copied.items() <= sources[key].committed.items()
    # Where the target ends behind its source nothing is written, and the source's next record tells.
    waits = ended is None and not holder.places[key].level
    assert right or waits or isinstance(ended, (DivergedError, holes.DisplacedError))


@pytest.mark.parametrize("seed", range(30))
def test_a_leader_may_have_forgotten_the_producer(seed: int) -> None:
    """``producer.id.expiration.ms`` passes while nobody writes: the sequence begins anew at the offset."""
    rng = random.Random(seed)
    asyncio.run(_forgotten(TargetLogs(rng), rng))


async def _forgotten(target: TargetLogs, rng: random.Random) -> None:
    key = ("t", 0)
    sources, committed = {key: random_log(rng)}, {key: beginning(0)}
    for _ in range(5):
        running = asyncio.ensure_future(Holder(target, sources, rng, committed).run())
        for _ in range(rng.randint(0, 200)):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        while target.tasks:
            await asyncio.gather(*target.tasks, return_exceptions=True)
        target.forget(DATA)
    await _to_the_end(target, sources, rng, committed)
    assert target.committed(key) == sources[key].committed
    assert target.log(key).end == sources[key].stable
