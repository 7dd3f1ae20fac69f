"""Sizes, ports of edges on clusters, and the curves between, in pixels. Pure functions.

A layout is made once: to the right, where nodes are wide and words are above and below a line, or down, where nodes lie
across the way and words are right of a line.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.render.map.words import Edge

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
    """Lengths are along the way that most edges lead, breadths across it."""

    down: bool
    node_length: float
    node_breadth: float
    """The least: a cluster with many edges is as broad as their slots."""
    title_length: float
    title_breadth: float
    """Room for the name of a region: above its clusters, so that one of the two is 0."""
    bend: float
    """Length in which edges bend and cross, before the next column."""
    title_room: float = 0.0
    """Edges from columns before begin after it: they would cross the name of the region."""
    beside: float = 20.0
    """From a cluster to the words of its edges: outside of its region, and behind an arrow."""

    def lead(self, longest_words: float) -> float:
        """Length of the straight part of every edge: as long as the words along it."""
        return LEAD + (min(longest_words, _TWO_LINES) if self.down else longest_words)

    def slot(self, words: float) -> float:
        """Breadth of an edge with words of this width."""
        return words + 2 * _FROM_LINE if self.down else _TWO_LINES

    def port(self, slot: float, words: bool) -> float:
        """Start of an edge in its slot."""
        return _FROM_LINE / 2 if self.down and words else slot / 2


TO_THE_RIGHT = Measures(False, _WIDTH, _HEIGHT, 0, TITLE, bend=110)
DOWN = Measures(True, _HEIGHT, _WIDTH, TITLE, 0, bend=80, title_room=115)


_LANE = 9
"""Between two edges that lead through a column by one way."""

Point = tuple[float, float]
Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in the picture's units, from its upper left corner."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class EdgePath:
    edge: Edge
    points: tuple[Point, ...]
    """Cubic curves, as SVG takes them: a start, then two handles and an end for each."""
    onward: bool
    """Its arrow points the way that most edges lead."""
    words: Point | None = None
    """Start of its label, on the line; None without a label."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything of a map is."""

    width: float
    height: float
    regions: Mapping[str, Box]
    """Frames around clusters of one region, by its name."""
    nodes: Mapping[str, Box]
    """By cluster."""
    paths: tuple[EdgePath, ...]
    down: bool = False
    """Most edges lead down, and words are right of them; else to the right, with words above and below."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What edges lead between, once it has its place."""

    nodes: Mapping[str, Box]
    boxes: Mapping[str, Box]
    """Of regions, and of ways through columns."""
    region_of: Mapping[str, str]
    column: Mapping[str, int]
    edges: Mapping[tuple[str, bool], Sequence[Edge]]
    """(cluster, whether on its right side) -> edges."""


def way_name(source: str, target: str, column: int) -> str:
    return f"way {source} > {target} > {column}"


def way_height(edges: int) -> float:
    return 14 + _LANE * (edges - 1)


def sides_of(edges: Sequence[Edge], column: Mapping[str, int]) -> dict[tuple[str, bool], list[Edge]]:
    """Edges within a column touch both of their clusters on the right."""
    sides: dict[tuple[str, bool], list[Edge]] = {}
    for edge in edges:
        for name, other in ((edge.source, edge.target), (edge.target, edge.source)):
            sides.setdefault((name, column[other] >= column[name]), []).append(edge)
    return sides


def node_height(
    name: str,
    sides: Mapping[tuple[str, bool], Sequence[Edge]],
    column: Mapping[str, int],
    widths: Mapping[Ends, float],
    measures: Measures,
) -> float:
    right = sum(_slot(name, edge, column, widths, measures) for edge in sides.get((name, True), ()))
    return max(measures.node_breadth, right + 8, SLOT * len(sides.get((name, False), ())) + 16)


def _slot(name: str, edge: Edge, column: Mapping[str, int], widths: Mapping[Ends, float], measures: Measures) -> float:
    return measures.slot(widths[edge.ends]) if _has_words(name, edge, column, widths) else SLOT


def _has_words(name: str, edge: Edge, column: Mapping[str, int], widths: Mapping[Ends, float]) -> bool:
    """Words are at the left end of an edge, and within a column at its source."""
    within = column[edge.source] == column[edge.target]
    return edge.ends in widths and not (within and name == edge.target)


