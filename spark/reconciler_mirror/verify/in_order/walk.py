"""Both sides of an ordered partition in step: by whole batches, by pairs of records, by a search ahead.

A copied batch differs from its source only in the header (offset, leader epoch, producer, CRC). Codec, counts,
timestamps and compressed records are compared byte by byte, and both CRCs are verified, since readers of the copy will
verify its own. If batches differ, because a lane gathered small ones, their records are compared byte by byte after
their offsets. If records differ, the walk searches for the next common ones, and compares batches again from there.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum, auto

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records.batches import APPEND_TIME, CODEC, HEADER, CorruptBatchError, verify
from reconciler_mirror.verify.in_order.pairs import DELETE_HORIZON, equal_pairs
from reconciler_mirror.verify.in_order.sides import ComparedSide, Content, NotOpenedError, SeenRecord, SidePiece
from reconciler_mirror.verify.model import PartitionRange, PartitionReading

STRIPE = 64 << 20
"""Bytes per sample: librdkafka reads one stretch of each again, so that no proof rests on our reader alone."""
MOST_SAMPLES = 8
AHEAD = (64, 1_024, 16_384, 65_536)
"""Records of each side to search for the next common ones, in turn."""
SURE = 8
"""Consecutive equal records that prove that both sides are in step again."""
MOST_STRETCHES = 1_000
_MOST_PLACES, _MOST_MATCHED = 64, 2_000
_NEVER_EQUAL = APPEND_TIME | DELETE_HORIZON

Bounds = tuple[int, int]
"""First offset, and offset after the last."""


@dataclass(frozen=True, slots=True)
class DifferingStretch:
    """Consecutive different records. ``record``: number of the first, from the begin of the walk. ``source`` and
    ``target``: their offsets, including the next common record. ``differing``: how many; ``counts``: on each side.
    ``lost``: no common record follows, so the comparison ends here, and ``source`` and ``target`` are the first record
    of each side."""

    record: int
    source: Bounds
    target: Bounds
    differing: int
    counts: Bounds
    lost: bool = False


class WalkState(Enum):
    """PAUSED: time was over. NOT_OPENED: see NotOpenedError. LOST: the rest cannot be compared."""

    DONE = auto()
    PAUSED = auto()
    NOT_OPENED = auto()
    LOST = auto()


@dataclass(frozen=True, slots=True)
class Walked:
    """``reading``: without differences, which a second reading names. ``samples``: source and target bounds of equal
    records."""

    state: WalkState
    reading: PartitionReading
    stretches: tuple[DifferingStretch, ...] = ()
    samples: tuple[tuple[Bounds, Bounds], ...] = ()


Canonical = Callable[[bytes], object]
"""The meaning of a content, for records with several encodings."""


class Walk:
    """``pair``: pieces of source and target. ``canonical``: see ``Canonical``. ``part``: the source range ends within
    the partition, so the target may have more records."""

    def __init__(
        self,
        plan: PartitionRange,
        pair: tuple[Iterator[SidePiece], Iterator[SidePiece]],
        canonical: Canonical | None = None,
        *,
        part: bool = False,
    ) -> None:
        self._plan, self._part, self._canonical = plan, part, canonical
        timed, same = plan.timestamps, plan.same_offsets

        def contents_of(item: SeenRecord) -> Content:
            return item.offset if same else 0, item.timestamp if timed else 0, item.content

        starts = (plan.source.start, plan.target.start)
        self._source, self._target = (ComparedSide(*given, contents_of) for given in zip(pair, starts, strict=True))
        self._equal = self._by_bytes = self._bytes = self._stripe = 0
        self._source_end = plan.position
        self._samples: list[tuple[Bounds, Bounds]] = []
        self._stretches: list[DifferingStretch] = []
        self._random = random.Random()  # noqa: S311 - others in each run

    def run(self, over: Callable[[], bool] = lambda: False) -> Walked:
        """Compares to the end, or until ``over``."""
        try:
            state = self._to_the_end(over)
        except NotOpenedError:
            state = WalkState.NOT_OPENED
        plan, ours, theirs = self._plan, self._source, self._target
        reading = PartitionReading(
            plan.index,
            plan.source.start,
            plan.target.start,
            source_end=self._source_end,
            source_next=ours.at,
            target_next=theirs.at,
            done=state is not WalkState.PAUSED,
            equal=self._equal,
            by_bytes=self._by_bytes,
            source_records=ours.records,
            target_records=theirs.records,
            differing=sum(stretch.differing for stretch in self._stretches),
            rest=ours.at if state is WalkState.LOST else None,
        )
        return Walked(state, reading, tuple(self._stretches), tuple(self._samples))

    def _to_the_end(self, over: Callable[[], bool]) -> WalkState:
        """Each turn uses the cheapest comparison that fits: whole batches, pairs, decoded records, a search ahead."""
        ours, theirs = self._source, self._target
        while not over():
            if ours.between and theirs.between:
                source, target = ours.peek(), theirs.peek()
                if source is not None and target is not None and self._equal_bytes(source, target):
                    self._take(source, target)
                    continue
            # Source records after the target's end are missing if they lie before the position, and lag if they lie
            # after it. Target records after the source's end are surplus, except in a part of the partition.
            if not theirs.fill():
                return self._only_one_side_goes_on(ours, self._plan.position)
            if not ours.fill():
                return WalkState.DONE if self._part else self._only_one_side_goes_on(theirs, None)
            by_pairs = ours.by_pairs and theirs.by_pairs
            if by_pairs:
                ours.tighten()
                theirs.tighten()
                if self._by_pairs():
                    continue
            ours.loosen()
            theirs.loosen()
            if by_pairs:  # pairs have failed in these batches, so their records are compared to the end
                ours.last = theirs.last = None
            if not self._in_step() and (state := self._find_again()) is not None:
                return state
            if len(self._stretches) >= MOST_STRETCHES:
                return WalkState.LOST
        return WalkState.PAUSED

    def _by_pairs(self) -> bool:
        """Passes equal pairs of the current batches; whether there was any."""
        ours, theirs, plan = self._source, self._target, self._plan
        source, target = ours.batch, theirs.batch
        if source is None or target is None:
            return False
        # Equal records at other offsets are a difference here, which the search by single records names.
        if plan.same_offsets and source.batch.base + source.index != target.batch.base + target.index:
            return False
        begun, size = (ours.at, theirs.at), source.place
        done = equal_pairs(source, target, timed=plan.timestamps)
        if not done:
            return False
        for side, batch in ((ours, source), (theirs, target)):
            side.at, side.records = batch.batch.base + batch.index, side.records + done
        self._proved(done, begun, source.place - size)
        try:
            ours.batch = None if source.over else source
            theirs.batch = None if target.over else target
        except MalformedResponseError:
            raise NotOpenedError from None
        return True

    def _in_step(self) -> bool:
        """Passes equal known records of both sides; False at a difference."""
        ours, theirs = self._source, self._target
        count = min(ours.left, theirs.left)
        begun, same = (ours.at, theirs.at), count
        source, target = (
            ours.contents[ours.next : ours.next + count],
            theirs.contents[theirs.next : theirs.next + count],
        )
        if source != target:
            same = next(index for index, (a, b) in enumerate(zip(source, target, strict=True)) if a != b)
        size = sum(len(content[-1]) for content in source[:same])
        ours.passed(same)
        theirs.passed(same)
        if same:
            self._proved(same, begun, size)
        return same == count

    def _proved(self, count: int, begun: Bounds, size: int) -> None:
        ours, theirs = self._source.at, self._target.at
        self._equal += count
        self._bytes += size
        self._source_end = max(self._source_end, ours)
        self._sample(((begun[0], ours), (begun[1], theirs)))

    def _find_again(self) -> WalkState | None:
        """Passes different records. Returns the final state if the comparison ends with them."""
        ours, theirs = self._source, self._target
        for count in AHEAD:
            fits = ours.look_ahead(count) and theirs.look_ahead(count)
            source, target = (side.contents[side.next : side.next + count] for side in (ours, theirs))
            ends = (ours.left <= count and ours.peek() is None, theirs.left <= count and theirs.peek() is None)
            if (again := next_common(source, target, *ends)) is not None:
                self._differ(*again)
                return None
            # A part's source records end here, and the target goes on: fewer than ``SURE`` are compared one to one.
            if self._part and ends[0] and len(source) < SURE:
                self._differ(len(source), min(len(source), len(target)))
                return WalkState.DONE
            # At the target's end no common record can follow: the records that it must have are missing, others lag.
            if ends[1] and (ends[0] or self._due(len(target)) < ours.left):
                self._differ(self._due(len(target)), len(target))
                return WalkState.DONE
            if not fits:
                break
        self._differ(1, 1, lost=True)
        return WalkState.LOST

    def _due(self, copies: int) -> int:
        """The number of known source records that the target must have: all before the position, and at least as many
        as it has copies."""
        ours = self._source
        below = sum(offset < self._plan.position for offset in ours.offsets[ours.next :])
        return min(ours.left, max(below, copies))

    def _differ(self, source: int, target: int, *, lost: bool = False) -> None:
        """Notes a different stretch. ``source`` and ``target``: its records on each side. Equally many records with
        equal meaning (other varint encodings) count as equal. ``lost``: no common record follows, so the walk ends."""
        ours, theirs = self._source, self._target
        a, b = ours.contents[ours.next : ours.next + source], theirs.contents[theirs.next : theirs.next + target]
        # Before a difference is noted, the records are compared by meaning: a copy may encode a length in more bytes.
        if not lost and source == target and self._mean_the_same(a, b):
            begun = (ours.at, theirs.at)
            ours.passed(source)
            theirs.passed(target)
            self._proved(source, begun, 0)
            return
        spans: list[Bounds] = []
        for side, count, span in ((ours, source, self._plan.source), (theirs, target, self._plan.target)):
            # The bounds reach to the next common record, because a second reading must find the whole stretch between.
            follower = None if lost else side.behind(count)
            last = side.offsets[side.next + count - 1] + 1 if count else side.at
            whole = follower + 1 if follower is not None else span.end if side is theirs else last
            spans.append((side.at, max(side.at, last, min(whole, span.end))))
        self._stretches.append(
            DifferingStretch(ours.records, spans[0], spans[1], _differing(a, b), (source, target), lost)
        )
        if not lost:
            ours.passed(source)
            theirs.passed(target)
            self._source_end = max(self._source_end, ours.at)

    def _mean_the_same(self, source: Sequence[Content], target: Sequence[Content]) -> bool:
        if self._canonical is None:
            return False
        means = self._canonical
        return all(a[:-1] == b[:-1] and means(a[-1]) == means(b[-1]) for a, b in zip(source, target, strict=True))

    def _only_one_side_goes_on(self, side: ComparedSide, below: int | None) -> WalkState:
        """The other side has ended. The remaining records of ``side`` before ``below`` are one stretch of missing or
        surplus records."""
        begun, count = side.at, 0
        last = begun
        while side.fill():
            side.loosen()
            here = [offset for offset in side.offsets[side.next :] if below is None or offset < below]
            if not here:
                break
            count, last = count + len(here), here[-1] + 1
            side.passed(len(here))
            if side.left:
                break
        if count:
            # The side that has ended still has its place in the result: there a reader looks for what is missing.
            ours, theirs = self._source, self._target
            source = (begun, last) if side is ours else (ours.at, ours.at)
            target = (begun, last) if side is theirs else (theirs.at, theirs.at)
            counts = (count, 0) if side is ours else (0, count)
            number = self._source.records - counts[0]
            self._stretches.append(DifferingStretch(number, source, target, count, counts))
            self._source_end = max(self._source_end, ours.at)
        return WalkState.DONE

    def _equal_bytes(self, source: SidePiece, target: SidePiece) -> bool:
        """Whether two whole batches have equal records without decoding them: equal codec, counts, timestamps and
        compressed bytes, with a correct CRC on both sides."""
        ours, theirs = source.header, target.header
        if ours is None or theirs is None or source.view is None or target.view is None:
            return False
        if not (source.whole and target.whole and ours.magic == theirs.magic == 2):
            return False
        attributes = ours.attributes | theirs.attributes
        if attributes & _NEVER_EQUAL or (ours.attributes ^ theirs.attributes) & CODEC:
            return False
        if ours[6:9] != theirs[6:9] or ours.records != theirs.records:  # last offset delta, timestamps
            return False
        if self._plan.same_offsets and ours.base != theirs.base:
            return False
        if source.view[HEADER:].tobytes() != target.view[HEADER:].tobytes():
            return False
        try:
            verify(source.view, ours)
            verify(target.view, theirs)
        except CorruptBatchError:
            return False
        return True

    def _take(self, source: SidePiece, target: SidePiece) -> None:
        """Passes two batches with equal bytes, which proves all their records equal without decoding."""
        if source.header is None or target.header is None or source.view is None:
            return
        count = source.header.records
        self._by_bytes += count
        for side, header in ((self._source, source.header), (self._target, target.header)):
            side.at, side.ahead, side.records = header.next_offset, None, side.records + count
        self._equal += count
        self._bytes += len(source.view)
        self._source_end = max(self._source_end, self._source.at)
        places = ((source.header.base, source.header.next_offset), (target.header.base, target.header.next_offset))
        self._sample(places)

    def _sample(self, place: tuple[Bounds, Bounds]) -> None:
        """Keeps one stretch of each stripe, all equally likely (reservoir sampling)."""
        if len(self._samples) * STRIPE <= self._bytes and len(self._samples) < MOST_SAMPLES:
            self._samples.append(place)
            self._stripe = 1
            return
        self._stripe += 1
        if self._random.random() * self._stripe < 1:
            self._samples[-1] = place


def next_common(
    source: Sequence[Content], target: Sequence[Content], source_ends: bool, target_ends: bool
) -> tuple[int, int] | None:
    """Numbers of records to pass on each side until both are in step again, with the smallest sum. Fewer than ``SURE``
    equal records are enough only at the end of a side."""
    # Repeated equal records would make the search quadratic, so only their first places count.
    places: dict[Content, list[int]] = {}
    for index, content in enumerate(target):
        members = places.setdefault(content, [])
        if len(members) < _MOST_PLACES:
            members.append(index)
    # A place further away than the best one cannot have a smaller sum, which ends both loops early.
    best: tuple[int, int] | None = None
    for index, content in enumerate(source):
        if best is not None and index >= sum(best):
            break
        for place in places.get(content, ()):
            if best is not None and index + place >= sum(best):
                break
            count = min(SURE, len(source) - index, len(target) - place)
            short = count < SURE
            known = (
                not short
                or (source_ends and len(source) - index == count)
                or (target_ends and len(target) - place == count)
            )
            if known and source[index : index + count] == target[place : place + count]:
                best = (index, place)
                break
    return best


def _differing(source: Sequence[Content], target: Sequence[Content]) -> int:
    """The number of records to change, insert or delete to turn one side into the other."""
    if not (source and target) or max(len(source), len(target)) > _MOST_MATCHED:
        return max(len(source), len(target))
    changes = SequenceMatcher(None, source, target, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in changes if tag != "equal")
