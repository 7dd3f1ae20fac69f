"""Sizes of what is drawn, in pixels, along the way that most edges lead and across it.

A layout is made once: to the right, where nodes are wide and words stand above and below a line, or down, where nodes
lie across the way and words stand right of a line.
"""

from __future__ import annotations

from dataclasses import dataclass

PAD = 12
TITLE = 22
"""Height of the name of a region."""
LEAD = 36
"""Least length of the straight part of an edge, behind a column."""
SLOT = 14
"""Breadth of an edge without words."""
_WIDTH, _HEIGHT = 210.0, 66.0
"""Width and least height of a cluster; one with many edges is larger."""
_TWO_LINES = 42.0
"""Height of the words of an edge, a line above it and one below."""
_FROM_LINE = 8.0


@dataclass(frozen=True, slots=True)
class Measures:
    """``node_breadth``: the least. ``title_length``, ``title_breadth``: where the name of a region takes its place.
    ``bend``: length in which edges bend and cross, before the next column. ``beside``: from a cluster to the words of
    its edges: outside of its region, and behind an arrow. ``title_room``: where edges that come from columns before
    would cross the name of the region."""

    down: bool
    node_length: float
    node_breadth: float
    title_length: float
    title_breadth: float
    bend: float
    title_room: float = 0.0
    beside: float = 20.0

    def lead(self, longest_words: float) -> float:
        """Length of the straight part of every edge: as long as the words along it."""
        return LEAD + (min(longest_words, _TWO_LINES) if self.down else longest_words)

    def slot(self, words: float) -> float:
        """Breadth of an edge with words of this width."""
        return words + 2 * _FROM_LINE if self.down else _TWO_LINES

    def port(self, slot: float, words: bool) -> float:
        """Where in its slot an edge begins."""
        return _FROM_LINE / 2 if self.down and words else slot / 2


TO_THE_RIGHT = Measures(False, _WIDTH, _HEIGHT, 0, TITLE, bend=110)
DOWN = Measures(True, _HEIGHT, _WIDTH, TITLE, 0, bend=80, title_room=115)
