"""Compares ordered partitions: records of both sides cut into chunks, each with a digest.

Where one side has lost its oldest records, the first records of one side are looked for on the other; every find votes
for a shift, and the most votes win, so that one altered record does not spoil it.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from reconciler_mirror.verify.model import DIGEST_BYTES, SOURCE, TARGET, PartitionRange, VerifiedRecord, digest, encoded

CHUNK_RECORDS = 4096
HEAD = 64
_MOST_SHIFTS = 10_000


@dataclass(frozen=True, slots=True)
class VerifiedChunk:
    """``number`` counts from the first compared record; offsets are those of its first and last record."""

    index: int
    side: str
    number: int
    records: int
    digest: str
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class PartitionReading:
    """How far one partition was read. ``*_start``: where it was begun. ``older_*``: records before the first common
    one, on that side only. ``source_end``: the source offset after the last record compared. ``error`` and ``todo``: it
    could not be read. ``one_client``: clusters that librdkafka could not log in to, and why. ``proved``: records of
    the first chunk, where it is of equal batches; ``by_bytes``: of them those that were not opened; ``sampled``: those
    that librdkafka read, too."""

    index: int
    source_start: int = 0
    target_start: int = 0
    older_source: int = 0
    older_target: int = 0
    source_end: int = 0
    error: str = ""
    todo: str = ""
    one_client: tuple[tuple[str, str], ...] = ()
    proved: int = 0
    by_bytes: int = 0
    sampled: int = 0


Streams = Callable[[str], Iterator[VerifiedRecord]]
"""Opens the records of a side again, from its beginning to its bound; for ``source`` beyond the position too."""


def compare(plan: PartitionRange, open_side: Streams, first: int = 0) -> Iterator[VerifiedChunk | PartitionReading]:
    """The chunks of both sides, numbered from ``first`` on, then a ``PartitionReading``. The target is read first, the
    source then to the position, and beyond it only as far as the target already has records."""
    # With same offsets both sides begin at the same one, so nothing has to be looked for.
    older_source, older_target = (0, 0) if plan.same_offsets else _older(plan, open_side)
    copied = 0
    for chunk in _chunks(plan, TARGET, islice(open_side(TARGET), older_target, None), first):
        copied += chunk.records
        yield chunk
    source_end = plan.position
    expected = _expected(islice(open_side(SOURCE), older_source, None), plan.position, copied)
    for chunk in _chunks(plan, SOURCE, expected, first):
        source_end = max(source_end, chunk.last_offset + 1)
        yield chunk
    yield PartitionReading(plan.index, plan.source.start, plan.target.start, older_source, older_target, source_end)


def _expected(source: Iterable[VerifiedRecord], position: int, copied: int) -> Iterator[VerifiedRecord]:
    """Everything below the position, and after it as many as the target has."""
    for count, record in enumerate(source):
        if record.offset >= position and count >= copied:
            return
        yield record


def _older(plan: PartitionRange, open_side: Streams) -> tuple[int, int]:
    """How many records lie before the first common one at the source and at the target; one of them is 0.

    Only a side that may have lost its oldest records is forgiven; otherwise a missing first record is a difference.
    """
    if not (plan.source.cut or plan.target.cut):
        return 0, 0
    ours = [digest(encoded(record)) for record in islice(open_side(SOURCE), HEAD)]
    theirs = [digest(encoded(record)) for record in islice(open_side(TARGET), HEAD)]
    same = min(len(ours), len(theirs))
    if same and ours[:same] == theirs[:same]:
        return 0, 0
    if not theirs:
        return (_count(_below(open_side(SOURCE), plan.position)) if plan.target.cut else 0), 0
    behind, behind_votes = shift_of(ours, _digests(open_side(TARGET))) if plan.source.cut else (0, 0)
    if plan.source.cut and not behind_votes and not any(_below(open_side(SOURCE), plan.position)):
        return 0, _count(open_side(TARGET))  # nothing of what was copied is left at the source
    if behind > 0 and behind_votes == len(ours):
        return 0, behind
    ahead, ahead_votes = shift_of(theirs, _digests(open_side(SOURCE))) if plan.target.cut else (0, 0)
    if ahead > 0 and ahead_votes >= behind_votes:
        return ahead, 0
    return (0, behind) if behind > 0 and behind_votes > ahead_votes else (0, 0)


def shift_of(head: Sequence[bytes], other: Iterable[bytes]) -> tuple[int, int]:
    """(how many records of ``other`` lie before the first of ``head``, votes for it); (0, 0) without any find.

    ``head`` and ``other`` are digests of records. Reads ``other`` until the whole head is found, or to its end.
    Negative when ``other`` begins inside the head. Memory does not grow with ``other``.
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


def _below(records: Iterable[VerifiedRecord], position: int) -> Iterator[VerifiedRecord]:
    return (record for record in records if record.offset < position)


def _digests(records: Iterable[VerifiedRecord]) -> Iterator[bytes]:
    return (digest(encoded(record)) for record in records)


def _count(records: Iterable[VerifiedRecord]) -> int:
    return sum(1 for _ in records)


def _chunks(plan: PartitionRange, side: str, records: Iterable[VerifiedRecord], number: int) -> Iterator[VerifiedChunk]:
    stream = iter(records)
    while True:
        hashed = hashlib.blake2b(digest_size=DIGEST_BYTES)
        count, first, last = 0, 0, 0
        for record in islice(stream, CHUNK_RECORDS):
            hashed.update(encoded(record, offset=plan.same_offsets))
            first = record.offset if not count else first
            last = record.offset
            count += 1
        if not count:
            return
        yield VerifiedChunk(plan.index, side, number, count, hashed.hexdigest(), first, last)
        number += 1
