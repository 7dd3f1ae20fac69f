"""Places regions, clusters and edges on a plane, in pixels (decision 126).

Regions stand in columns, so that most flows lead from left to right; an edge over several columns has a way through
each of them. Pure, and the same for the same map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.model.reports.topology_map import MapCluster
from reconciler.render.map.fold import Edge
from reconciler.render.map.layers import ordered, ranks
from reconciler.text import grouped

NODE = (210, 66)
NODE_GAP = 16
PAD = 12
TITLE = 22
"""Height of the name of a region."""
COLUMN_GAP = 270
"""Between two columns of regions: as wide as the words on an edge."""
ROW_GAP = 26
WAY = 22
"""Height of the way of an edge through a column."""
BULGE = 70
"""How far an edge between clusters of one column leads out to the right."""
MARGIN = 16

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Box) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@dataclass(frozen=True, slots=True)
class EdgePath:
    """``points``: cubic curves, as SVG takes them: a start, then two handles and an end for each. ``right``: its arrow
    points to the right."""

    edge: Edge
    points: tuple[Point, ...]
    right: bool

    def at(self, share: float, curve: int = 0) -> Point:
        """A point of one of its curves."""
        start, *rest = self.points[curve * 3 : curve * 3 + 4]
        first, second, end = rest
        left = 1 - share
        weights = left**3, 3 * left**2 * share, 3 * left * share**2, share**3
        pairs = list(zip(weights, (start, first, second, end), strict=True))
        return sum(w * p[0] for w, p in pairs), sum(w * p[1] for w, p in pairs)


@dataclass(frozen=True, slots=True)
class Layout:
    width: float
    height: float
    regions: Mapping[str, Box]
    nodes: Mapping[str, Box]
    ways: tuple[EdgePath, ...]


def layout(clusters: Sequence[MapCluster], edges: Sequence[Edge], top: float = 0) -> Layout:
    """``top``: what is left free above. A cluster without a region is a region of its own, which has no name."""
    region_of = {each.name: _region(each) for each in clusters}
    members = grouped((region_of[each.name], each.name) for each in clusters)
    between = {(region_of[edge.source], region_of[edge.target]) for edge in edges}
    links = {(source, target) for source, target in between if source != target}
    rank = ranks(members, links)
    columns: list[list[str]] = [[] for _ in range(max(rank.values(), default=0) + 1)]
    for region, number in rank.items():
        columns[number].append(region)
    pieces: set[tuple[str, str]] = set()
    for source, target in sorted(links):
        pieces |= set(_through(source, target, rank, columns))
    columns = ordered(columns, pieces)
    inside = _inside(members, columns, edges)
    boxes = _boxes(columns, inside, top)
    regions = {name: box for name, box in boxes.items() if name in members}
    nodes = dict(_nodes(regions, inside))
    ways = tuple(_ways(edges, nodes, region_of, rank, boxes))
    right = max((box.x + box.width for box in boxes.values()), default=0.0)
    # Curves within the last column lead out to its right, with their words.
    beyond = max((x for way in ways for x, _ in way.points), default=0.0)
    width = max(right, beyond + COLUMN_GAP / 2 if beyond > right else right) + MARGIN
    low = max((box.y + box.height for box in boxes.values()), default=top)
    return Layout(width, low + MARGIN, regions, nodes, ways)


def _region(cluster: MapCluster) -> str:
    return f"region {cluster.region}" if cluster.region else f"cluster {cluster.name}"


def _way_name(source: str, target: str, column: int) -> str:
    return f"way {source} > {target} > {column}"


def _through(
    source: str, target: str, rank: Mapping[str, int], columns: Sequence[list[str]]
) -> Iterator[tuple[str, str]]:
    """An edge in pieces from column to column; its ways through columns between are put into these."""
    step = 1 if rank[source] <= rank[target] else -1
    last = source
    for column in range(rank[source] + step, rank[target], step):
        name = _way_name(source, target, column)
        columns[column].append(name)
        yield last, name
        last = name
    yield last, target


def _inside(
    members: Mapping[str, Sequence[str]], columns: Sequence[Sequence[str]], edges: Sequence[Edge]
) -> dict[str, list[str]]:
    """The clusters of each region in the order in which few edges cross."""
    layers = [[name for item in column for name in members.get(item, ())] for column in columns]
    region = {name: item for item, names in members.items() for name in names}
    place = {item: number for column in columns for number, item in enumerate(column)}
    rows = ordered(layers, {(edge.source, edge.target) for edge in edges})
    in_order: dict[str, list[str]] = {item: [] for item in members}
    for row in rows:
        for name in sorted(row, key=lambda name: place[region[name]]):
            in_order[region[name]].append(name)
    return in_order


def _height(item: str, inside: Mapping[str, Sequence[str]]) -> float:
    if item not in inside:
        return WAY
    count = len(inside[item])
    return 2 * PAD + TITLE + count * NODE[1] + (count - 1) * NODE_GAP


def _boxes(columns: Sequence[Sequence[str]], inside: Mapping[str, Sequence[str]], top: float) -> dict[str, Box]:
    """Columns are centred on the tallest one."""
    width = NODE[0] + 2 * PAD
    heights = [sum(_height(item, inside) + ROW_GAP for item in column) - ROW_GAP for column in columns]
    tallest = max(heights, default=0)
    boxes: dict[str, Box] = {}
    for number, column in enumerate(columns):
        x = MARGIN + number * (width + COLUMN_GAP)
        y = MARGIN + top + (tallest - heights[number]) / 2
        for item in column:
            boxes[item] = Box(x, y, width, _height(item, inside))
            y += boxes[item].height + ROW_GAP
    return boxes


def _nodes(regions: Mapping[str, Box], inside: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Box]]:
    for region, box in regions.items():
        for number, name in enumerate(inside[region]):
            yield name, Box(box.x + PAD, box.y + PAD + TITLE + number * (NODE[1] + NODE_GAP), *NODE)


def _ways(
    edges: Sequence[Edge],
    nodes: Mapping[str, Box],
    region_of: Mapping[str, str],
    rank: Mapping[str, int],
    boxes: Mapping[str, Box],
) -> Iterator[EdgePath]:
    column = {name: rank[region_of[name]] for name in nodes}
    ports = _ports(edges, nodes, column)
    for edge in edges:
        start, end = ports[edge.source, edge.ends], ports[edge.target, edge.ends]
        step = column[edge.target] - column[edge.source]
        if step == 0:
            out = BULGE + abs(end[1] - start[1]) / 6
            bent = (start, (start[0] + out, start[1]), (end[0] + out, end[1]), end)
            yield EdgePath(edge, bent, right=False)
            continue
        sign = 1 if step > 0 else -1
        points = [start]
        for between in range(column[edge.source] + sign, column[edge.target], sign):
            box = boxes[_way_name(region_of[edge.source], region_of[edge.target], between)]
            sides = (box.x, box.x + box.width) if sign > 0 else (box.x + box.width, box.x)
            middle = box.y + box.height / 2
            points += _curve(points[-1], (sides[0], middle))
            points += _curve(points[-1], (sides[1], middle))
        points += _curve(points[-1], end)
        yield EdgePath(edge, tuple(points), right=sign > 0)


def _curve(start: Point, end: Point) -> list[Point]:
    middle = (start[0] + end[0]) / 2
    return [(middle, start[1]), (middle, end[1]), end]


def _ports(
    edges: Sequence[Edge], nodes: Mapping[str, Box], column: Mapping[str, int]
) -> dict[tuple[str, tuple[str, str]], Point]:
    """Where each edge touches each of its two clusters: spread over the side, in the order of the other ends."""
    sides: dict[tuple[str, bool], list[tuple[float, str, Edge]]] = {}
    for edge in edges:
        for name, other in ((edge.source, edge.target), (edge.target, edge.source)):
            right = column[other] >= column[name]
            # Of two edges between the same clusters, the one there comes above the one back at both of their ends.
            entry = (nodes[other].y, min(edge.source, edge.target), edge)
            sides.setdefault((name, right), []).append(entry)
    ports = {}
    for (name, right), entries in sides.items():
        box = nodes[name]
        entries.sort(key=lambda entry: (entry[0], entry[1], entry[2].source))
        for number, (_, _, edge) in enumerate(entries, start=1):
            y = box.y + box.height * number / (len(entries) + 1)
            ports[name, edge.ends] = (box.x + box.width if right else box.x, y)
    return ports
