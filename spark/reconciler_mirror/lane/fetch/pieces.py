"""Sorts fetched batches: each is sent whole, rebuilt, gathered with others, or skipped.

Flows that filter or add headers gather their records into big batches.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.fetch import FetchedPartition
from reconciler.kafka.records.add_headers import with_headers_added
from reconciler.kafka.records.batches import Batch, CommittedFilter, CorruptBatchError, scan, verify, why_not_whole
from reconciler.kafka.records.codecs import NONE, TooMuchToOpenError
from reconciler.kafka.records.records import (
    GATHER_BYTES,
    GATHER_OPENED,
    GATHER_RECORDS,
    Record,
    codec_of,
    fitting,
    gather,
    rebuild,
    records_of,
)
from reconciler_mirror import log_lines as logs
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.model.counters import Loss
from reconciler_mirror.record_work.on_bytes import RecordWorker

GATHER_BELOW, WHOLE_ABOVE = 16.0, 32.0
"""Average records per batch: below the first, batches are gathered; above the second, they travel whole again. The gap
keeps a single batch from switching back and forth."""
MOST_GROWN = 1 << 20
"""Offsets by which a log may grow during a Fetch: a broker takes the high watermark before it reads."""
_log = logs.logger("batch path")
Pieces = tuple[list[Piece], int]
"""Pieces in offset order, and the offset after the last batch that they cover."""
MakePieces = Callable[[Partition, memoryview, Sequence[tuple[Batch, bool]], Buffer | None], Pieces]
"""``LaneDelivery.pieces``."""


def pieces_of(partition: Partition, answer: FetchedPartition, buffer: Buffer | None, make: MakePieces) -> Pieces:
    """Has ``make`` make pieces from the batches at or after the position. Pieces of source bytes hold ``buffer``.

    Batches before an unreadable one are copied. If the unreadable batch is the first, raises CorruptBatchError or
    MalformedResponseError for any defect: a hostile batch may stop its partition, but never the lane.
    """
    try:
        return _pieces_of(partition, answer, buffer, make)
    except (CorruptBatchError, MalformedResponseError):
        raise
    except Exception as error:
        spec = partition.spec
        _log.exception("batch not copied", topic=spec.topic, partition=spec.partition, offset=partition.log.covered)
        words = f"{type(error).__name__} where it was taken apart; the log of the task says where"
        raise MalformedResponseError(words) from error


def _pieces_of(partition: Partition, answer: FetchedPartition, buffer: Buffer | None, make: MakePieces) -> Pieces:
    """Checks and sorts the batches of an answer, in log order, and stops at the first doubtful one."""
    view = answer.records
    keep = CommittedFilter(view, answer.aborted)
    covered, after = partition.log.covered, 0
    wanted: list[Batch] = []
    looked: list[tuple[Batch, bool]] = []
    batches = scan(view)
    partition.figures.lost.forget_beyond(covered)
    for batch in sound(partition, view, batches, answer.high_watermark) if partition.hold.checking else batches:
        # The CRC of a batch does not cover its base offset, and a damaged base offset would move the position.
        if not after <= batch.base < batch.next_offset <= answer.high_watermark + MOST_GROWN:
            says = f"a batch says it holds offsets {batch.base} to {batch.next_offset}"
            between = f"between {after} and the log's end {answer.high_watermark}"
            raise MalformedResponseError(f"{says}, but lies {between}")
        if batch.start == batches[-1].start and _in_doubt(partition, batch, covered):
            break
        after = batch.next_offset
        # A batch is skipped (control, aborted) only if its CRC proves the header that says so.
        delivered = keep.delivers(batch)
        if batch.next_offset > covered:
            if delivered:
                wanted.append(batch)
            elif not (partition.hold.checking or _is_sound(view, batch, wanted)):
                break
            looked.append((batch, delivered))
        covered = max(covered, batch.next_offset)
        partition.log.covered_epoch = max(partition.log.covered_epoch, batch.leader_epoch)
    if looked:
        partition.log.sorted_to(looked[-1][0])
    if wanted:
        partition.sizes.try_larger()
        # A small batch costs more than its records; the choice changes only for clearly small or big averages.
        average = sum(batch.records for batch in wanted) / len(wanted)
        gathers = average <= WHOLE_ABOVE if partition.sizes.gathers else len(wanted) > 1 and average < GATHER_BELOW
        partition.sizes.gathers = gathers
    return make(partition, view, looked, buffer)


def delivered_pieces(
    partition: Partition, view: memoryview, batches: Sequence[tuple[Batch, bool]], buffer: Buffer | None
) -> Pieces:
    """Pieces from the delivered ones of ``batches``, at any target offsets; skips the others."""
    wanted = [batch for batch, delivered in batches if delivered]
    covered = batches[-1][0].next_offset if batches else partition.log.covered
    if not wanted:
        return [], covered
    try:
        return _pieces(partition, (view, wanted), buffer), covered
    except Exception:
        count = _copyable(partition, view, wanted)
        if not count:
            raise
        return _pieces(partition, (view, wanted[:count]), buffer), wanted[count - 1].next_offset


def _in_doubt(partition: Partition, batch: Batch, expected: int) -> bool:
    """Whether the last batch of an answer begins elsewhere than at the end of the one before. Compaction leaves such
    gaps, but a flipped bit in the base offset looks the same, and no following batch contradicts it: the records in
    between would never be fetched. A second answer with the same base offset is believed."""
    if batch.base == expected or batch.next_offset <= expected or partition.log.doubted == (expected, batch.base):
        return False
    partition.log.doubted = (expected, batch.base)
    return True


def _is_sound(view: memoryview, batch: Batch, wanted: list[Batch]) -> bool:
    """Verifies a batch that its header excludes from copying, because no later step would find that header damaged.
    Raises CorruptBatchError if no ``wanted`` batch precedes it."""
    try:
        if batch.magic == 2:
            verify(view[batch.start : batch.end], batch)
        return True
    except CorruptBatchError:
        if not wanted:
            raise
        return False


def _copyable(partition: Partition, view: memoryview, wanted: list[Batch]) -> int:
    """The number of batches before the first that cannot be copied; that one comes first in the next answer."""
    count = 0
    with suppress(Exception):
        for batch in wanted:
            _pieces(partition, (view, [batch]), None)
            count += 1
    partition.figures.passed.forget_beyond(partition.log.covered)
    return min(count, max(1, len(wanted) - 1))  # each by itself, and not together: then one by one


def _pieces(partition: Partition, fetched: tuple[memoryview, list[Batch]], buffer: Buffer | None) -> list[Piece]:
    """All pieces of ``fetched``; after an exception no piece still holds ``buffer``."""
    pieces: list[Piece] = []
    worker = partition.worker
    try:
        if worker is not None:
            partition.hold.why = worker.reason
            pieces += worked_pieces(partition, worker, fetched, buffer)
        else:
            _add_pieces(pieces, partition, fetched, buffer)
    except BaseException:
        for piece in pieces:
            piece.drop()
        raise
    return pieces


def sound(partition: Partition, view: memoryview, batches: list[Batch], end: int) -> Iterator[Batch]:
    """Yields batches with a correct CRC, and empty ones in place of corrupt ones, which are counted as losses. The base
    offset of the next batch shows where a corrupt one ends; its own header is trusted only for the last batch, and
    never beyond ``end`` of the log."""
    for index, batch in enumerate(batches):
        if batch.magic != 2 or batch.next_offset <= partition.log.covered:
            yield batch
            continue
        try:
            verify(view[batch.start : batch.end], batch)
            yield batch
        except CorruptBatchError as error:
            after = batches[index + 1].base if index + 1 < len(batches) else min(batch.next_offset, end)
            position = max(after, batch.base + 1)
            lost = position - max(batch.base, partition.log.covered)
            partition.figures.lost.add(position, Loss("corrupt_source_batch", lost, batches=1, text=f"{error}"))
            yield batch._replace(records=0, attributes=0, last_delta=position - batch.base - 1)


def _add_pieces(
    pieces: list[Piece], partition: Partition, fetched: tuple[memoryview, list[Batch]], buffer: Buffer | None
) -> None:
    """Whole batches travel unchanged. Small ones are gathered into larger batches while the target's overhead per batch
    would dominate (``sizes.gathers``); a gathered one is closed before any other piece, which keeps the order. A batch
    with offsets before the position, too large for the target or in an old format is encoded again, and so are records
    of a source topic with LogAppendTime, which keep that time as with MirrorMaker 2."""
    view, wanted = fetched
    position = partition.log.covered
    small: list[Batch] = []
    partition.hold.why = "small batches gathered" if partition.sizes.gathers else ""
    for batch in wanted:
        largest = partition.sizes.at(batch.base)
        why = _why_not_whole(partition, view, batch, largest)
        if why is None and partition.sizes.gathers and batch.records <= WHOLE_ABOVE:
            small.append(batch)
            continue
        if small:
            pieces += gathered(view, small, largest, buffer)
            small = []
        if why is None:
            pieces.append(Piece.whole(view[batch.start : batch.end], batch, buffer, batch))
        else:
            partition.hold.why = "a refused record is looked for" if batch.base < partition.sizes.sought_to else why
            made = rebuild(view, batch, position, largest, NONE if partition.uncompressed else None)
            pieces += (Piece.made(part, batch, batch.max_timestamp) for part in made)
    pieces += gathered(view, small, partition.sizes.at(position), buffer)


def _why_not_whole(partition: Partition, view: memoryview, batch: Batch, largest: int) -> str | None:
    compressed = "compressed" if partition.uncompressed and codec_of(view, batch) else None
    return compressed or why_not_whole(batch, partition.log.covered, largest)


def gathered(view: memoryview, small: list[Batch], largest: int, buffer: Buffer | None) -> list[Piece]:
    try:
        return [Piece.made(part, last, last.max_timestamp) for part, last in gather(view, small, largest)]
    except TooMuchToOpenError:  # gathering is optional
        return [Piece.whole(view[batch.start : batch.end], batch, buffer, batch) for batch in small]


def worked_pieces(
    partition: Partition, worker: RecordWorker, fetched: tuple[memoryview, list[Batch]], buffer: Buffer | None
) -> Iterator[Piece]:
    """Pieces in offset order. Counts omitted records, even after the last piece, in ``partition.figures.passed``."""
    view, wanted = fetched
    gathering = _Gathering(partition.sizes.at(wanted[0].base))
    for batch in wanted:
        # Headers that are equal for every record are added without decoding the batch, if it still fits.
        large, always = batch.records > WHOLE_ABOVE, worker.always_added
        whole = large and _why_not_whole(partition, view, batch, gathering.largest) is None
        if (
            whole
            and always is not None
            and len(longer := with_headers_added(view, batch, *always)) <= gathering.largest
        ):
            yield from gathering.flush()
            yield Piece.whole(memoryview(longer), batch)
            continue
        records = [record for record in records_of(view, batch) if record.offset >= partition.log.covered]
        done = worker.apply(records)
        if done.filtered or done.returning:
            partition.figures.passed.add(batch.next_offset, (done.filtered, done.returning))
        if whole and not done.changed:
            yield from gathering.flush()
            yield Piece.whole(view[batch.start : batch.end], batch, buffer)
        else:
            codec = NONE if partition.uncompressed else codec_of(view, batch)
            yield from gathering.add((batch, codec), done.kept, len(records))
    yield from gathering.flush()


class _Gathering:
    """Gathers records of consecutive source batches into one batch."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._records: list[Record] = []
        self._size = 0.0
        self._opened = 0
        self._codec = -1
        self._last: Batch | None = None

    def add(self, source: tuple[Batch, int], kept: list[Record], of: int) -> Iterator[Piece]:
        """``source``: a batch and its codec; ``of``: how many of its records the worker has read."""
        batch, codec = source
        if self._records and kept and codec != self._codec:
            yield from self.flush()
        if len(kept) * 2 < of:  # a view would keep the memory of all records for a few
            kept = [record._replace(tail=memoryview(bytes(record.tail))) for record in kept]
        self._records += kept
        if self._records:
            self._last = batch
            self._codec = codec if kept else self._codec
            self._size += (batch.end - batch.start) * len(kept) / max(1, of)
            self._opened += sum(len(record.tail) for record in kept) if codec else 0
        full = self._size >= min(GATHER_BYTES, self.largest // 2) or len(self._records) >= GATHER_RECORDS
        if full or self._opened >= GATHER_OPENED:
            yield from self.flush()

    def flush(self) -> Iterator[Piece]:
        last, records = self._last, self._records
        self._records, self._size, self._opened, self._last = [], 0.0, 0, None
        if last is None:
            return
        for rebuilt in fitting(records, self._codec, self.largest, last.next_offset):
            yield Piece.made(rebuilt, last, records[0].timestamp)
