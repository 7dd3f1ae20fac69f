"""Compares an ordered partition, a piece at a time. Never raises.

Our own client reads batches; librdkafka reads a sample of the equal ones and every different record. librdkafka reads
all records if it disagrees on the sample, if our code cannot open a batch, or if the flow works on records.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from reconciler.replication.runs.verification import FirstDifference
from reconciler_mirror.verify import model
from reconciler_mirror.verify.first_difference import difference, differences, fields_that_differ, first_difference
from reconciler_mirror.verify.in_order.sides import NotOpenedError, SeenRecord, SidePiece
from reconciler_mirror.verify.in_order.walk import SURE, DifferingStretch, Walk, Walked, WalkState
from reconciler_mirror.verify.own_client import canonical
from reconciler_mirror.verify.read_partition import Readers, records
from reconciler_mirror.verify.tasks import as_it_is_now, own, with_clients
from reconciler_mirror.verify.unreadable import UnreadableError, not_aligned

_AT_ONCE = 2_000
MOST_LOOKED_FOR = 200_000
"""Target records to search for the first one of a sample, at most."""

Over = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Continued:
    """A partition that is compared up to ``source_next`` and ``target_next``; None: not at all yet."""

    plan: model.PartitionRange
    source_next: int | None = None
    target_next: int | None = None


@dataclass(frozen=True, slots=True)
class Beginning:
    """Numbers of records before the first common one; at most one side has any."""

    source: int = 0
    target: int = 0


def compared(given: Continued, readers: Readers, over: Over = lambda: False) -> Iterator[model.PartitionReading]:
    """One reading, which covers only a part if it is not ``done``."""
    plan = given.plan
    try:
        if plan.parts is not None:
            yield with_clients(_sampled(plan, readers), readers)
        elif given.source_next is None or given.target_next is None:
            yield with_clients(_begun(plan, readers, over), readers)
        else:
            yield with_clients(_piece(_from(plan, given.source_next, given.target_next), readers, over), readers)
    except UnreadableError as error:
        yield model.PartitionReading(plan.index, error=str(error), todo=error.todo)


def _begun(plan: model.PartitionRange, readers: Readers, over: Over) -> model.PartitionReading:
    """The first reading. If retention has cut a side, it counts the records before the first common one."""
    now = as_it_is_now(plan, readers)
    # Copies at the source's offsets begin at the same offset on both sides, without a search.
    if now.same_offsets or not (now.source.cut or now.target.cut):
        return _piece(now, readers, over)
    try:
        older, source, target = _first_common(now, readers, by_own=by_batches(now))
    except NotOpenedError:  # librdkafka has to read what our code cannot open
        older, source, target = _first_common(now, readers, by_own=False)
    reading = _piece(_from(now, source, target), readers, over)
    starts = replace(reading, source_start=now.source.start, target_start=now.target.start)
    return replace(starts, older_source=older.source, older_target=older.target)


def _first_common(plan: model.PartitionRange, readers: Readers, *, by_own: bool) -> tuple[Beginning, int, int]:
    """The records before the first common one, and its offsets on both sides. ``by_own``: our own client reads. Raises
    NotOpenedError."""

    def digests(side: str) -> Iterator[tuple[int, bytes]]:
        items = _items(plan, side, readers, by_own)
        return ((item.offset, model.digest(b"%d %b" % (item.timestamp, item.content))) for item in items)

    older, source, target = beginning_of(plan, digests), plan.source.start, plan.target.start
    if older.source:  # at most the position: then every copied record is older
        source = min(offset_behind(digests(model.SOURCE), older.source, plan.source.end), plan.position)
    if older.target:
        target = offset_behind(digests(model.TARGET), older.target, plan.target.end)
    return older, source, target


def _from(plan: model.PartitionRange, source: int, target: int) -> model.PartitionRange:
    """The plan from these offsets on. The window's begin applies only to the plan's own start."""
    ours = replace(plan.source, start=min(source, plan.source.end), cut=False)
    theirs = replace(plan.target, start=min(target, plan.target.end), cut=False)
    moved = (source, target) != (plan.source.start, plan.target.start)
    window = replace(plan.window, from_ms=None) if moved else plan.window
    return replace(plan, source=ours, target=theirs, window=window)


def _piece(plan: model.PartitionRange, readers: Readers, over: Over, *, part: bool = False) -> model.PartitionReading:
    """Compares from the plan's beginning on, until time is over."""

    def by_second(given: model.PartitionRange) -> model.PartitionReading:
        ours, theirs = (_pieces(_second(given, side, readers)) for side in (model.SOURCE, model.TARGET))
        return _reading(given, Walk(given, (ours, theirs), part=part).run(over), readers)

    if not by_batches(plan):
        return by_second(plan)
    ours, theirs = (readers.own(span.endpoint).pieces(span) for span in (plan.source, plan.target))
    walked = Walk(plan, (ours, theirs), canonical, part=part).run(over)
    # If librdkafka reads the sample differently, our client is wrong somewhere: librdkafka then reads everything.
    again = _seen_again(plan, walked, readers)
    if again is None:
        return by_second(plan)
    reading = replace(_reading(plan, walked, readers), sampled=again)
    if walked.state is not WalkState.NOT_OPENED:
        return reading
    try:
        return model.together(reading, by_second(_from(plan, reading.source_next, reading.target_next)))
    except UnreadableError as error:  # earlier findings stay known
        return replace(reading, error=str(error), todo=error.todo)


