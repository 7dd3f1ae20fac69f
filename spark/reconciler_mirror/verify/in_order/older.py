"""Finds the first common record of an ordered partition after one side has lost its oldest records to retention.

It searches the first records of one side on the other. Each find votes for a shift, and the most votes win, so that a
single altered record does not matter.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from reconciler_mirror.verify.model import SOURCE, TARGET, PartitionRange

HEAD = 64
_MOST_SHIFTS = 10_000

Digests = Callable[[str], Iterator[tuple[int, bytes]]]
"""Opens a side again, from its beginning to its bound: offset and digest of each record."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Numbers of records before the first common one; at most one side has any."""

    source: int = 0
    target: int = 0


def beginning_of(plan: PartitionRange, open_side: Digests) -> Beginning:
    """Forgives missing first records only on a side that may have lost its oldest records; otherwise they are a
    difference."""
    if not (plan.source.cut or plan.target.cut):
        return Beginning()
    ours, theirs = ([digest for _, digest in islice(open_side(side), HEAD)] for side in (SOURCE, TARGET))
    same = min(len(ours), len(theirs))
    if same and ours[:same] == theirs[:same]:
        return Beginning()
    if not theirs:
        return Beginning(source=_count(_below(open_side(SOURCE), plan.position)) if plan.target.cut else 0)
    behind, behind_votes = shift_of(ours, _digests(open_side(TARGET))) if plan.source.cut else (0, 0)
    if plan.source.cut and not behind_votes and not any(True for _ in _below(open_side(SOURCE), plan.position)):
        return Beginning(target=_count(open_side(TARGET)))  # the source has lost every copied record
    if behind > 0 and behind_votes == len(ours):
        return Beginning(target=behind)
    ahead, ahead_votes = shift_of(theirs, _digests(open_side(SOURCE))) if plan.target.cut else (0, 0)
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


def _below(side: Iterable[tuple[int, bytes]], position: int) -> Iterator[tuple[int, bytes]]:
    return ((offset, digest) for offset, digest in side if offset < position)


def _digests(side: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    return (digest for _, digest in side)


def _count(side: Iterable[object]) -> int:
    return sum(1 for _ in side)
