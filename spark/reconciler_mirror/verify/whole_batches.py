"""Proves records equal without opening them: where both sides hold the same batch, its bytes are the proof.

Of a batch only its header differs between both sides (offset, leader epoch, producer, checksum). Codec, numbers,
timestamps and the records as they are compressed are compared byte by byte, and both checksums are verified, since
readers of a copy verify its. Where batches are others, because a lane put small ones together, their records are
decoded and compared byte by byte behind their offsets. What differs is left to the comparison by librdkafka.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from reconciler.kafka.records.batches import APPEND_TIME, CODEC, HEADER, Batch, CorruptBatchError, verify
from reconciler.kafka.records.records import Record
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange, TimeWindow
from reconciler_mirror.verify.unreadable import UnreadableError

STRIPE = 64 << 20
"""Bytes of which one batch is read again by librdkafka, so that no proof rests on our reader alone."""
MOST_SAMPLES = 8
_DELETE_HORIZON = 0x40  # then the base timestamp is none (KIP-534)
_NEVER_EQUAL = APPEND_TIME | _DELETE_HORIZON


@dataclass(frozen=True, slots=True)
class DataBatch:
    """``view``: the whole batch; gone when the next one is asked for. ``decoded``: its records within the bounds.
    ``whole``: all of them are."""

    header: Batch
    view: memoryview
    decoded: Callable[[], list[Record]]
    whole: bool


@dataclass(frozen=True, slots=True)
class EqualBatches:
    """Up to where both sides are proved equal: ``source_next`` and ``target_next`` are the next offsets; ``records`` of
    each side, ``by_bytes`` of them in equal batches. ``whole``: nothing is left to compare. ``older_*``: records before
    the first common one. ``samples``: source and target offsets of equal batches, each from and up to."""

    source_next: int
    target_next: int
    source_end: int
    records: int = 0
    by_bytes: int = 0
    whole: bool = False
    older_source: int = 0
    older_target: int = 0
    samples: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()


Batches = Callable[[OffsetSpan], Iterator[DataBatch]]
"""Opens the data batches of a span, committed ones as its isolation says, from its beginning again."""


def fits(plan: PartitionRange) -> bool:
    """Whether copies of the plan's records can lie in the batches of their source."""
    return plan.worker is None and not plan.compacted and plan.window == TimeWindow()


def equal_batches(plan: PartitionRange, batches: Batches) -> EqualBatches | None:
    """None where nothing is proved. Sides that may have lost their oldest records are proved whole or not at all, since
    the first batch in common is only looked for. Raises UnreadableError."""
    if not (plan.source.cut or plan.target.cut):
        equal = _Walk(plan, batches(plan.source), batches(plan.target)).run()
        return equal if equal.records or equal.whole else None
    ways = ((0, 0), *(((1, 0),) if plan.target.cut else ()), *(((0, 1),) if plan.source.cut else ()))
    for skip_source, skip_target in ways:
        walk = _Walk(plan, batches(plan.source), batches(plan.target))
        if walk.align(source=bool(skip_source), target=bool(skip_target)):
            equal = walk.run()
            return equal if equal.whole else None
    return None


@dataclass(slots=True)
class _Side:
    """``left``: decoded records of the batch before ``ahead``, from ``next`` on. ``at``: the next offset that is not
    compared. ``sound``: no batch failed to open."""

    stream: Iterator[DataBatch]
    at: int
    left: list[Record] = field(default_factory=list)
    next: int = 0
    ahead: DataBatch | None = None
    older: int = 0
    sound: bool = True

    @property
    def between(self) -> bool:
        """Between two batches."""
        return self.next == len(self.left)

    def peek(self) -> DataBatch | None:
        if self.ahead is None:
            self.ahead = next(self.stream, None)
        return self.ahead

    def open(self) -> bool:
        """False at the end of the stream, and where a batch cannot be opened: librdkafka says what is wrong with it."""
        batch = self.peek()
        if batch is None:
            return False
        try:
            self.left, self.next = batch.decoded(), 0
        except UnreadableError:
            self.sound = False
            return False
        self.ahead = None
        return True

    def passed(self, batch: DataBatch) -> None:
        self.at, self.ahead = batch.header.next_offset, None