def by_batches(plan: model.PartitionRange) -> bool:
    """Whether the source's batches may have been copied whole."""
    return plan.worker is None and not plan.compacted and plan.window == model.TimeWindow()


def _items(plan: model.PartitionRange, side: str, readers: Readers, by_own: bool) -> Iterator[SeenRecord]:
    """The records of one side, from our own client or librdkafka. Without timestamps if the target's topic sets its own
    (LogAppendTime). Raises NotOpenedError."""
    if by_own:
        span = plan.source if side == model.SOURCE else plan.target
        for piece in readers.own(span.endpoint).pieces(span):
            timed = plan.timestamps
            yield from (item if timed else item._replace(timestamp=0) for item in piece.decoded())
        return
    yield from map(_item, _second(plan, side, readers))


def _item(record: model.VerifiedRecord) -> SeenRecord:
    return SeenRecord(record.offset, record.timestamp, model.encoded(record))


def _second(plan: model.PartitionRange, side: str, readers: Readers) -> Iterator[model.VerifiedRecord]:
    span = plan.source if side == model.SOURCE else plan.target
    return model.within(own(plan, side, span, readers), plan.window)


def _pieces(side: Iterator[model.VerifiedRecord]) -> Iterator[SidePiece]:
    while items := [*map(_item, islice(side, _AT_ONCE))]:
        yield SidePiece(lambda items=items: items)  # type: ignore[misc]


def _seen_again(plan: model.PartitionRange, walked: Walked, readers: Readers) -> int | None:
    """The number of equal records that librdkafka has read, too, on both sides; None if it reads other records."""
    count = 0
    for bounds in walked.samples:
        spans = [_cut(span, at) for span, at in zip((plan.source, plan.target), bounds, strict=True)]
        ours, theirs = (list(records(span, readers, timestamps=plan.timestamps, sample=True)) for span in spans)
        if [record[1:] for record in ours] != [record[1:] for record in theirs]:
            return None
        if not readers.one_client.keys() & {span.endpoint.cluster for span in spans}:
            count += len(ours)
    return count


def _cut(span: model.OffsetSpan, bounds: tuple[int, int]) -> model.OffsetSpan:
    return replace(span, start=max(bounds[0], span.start), end=min(bounds[1], span.end), cut=False)


def _reading(plan: model.PartitionRange, walked: Walked, readers: Readers) -> model.PartitionReading:
    """The result of a walk. Differences are read a second time before they are named: a difference in only one reading
    must not be reported as a fault of the copy."""
    named: list[FirstDifference] = []
    unconfirmed = False
    for stretch in walked.stretches[: model.MOST_NAMED]:
        again = _named(plan, stretch, readers)
        unconfirmed = unconfirmed or not again
        named += again
    # A second reading without the difference is reported as unconfirmed, neither as equal nor as differing.
    differences = tuple(named[: model.MOST_NAMED])
    return replace(walked.reading, differences=differences, unconfirmed=unconfirmed, stretches=_rows(plan, walked))


