"""Places regions, clusters and edges on a plane, in pixels (decision 126).

Regions stand in columns, so that most flows lead from left to right; an edge over several columns has a way through
each of them. Right of every column all edges lead straight on, as far as the longest words: there words stand above and
below their own line, and on no other one. Edges bend and cross only behind that. What is too wide for a page so, as a
chain or a ring of many regions, is drawn downwards instead, if that is less wide. Pure, and the same for the same map.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from reconciler.model.reports.topology_map import MapCluster
from reconciler.render.map.fold import Edge
from reconciler.render.map.layers import ordered, ranks
from reconciler.render.map.measures import DOWN, PAD, TO_THE_RIGHT, Measures
from reconciler.render.map.paths import (
    Box,
    Ends,
    Layout,
    Sides,
    edge_paths,
    node_height,
    sides_of,
    turned,
    way_height,
    way_name,
)
from reconciler.text import grouped

PAGE = 1_500
"""Width that a page has for a picture."""
NODE_GAP = 16
ROW_GAP = 26
WAY_GAP = 8
"""Between two ways that lead through a column side by side."""
MARGIN = 16


def layout(
    clusters: Sequence[MapCluster],
    edges: Sequence[Edge],
    top: float = 0,
    widths: Mapping[Ends, float] | None = None,
) -> Layout:
    """``top``: what is left free above. ``widths``: of the words of each edge that has some. A cluster without a region
    is a region of its own, which has no name."""
    placed = _placed(clusters, edges, (0, top), widths or {}, TO_THE_RIGHT)
    if placed.width <= PAGE:
        return placed
    below = turned(_placed(clusters, edges, (top, 0), widths or {}, DOWN))
    return below if below.width < placed.width else placed


def _placed(
    clusters: Sequence[MapCluster],
    edges: Sequence[Edge],
    free: tuple[float, float],
    widths: Mapping[Ends, float],
    measures: Measures,
) -> Layout:
    """From left to right. ``free``: what is left free at the left, and above."""
    lead = measures.lead(max(widths.values(), default=0.0))
    region_of = {each.name: _region(each) for each in clusters}
    members = grouped((region_of[each.name], each.name) for each in clusters)
    between = Counter((region_of[edge.source], region_of[edge.target]) for edge in edges)
    links = {(source, target) for source, target in between if source != target}
    rank = ranks(members, links)
    columns: list[list[str]] = [[] for _ in range(max(rank.values(), default=0) + 1)]
    for region, number in rank.items():
        columns[number].append(region)
    pieces: set[tuple[str, str]] = set()
    heights: dict[str, float] = {}
    for source, target in sorted(links):
        pieces |= set(_through(source, target, rank, columns, heights, between[source, target]))
    columns = ordered(columns, pieces)
    inside = _inside(members, columns, edges)
    column = {name: rank[region] for name, region in region_of.items()}
    sides = sides_of(edges, column)
    nodes_high = {name: node_height(name, sides, column, widths, measures) for name in column}
    for region, names in inside.items():
        heights[region] = (
            2 * PAD + measures.title_breadth + sum(nodes_high[name] + NODE_GAP for name in names) - NODE_GAP
        )
    width = measures.node_length + 2 * PAD + measures.title_length
    boxes = _boxes(columns, heights, members, free, (width, lead + measures.bend))
    regions = {name: box for name, box in boxes.items() if name in members}
    nodes = dict(_nodes(regions, inside, nodes_high, measures))
    paths = tuple(edge_paths(edges, Sides(nodes, boxes, region_of, column, sides), widths, measures, lead))
    right = max((box.x + box.width for box in boxes.values()), default=0.0)
    # Curves within the last column lead out to its right.
    beyond = max((x for path in paths for x, _ in path.points), default=0.0)
    low = max((box.y + box.height for box in boxes.values()), default=free[1])
    return Layout(max(right, beyond) + MARGIN, low + MARGIN, regions, nodes, paths)


def _region(cluster: MapCluster) -> str:
    return f"region {cluster.region}" if cluster.region else f"cluster {cluster.name}"


def _through(
    source: str,
    target: str,
    rank: Mapping[str, int],
    columns: Sequence[list[str]],
    heights: dict[str, float],
    count: int,
) -> Iterator[tuple[str, str]]:
    """An edge in pieces from column to column; its ways through columns between are put into these, high enough for
    ``count`` edges side by side."""
    step = 1 if rank[source] <= rank[target] else -1
    last = source
    for column in range(rank[source] + step, rank[target], step):
        name = way_name(source, target, column)
        columns[column].append(name)
        heights[name] = way_height(count)
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


def _boxes(
    columns: Sequence[Sequence[str]],
    heights: Mapping[str, float],
    members: Mapping[str, object],
    free: tuple[float, float],
    sizes: tuple[float, float],
) -> dict[str, Box]:
    """Columns are centred on the tallest one. ``sizes``: of a column, and of the gap between two."""
    width, gap = sizes
    boxes: dict[str, Box] = {}
    for number, column in enumerate(columns):
        y = MARGIN + free[1]
        for place, item in enumerate(column):
            if place:
                y += ROW_GAP if item in members or column[place - 1] in members else WAY_GAP
            boxes[item] = Box(MARGIN + free[0] + number * (width + gap), y, width, heights[item])
            y += heights[item]
    lows = [max((boxes[item].y + boxes[item].height for item in column), default=0.0) for column in columns]
    tallest = max(lows, default=0.0)
    for column, low in zip(columns, lows, strict=True):
        for item in column:
            box = boxes[item]
            boxes[item] = Box(box.x, box.y + (tallest - low) / 2, box.width, box.height)
    return boxes


def _nodes(
    regions: Mapping[str, Box],
    inside: Mapping[str, Sequence[str]],
    heights: Mapping[str, float],
    measures: Measures,
) -> Iterator[tuple[str, Box]]:
    for region, box in regions.items():
        y = box.y + PAD + measures.title_breadth
        for name in inside[region]:
            yield name, Box(box.x + PAD + measures.title_length, y, measures.node_length, heights[name])
            y += heights[name] + NODE_GAP