class _Walk:
    """Both sides of one partition, in step."""

    def __init__(self, plan: PartitionRange, source: Iterator[DataBatch], target: Iterator[DataBatch]) -> None:
        self._plan = plan
        self._source, self._target = _Side(source, plan.source.start), _Side(target, plan.target.start)
        self._records = self._by_bytes = self._bytes = self._stripe = 0
        self._source_end = plan.position
        self._samples: list[tuple[tuple[int, int], tuple[int, int]]] = []
        self._random = random.Random()  # noqa: S311 - other batches in each run

    def align(self, *, source: bool, target: bool) -> bool:
        """Leaves out what comes before the first batch in common, on one side at most."""
        while (ours := self._source.peek()) is not None and (theirs := self._target.peek()) is not None:
            if self._equal(ours, theirs):
                return True
            side, batch = (self._source, ours) if source else (self._target, theirs)
            if not (source or target) or not batch.whole:
                return False
            side.older += batch.header.records
            side.passed(batch)
        return False

    def run(self) -> EqualBatches:
        whole = self._compared()
        return EqualBatches(
            self._source.at,
            self._target.at,
            self._source_end,
            self._records,
            self._by_bytes,
            whole,
            self._source.older,
            self._target.older,
            tuple(self._samples),
        )

    def _compared(self) -> bool:
        """Whether both sides were equal to their ends."""
        ours, theirs = self._source, self._target
        while True:
            if ours.between and theirs.between:
                one, other = ours.peek(), theirs.peek()
                if other is None:
                    return self._nothing_missing(one)
                if one is None:
                    return False
                if self._equal(one, other):
                    self._take(one, other)
                    continue
            # Batches part here: records, one by one, until both sides are between two batches again.
            if theirs.between and not theirs.open():
                return theirs.sound and self._nothing_missing(None)
            if ours.between and not ours.open():
                return False
            if not self._records_in_step():
                return False

    def _records_in_step(self) -> bool:
        """Compares timestamps and all bytes of a record behind its offset: key, value and headers as they lie there."""
        ours, theirs, timed, same = self._source, self._target, self._plan.timestamps, self._plan.same_offsets
        begun, taken = (ours.at, theirs.at), 0
        for record, copy in zip(
            islice(ours.left, ours.next, None), islice(theirs.left, theirs.next, None), strict=False
        ):
            if (timed and record.timestamp != copy.timestamp) or (same and record.offset != copy.offset):
                break
            if record.tail.tobytes() != copy.tail.tobytes():
                break
            taken += 1
            self._bytes += len(record.tail)
        if taken:
            ours.at, theirs.at = (
                ours.left[ours.next + taken - 1].offset + 1,
                theirs.left[theirs.next + taken - 1].offset + 1,
            )
            self._source_end = max(self._source_end, ours.at)
            self._sample(((begun[0], ours.at), (begun[1], theirs.at)))
        ours.next, theirs.next = ours.next + taken, theirs.next + taken
        self._records += taken
        return ours.between or theirs.between

    def _nothing_missing(self, following: DataBatch | None) -> bool:
        """At the target's end: what the source has besides lies behind the position."""
        first = None if self._source.between else self._source.left[self._source.next].offset
        if first is None and following is None:
            following = self._source.peek()
        if first is None and following is not None:
            first = max(following.header.base, self._source.at)
        return first is None or first >= self._plan.position

    def _equal(self, one: DataBatch, other: DataBatch) -> bool:
        ours, theirs = one.header, other.header
        if not (one.whole and other.whole and ours.magic == theirs.magic == 2):
            return False
        attributes = ours.attributes | theirs.attributes
        if attributes & _NEVER_EQUAL or (ours.attributes ^ theirs.attributes) & CODEC:
            return False
        if ours[6:9] != theirs[6:9] or ours.records != theirs.records:  # last offset delta, timestamps
            return False
        if self._plan.same_offsets and ours.base != theirs.base:
            return False
        if one.view[HEADER:].tobytes() != other.view[HEADER:].tobytes():
            return False
        try:
            verify(one.view, ours)
            verify(other.view, theirs)
        except CorruptBatchError:
            return False
        return True

    def _take(self, one: DataBatch, other: DataBatch) -> None:
        ours, theirs = one.header, other.header
        self._records += ours.records
        self._by_bytes += ours.records
        self._sample(((ours.base, ours.next_offset), (theirs.base, theirs.next_offset)))
        self._bytes += len(one.view)
        self._source.passed(one)
        self._target.passed(other)
        self._source_end = max(self._source_end, self._source.at)

    def _sample(self, place: tuple[tuple[int, int], tuple[int, int]]) -> None:
        """One of each stripe, each as likely as any other."""
        if len(self._samples) * STRIPE <= self._bytes and len(self._samples) < MOST_SAMPLES:
            self._samples.append(place)
            self._stripe = 1
            return
        self._stripe += 1
        if self._random.random() * self._stripe < 1:
            self._samples[-1] = place


def rest(plan: PartitionRange, proved: EqualBatches) -> PartitionRange:
    """What is left to compare behind ``proved``."""
    source = replace(plan.source, start=min(proved.source_next, plan.source.end), cut=False)
    target = replace(plan.target, start=min(proved.target_next, plan.target.end), cut=False)
    return replace(plan, source=source, target=target)


def sampled(span: OffsetSpan, bounds: tuple[int, int]) -> OffsetSpan:
    return replace(span, start=max(bounds[0], span.start), end=min(bounds[1], span.end), cut=False)