def _named(plan: model.PartitionRange, stretch: DifferingStretch, readers: Readers) -> list[FirstDifference]:
    """The differences by a second reading; empty if it finds both sides equal."""
    spans = ((model.SOURCE, plan.source, stretch.source), (model.TARGET, plan.target, stretch.target))
    if stretch.lost:
        ours, theirs = (own(plan, side, replace(span, start=at[0]), readers) for side, span, at in spans)
        first = first_difference(ours, theirs, stretch.record, offsets=plan.same_offsets)
        return [] if first is None else [first]
    ours, theirs = (own(plan, side, _cut(span, at), readers) for side, span, at in spans)
    if max(stretch.counts) < _AT_ONCE:
        return list(differences(list(ours), list(theirs), stretch.record, offsets=plan.same_offsets))
    record, copy = next(ours, None), next(theirs, None)
    match stretch.counts:
        case (count, 0) if record is not None:
            return [difference(stretch.record, ("missing",), record, copy, count)]
        case (0, count) if copy is not None:
            return [difference(stretch.record, ("extra",), record, copy, count)]
        case _ if record is not None and copy is not None and record[1:] != copy[1:]:
            return [difference(stretch.record, fields_that_differ(record, copy), record, copy)]
        case _:
            return []


def _rows(plan: model.PartitionRange, walked: Walked) -> tuple[model.ComparedStretch, ...]:
    """Rows of the Parquet file: one for all equal records, and one for each different stretch."""
    count = walked.reading.equal
    rows = [model.ComparedStretch(True, count, count, plan.source.start, plan.target.start)] if count else []
    for stretch in walked.stretches:
        sides = zip((stretch.source, stretch.target), stretch.counts, strict=True)
        starts = (bounds[0] if count else None for bounds, count in sides)
        rows.append(model.ComparedStretch(False, *stretch.counts, *starts))
    return tuple(rows)


def _sampled(plan: model.PartitionRange, readers: Readers) -> model.PartitionReading:
    """Compares only ``plan.parts``, each from its first common record on."""
    now = as_it_is_now(plan, readers)
    reading: model.PartitionReading | None = None
    for start, end in plan.parts or ():
        begin = max(start, now.source.start)
        if begin >= end:
            continue
        source = replace(now.source, start=begin, end=min(end, now.source.end), cut=False)
        part = replace(now, source=source, position=min(now.position, end), window=model.TimeWindow(), parts=None)
        # Without equal offsets the part has to be found in the copy. A place that most records agree on is likely and
        # not sure, so differences there are reported with that doubt.
        ours, theirs, sure = (begin, begin, True) if now.same_offsets else _where_both_begin(part, now, readers)
        source = replace(source, start=ours)
        part = replace(part, source=source, target=replace(now.target, start=max(theirs, now.target.start), cut=False))
        piece = _piece(part, readers, lambda: False, part=True)
        unsure = (max(now.source.start, begin - HEAD), min(end, now.source.end)) if piece.differences else None
        reading = model.together(reading, piece if sure else replace(piece, unsure=unsure))
    if reading is None:
        return model.PartitionReading(plan.index, now.source.start, now.target.start, source_end=now.position)
    return replace(reading, source_end=now.position)


def _where_both_begin(
    part: model.PartitionRange, all_of_it: model.PartitionRange, readers: Readers
) -> tuple[int, int, bool]:
    """Source and target offset from which to compare a part: after the last ``SURE`` consecutive records before it that
    both sides share, so that a difference at the part's first record is found. Without such records: at its first
    record, and at the target offset that most records around it suggest; False then. Raises UnreadableError."""
    first, beginning = part.source.start, all_of_it.source.start
    from_the_beginning = first - HEAD <= beginning and not (all_of_it.source.cut or all_of_it.target.cut)
    # Source records from both sides of the part's begin vote for its place at the target.
    lead = replace(part.source, start=max(beginning, first - HEAD))
    ours: list[model.VerifiedRecord] = []
    before = 0
    for record in own(part, model.SOURCE, lead, readers):
        ours.append(record)
        before += record.offset < first
        if len(ours) - before == HEAD:
            break
    if before == len(ours):
        return first, part.target.end, True

    # If copies keep timestamps, ListOffsets by time skips most of the target's earlier records.
    timestamp = ours[0].timestamp
    begin = part.target.start
    if not from_the_beginning and timestamp >= 0:
        at = readers.own(part.target.endpoint).at_time(part.target, timestamp)
        begin = begin if at is None else max(at, begin)
    span = replace(part.target, start=begin, cut=False)
    theirs = islice(own(part, model.TARGET, span, readers), MOST_LOOKED_FOR)
    digests = [model.digest(model.encoded(record)) for record in ours]
    shift, votes = shift_of(digests, (model.digest(model.encoded(record)) for record in theirs))
    # Repeated equal records could lie in several places, so a few votes prove nothing.
    if votes < min(2, len(ours) - before) or 2 * votes < sum(digests.count(each) == 1 for each in digests):
        raise not_aligned(part.source, part.target, ours[before].offset, begin)

    left_out = max(0, shift - HEAD)
    near = list(islice(own(part, model.TARGET, span, readers), left_out, max(0, shift + len(ours) + HEAD)))
    copies = [model.digest(model.encoded(record)) for record in near]
    expected = shift - left_out  # the index of the first of ``ours`` in ``near``, by most votes
    run = _last_run(digests[:before], copies, expected, short=from_the_beginning and not left_out)
    source_index, target_index = (before, max(0, expected + before)) if run is None else run
    there = near[target_index].offset if target_index < len(near) else part.target.end
    return ours[source_index].offset, there, run is not None


