"""What a copier that was killed had written after the position it had stored.

At least once: records are written first and the position is stored up to a minute later, so after a kill the target may
have records from behind it, once or, after several kills, more often. A record counts as copied only when the target
has one that is equal in timestamp, key, value and headers, and no other source record that was read is equal to it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InFlight:
    """``start``: the source offset to go on at. ``copied``: records behind the stored position that the target has.
    ``again``: records from ``start`` on that it may have, too, and that come twice, at most: before them are some that
    it has not, or that are equal to others. ``unknown``: why the logs, though read, show none of it."""

    start: int
    copied: int = 0
    again: int = 0
    unknown: str = ""


def pair(before: Sequence[int], behind: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
    """Of the records ``behind`` a position: how many the target is proved to have, without a hole, and how many of the
    others it may have. All are hashes of records; ``before``: those that lie before the position."""
    there, times = set(target), Counter((*before, *behind))
    copied = 0
    while copied < len(behind) and behind[copied] in there and times[behind[copied]] == 1:
        copied += 1
    return copied, sum(record in there for record in behind[copied:])
