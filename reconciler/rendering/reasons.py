"""The reasons of equal changes in one line: what they have in common once, and how many there are of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

SHOWN_REASONS = 3


@dataclass(slots=True)
class _Alike:
    """Reasons that are ``words`` but for one thing, which stands ``at`` these places."""

    words: list[str]
    at: frozenset[int] = frozenset()
    things: set[str] = field(default_factory=set)

    def takes(self, words: list[str]) -> bool:
        if len(words) != len(self.words):
            return False
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(self.words, words, strict=True)) if a != b]
        at = frozenset(i for i, _, _ in pairs)
        if len({(a.strip(",;:"), b.strip(",;:")) for _, a, b in pairs}) != 1 or (self.at and at != self.at):
            return False
        self.at = at
        self.things.add(pairs[0][2])
        return True

    def __str__(self) -> str:
        more = len(self.things)
        return f"{' '.join(self.words)}{f' and {more} more' if more else ''}"


def reasons_words(reasons: Iterable[str]) -> str:
    """``flow east-to-west mirrors east/a and 7 more; flow west-to-hub mirrors west/b and 2 more``."""
    found: list[_Alike] = []
    left = 0
    for words in (text.split(" ") for text in dict.fromkeys(reasons)):
        if any(one.takes(words) for one in found):
            continue
        if len(found) < SHOWN_REASONS:
            found.append(_Alike(words))
        else:
            left += 1
    others = [f"and {left} other reasons" if left > 1 else "and 1 other reason"] if left else []
    return "; ".join([*map(str, found), *others])