def _last_run(ours: Sequence[bytes], theirs: Sequence[bytes], shift: int, *, short: bool) -> tuple[int, int] | None:
    """The index after the last ``SURE`` consecutive records of ``ours`` that ``theirs`` has, and the one in ``theirs``
    nearest to ``shift``. ``short``: at the beginning of both sides fewer are enough."""
    for end in range(len(ours), -1, -1):
        run = ours[max(0, end - SURE) : end]
        if len(run) == SURE:
            places = [at for at in range(SURE, len(theirs) + 1) if theirs[at - SURE : at] == run]
        else:
            places = [end] if short and theirs[:end] == run else []
        if places:
            return end, min(places, key=lambda at: abs(at - shift - end))
    return None


# Finds the first common record of an ordered partition after one side has lost its oldest records to retention.
#
# It searches the first records of one side on the other. Each find votes for a shift, and the most votes win, so that a
# single altered record does not matter.

HEAD = 64
_MOST_SHIFTS = 10_000

Digests = Callable[[str], Iterator[tuple[int, bytes]]]
"""Opens a side again, from its beginning to its bound: offset and digest of each record."""


def beginning_of(plan: model.PartitionRange, open_side: Digests) -> Beginning:
    """Forgives missing first records only on a side that may have lost its oldest records; otherwise they are a
    difference."""
    if not (plan.source.cut or plan.target.cut):
        return Beginning()

    def digests(side: str) -> Iterator[bytes]:
        return (digest for _, digest in open_side(side))

    def copied() -> Iterator[int]:
        return (offset for offset, _ in open_side(model.SOURCE) if offset < plan.position)

    ours, theirs = (list(islice(digests(side), HEAD)) for side in (model.SOURCE, model.TARGET))
    same = min(len(ours), len(theirs))
    if same and ours[:same] == theirs[:same]:
        return Beginning()
    if not theirs:
        return Beginning(source=sum(1 for _ in copied()) if plan.target.cut else 0)
    behind, behind_votes = shift_of(ours, digests(model.TARGET)) if plan.source.cut else (0, 0)
    if plan.source.cut and not behind_votes and next(copied(), None) is None:
        return Beginning(target=sum(1 for _ in digests(model.TARGET)))  # the source has lost every copied record
    if behind > 0 and behind_votes == len(ours):
        return Beginning(target=behind)
    ahead, ahead_votes = shift_of(theirs, digests(model.SOURCE)) if plan.target.cut else (0, 0)
    if ahead > 0 and ahead_votes >= behind_votes:
        return Beginning(source=ahead)
    return Beginning(target=behind) if behind > 0 and behind_votes > ahead_votes else Beginning()


def offset_behind(side: Iterable[tuple[int, bytes]], older: int, otherwise: int) -> int:
    """The offset of the record after the first ``older`` ones; ``otherwise`` without such a record."""
    return next((offset for offset, _ in islice(side, older, None)), otherwise)


def shift_of(head: Sequence[bytes], other: Iterable[bytes]) -> tuple[int, int]:
    """The number of ``other`` records before the first of ``head``, and the votes for it; (0, 0) without any find.

    ``head`` and ``other`` are digests of records. Reads ``other`` until it has found the whole head, or to the end.
    Negative if ``other`` begins within the head. Memory does not grow with ``other``.
    """
    once = {data: index for index, data in enumerate(head) if head.count(data) == 1}
    places = once or ({head[0]: 0} if head else {})
    votes: Counter[int] = Counter()
    for index, data in enumerate(other):
        place = places.get(data)
        if place is None:
            continue
        votes[index - place] += 1
        if votes[index - place] == len(places):
            break
        if len(votes) > _MOST_SHIFTS:
            votes = Counter(dict(votes.most_common(_MOST_SHIFTS // 10)))
    if not votes:
        return 0, 0
    most = max(votes.values())
    return min((shift for shift, count in votes.items() if count == most), key=abs), most