def edge_paths(
    edges: Sequence[Edge], sides: Sides, widths: Mapping[Ends, float], measures: Measures, lead: float
) -> Iterator[EdgePath]:
    """To the right; ``lead``: length of the straight part of each."""
    column, region = sides.column, sides.region_of
    ports = dict(_ports(sides, widths, measures))
    lanes: dict[Ends, list[Edge]] = {}
    for edge in sorted(edges, key=lambda edge: (ports[edge.source, edge.ends][1], ports[edge.target, edge.ends][1])):
        lanes.setdefault((region[edge.source], region[edge.target]), []).append(edge)
    for edge in edges:
        start, end = ports[edge.source, edge.ends], ports[edge.target, edge.ends]
        step = column[edge.target] - column[edge.source]
        left = start if step >= 0 else end
        words = (left[0] + measures.beside, left[1]) if edge.ends in widths else None
        if step == 0:
            # Within a column an edge leaves to the right, turns, and comes back to its target from the right.
            out = min(measures.bend * 1.2, 40 + abs(end[1] - start[1]) / 5)
            turn, back = (start[0] + lead, start[1]), (end[0] + lead, end[1])
            bent = (start, *_straight(start, turn), (turn[0] + out, turn[1]), (back[0] + out, back[1]), back)
            yield EdgePath(edge, (*bent, *_straight(back, end)), onward=False, words=words)
            continue
        # Otherwise it goes from column to column, beside the other edges between the two regions on their common way.
        sign = 1 if step > 0 else -1
        ends = region[edge.source], region[edge.target]
        lane = lanes[ends].index(edge) - (len(lanes[ends]) - 1) / 2
        points = [start]
        for between in range(column[edge.source] + sign, column[edge.target], sign):
            box = sides.boxes[way_name(*ends, between)]
            far = (box.x, box.x + box.width) if sign > 0 else (box.x + box.width, box.x)
            y = box.y + box.height / 2 + lane * _LANE
            points += _piece(points[-1], (far[0], y), lead)
            points += _straight(points[-1], (far[1], y))
        points += _piece(points[-1], end, lead)
        yield EdgePath(edge, tuple(points), onward=sign > 0, words=words)


def _piece(start: Point, end: Point, lead: float) -> list[Point]:
    """Over the gap between two columns: straight right of the left one, then bent."""
    if start[0] < end[0]:
        turn = (start[0] + lead, start[1])
        return [*_straight(start, turn), *_bent(turn, end)]
    turn = (end[0] + lead, end[1])
    return [*_bent(start, turn), *_straight(turn, end)]


def _bent(start: Point, end: Point) -> list[Point]:
    middle = (start[0] + end[0]) / 2
    return [(middle, start[1]), (middle, end[1]), end]


def _straight(start: Point, end: Point) -> list[Point]:
    return [start, end, end]


def _ports(sides: Sides, widths: Mapping[Ends, float], measures: Measures) -> Iterator[tuple[tuple[str, Ends], Point]]:
    """In the order of what comes next on the way of each edge, so that few cross."""
    for (name, right), edges in sides.edges.items():
        box = sides.nodes[name]
        # Of two edges between the same clusters, the one there comes above the one back at both of their ends.
        in_order = sorted(edges, key=lambda edge: (_next(name, edge, sides), min(edge.ends), edge.source))
        words = [right and _has_words(name, edge, sides.column, widths) for edge in in_order]
        slots = [_slot(name, edge, sides.column, widths, measures) if right else SLOT for edge in in_order]
        free = box.height - sum(slots)
        y = box.y + (free / 2 if right else max(free / 2, min(free - SLOT, measures.title_room)))
        for edge, slot, has_words in zip(in_order, slots, words, strict=True):
            yield (name, edge.ends), (box.x + box.width if right else box.x, y + measures.port(slot, has_words))
            y += slot


def _next(name: str, edge: Edge, sides: Sides) -> float:
    other = edge.target if name == edge.source else edge.source
    here, there = sides.column[name], sides.column[other]
    if abs(there - here) < 2:
        return sides.nodes[other].y
    ends = sides.region_of[edge.source], sides.region_of[edge.target]
    return sides.boxes[way_name(*ends, here + (1 if there > here else -1))].y


def turned(placed: Layout) -> Layout:
    """The layout with right and down exchanged."""
    return Layout(
        placed.height,
        placed.width,
        {name: _turned(box) for name, box in placed.regions.items()},
        {name: _turned(box) for name, box in placed.nodes.items()},
        tuple(
            EdgePath(
                path.edge,
                tuple((y, x) for x, y in path.points),
                path.onward,
                (path.words[1], path.words[0]) if path.words is not None else None,
            )
            for path in placed.paths
        ),
        down=not placed.down,
    )


def _turned(box: Box) -> Box:
    return Box(box.y, box.x, box.height, box.width)
