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
from reconciler_mirror.verify.model import PartitionRange

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
    """``source_next`` and ``target_next``: the next offsets to compare. ``equal``: records, ``by_bytes``: of equal
    batches. ``samples``: source and target bounds of equal records."""

    state: WalkState
    source_next: int
    target_next: int
    source_end: int
    equal: int
    by_bytes: int
    source_records: int
    target_records: int
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
        ours, theirs = self._source, self._target
        return Walked(
            state,
            ours.at,
            theirs.at,
            self._source_end,
            self._equal,
            self._by_bytes,
            ours.records,
            theirs.records,
            tuple(self._stretches),
            tuple(self._samples),
        )

    def _to_the_end(self, over: Callable[[], bool]) -> WalkState:
        """Each turn uses the cheapest comparison that fits: whole batches, pairs, decoded records, a search ahead."""
        ours, theirs = self._source, self._target
        while not over():
            if ours.between and theirs.between:
                mine, other = ours.peek(), theirs.peek()
                if mine is not None and other is not None and self._equal_bytes(mine, other):
                    self._take(mine, other)
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
        mine, other = ours.batch, theirs.batch
        if mine is None or other is None:
            return False
        if plan.same_offsets and mine.batch.base + mine.index != other.batch.base + other.index:
            return False
        begun, size = (ours.at, theirs.at), mine.place
        done = equal_pairs(mine, other, timed=plan.timestamps)
        if not done:
            return False
        for side, batch in ((ours, mine), (theirs, other)):
            side.at, side.records = batch.batch.base + batch.index, side.records + done
        self._proved(done, begun, mine.place - size)
        try:
            ours.batch = None if mine.over else mine
            theirs.batch = None if other.over else other
        except MalformedResponseError:
            raise NotOpenedError from None
        return True

    def _in_step(self) -> bool:
        """Passes equal known records of both sides; False at a difference."""
        ours, theirs = self._source, self._target
        count = min(ours.left, theirs.left)
        begun, same = (ours.at, theirs.at), count
        mine, other = ours.contents[ours.next : ours.next + count], theirs.contents[theirs.next : theirs.next + count]
        if mine != other:
            same = next(index for index, (a, b) in enumerate(zip(mine, other, strict=True)) if a != b)
        size = sum(len(content[-1]) for content in mine[:same])
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
            mine, other = (side.contents[side.next : side.next + count] for side in (ours, theirs))
            ends = (ours.left <= count and ours.peek() is None, theirs.left <= count and theirs.peek() is None)
            if (again := next_common(mine, other, *ends)) is not None:
                self._differ(*again)
                return None
            if self._part and ends[0] and len(mine) < SURE:
                self._differ(len(mine), min(len(mine), len(other)))
                return WalkState.DONE
            if ends[1] and (ends[0] or self._due(len(other)) < ours.left):
                self._differ(self._due(len(other)), len(other))
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

    def _differ(self, mine: int, other: int, *, lost: bool = False) -> None:
        """Notes a different stretch: the next ``mine`` source and ``other`` target records. Equally many records with
        equal meaning (other varint encodings) count as equal. ``lost``: no common record follows, so the walk ends."""
        ours, theirs = self._source, self._target
        a, b = ours.contents[ours.next : ours.next + mine], theirs.contents[theirs.next : theirs.next + other]
        if not lost and mine == other and self._mean_the_same(a, b):
            begun = (ours.at, theirs.at)
            ours.passed(mine)
            theirs.passed(other)
            self._proved(mine, begun, 0)
            return
        spans: list[Bounds] = []
        for side, count, span in ((ours, mine, self._plan.source), (theirs, other, self._plan.target)):
            follower = None if lost else side.behind(count)
            last = side.offsets[side.next + count - 1] + 1 if count else side.at
            whole = follower + 1 if follower is not None else span.end if side is theirs else last
            spans.append((side.at, max(side.at, last, min(whole, span.end))))
        self._stretches.append(
            DifferingStretch(ours.records, spans[0], spans[1], _differing(a, b), (mine, other), lost)
        )
        if not lost:
            ours.passed(mine)
            theirs.passed(other)
            self._source_end = max(self._source_end, ours.at)

    def _mean_the_same(self, mine: Sequence[Content], other: Sequence[Content]) -> bool:
        if self._canonical is None:
            return False
        means = self._canonical
        return all(a[:-1] == b[:-1] and means(a[-1]) == means(b[-1]) for a, b in zip(mine, other, strict=True))

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
            ours, theirs = self._source, self._target
            mine = (begun, last) if side is ours else (ours.at, ours.at)
            other = (begun, last) if side is theirs else (theirs.at, theirs.at)
            counts = (count, 0) if side is ours else (0, count)
            number = self._source.records - counts[0]
            self._stretches.append(DifferingStretch(number, mine, other, count, counts))
            self._source_end = max(self._source_end, ours.at)
        return WalkState.DONE

    def _equal_bytes(self, mine: SidePiece, other: SidePiece) -> bool:
        """Whether two whole batches have equal records without decoding them: equal codec, counts, timestamps and
        compressed bytes, with a correct CRC on both sides."""
        ours, theirs = mine.header, other.header
        if ours is None or theirs is None or mine.view is None or other.view is None:
            return False
        if not (mine.whole and other.whole and ours.magic == theirs.magic == 2):
            return False
        attributes = ours.attributes | theirs.attributes
        if attributes & _NEVER_EQUAL or (ours.attributes ^ theirs.attributes) & CODEC:
            return False
        if ours[6:9] != theirs[6:9] or ours.records != theirs.records:  # last offset delta, timestamps
            return False
        if self._plan.same_offsets and ours.base != theirs.base:
            return False
        if mine.view[HEADER:].tobytes() != other.view[HEADER:].tobytes():
            return False
        try:
            verify(mine.view, ours)
            verify(other.view, theirs)
        except CorruptBatchError:
            return False
        return True

    def _take(self, mine: SidePiece, other: SidePiece) -> None:
        """Passes two batches with equal bytes, which proves all their records equal without decoding."""
        if mine.header is None or other.header is None or mine.view is None:
            return
        count = mine.header.records
        self._by_bytes += count
        for side, header in ((self._source, mine.header), (self._target, other.header)):
            side.at, side.ahead, side.records = header.next_offset, None, side.records + count
        self._equal += count
        self._bytes += len(mine.view)
        self._source_end = max(self._source_end, self._source.at)
        places = ((mine.header.base, mine.header.next_offset), (other.header.base, other.header.next_offset))
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
    mine: Sequence[Content], other: Sequence[Content], mine_ends: bool, other_ends: bool
) -> tuple[int, int] | None:
    """Numbers of records to pass on each side until both are in step again, with the smallest sum. Fewer than ``SURE``
    equal records are enough only at the end of a side."""
    places: dict[Content, list[int]] = {}
    for index, content in enumerate(other):
        members = places.setdefault(content, [])
        if len(members) < _MOST_PLACES:
            members.append(index)
    best: tuple[int, int] | None = None
    for index, content in enumerate(mine):
        if best is not None and index >= sum(best):
            break
        for place in places.get(content, ()):
            if best is not None and index + place >= sum(best):
                break
            count = min(SURE, len(mine) - index, len(other) - place)
            short = count < SURE
            known = (
                not short or (mine_ends and len(mine) - index == count) or (other_ends and len(other) - place == count)
            )
            if known and mine[index : index + count] == other[place : place + count]:
                best = (index, place)
                break
    return best


def _differing(mine: Sequence[Content], other: Sequence[Content]) -> int:
    """The number of records to change, insert or delete to turn one side into the other."""
    if not (mine and other) or max(len(mine), len(other)) > _MOST_MATCHED:
        return max(len(mine), len(other))
    changes = SequenceMatcher(None, mine, other, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in changes if tag != "equal")
