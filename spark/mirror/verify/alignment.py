"""Where two sides of which one has lost its oldest records begin to be the same.

The first records of one side are looked for on the other; every find votes for a shift, and the most votes win, so
that one altered record does not spoil it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

HEAD = 64
_MOST_SHIFTS = 10_000


def shift_of(head: Sequence[bytes], other: Iterable[bytes]) -> tuple[int, int]:
    """(how many records of ``other`` lie before the first of ``head``, votes for it); (0, 0) without any find.

    ``head`` and ``other`` are digests of records. Reads ``other`` until the whole head is found, or to its end.
    Negative when ``other`` begins inside the head. Memory does not grow with ``other``.
    """
    once = {one: index for index, one in enumerate(head) if head.count(one) == 1}
    places = once or ({head[0]: 0} if head else {})
    votes: Counter[int] = Counter()
    for index, one in enumerate(other):
        place = places.get(one)
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
