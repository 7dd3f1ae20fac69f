"""Finds records that a killed copier wrote after its last stored position.

MirrorMaker 2 copies at least once: it writes records first, and stores the position up to a minute later. After a kill
the target may have records after that position, once, or more often after several kills. A record counts as copied only
if the target has one with equal timestamp, key, value and headers, and no other source record in sight equals it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InFlight:
    """What both logs prove about records that were copied after the stored position."""

    start: int
    """The source offset to continue at."""
    copied: int = 0
    """Records after the stored position that the target has."""
    again: int = 0
    """Upper bound of records from ``start`` on that will come twice, since records before them are missing or
    ambiguous."""
    unknown: str = ""
    """Why the logs prove nothing."""


def pair(before: Sequence[int], behind: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
    """(records ``behind`` the position that the target provably has, without a hole; others that it may have). All
    arguments are hashes of records; ``before``: records before the position."""
    there, times = set(target), Counter((*before, *behind))
    copied = 0
    while copied < len(behind) and behind[copied] in there and times[behind[copied]] == 1:
        copied += 1
    return copied, sum(record in there for record in behind[copied:])
