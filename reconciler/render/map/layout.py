"""Places regions, clusters and edges on a plane, in pixels (decision 126).

Regions form columns, so that most flows lead from left to right; an edge over several columns has a way through
each of them. Right of every column all edges lead straight on, as far as the longest words: there words are above and
below their own line, and on no other one. Edges bend and cross only behind that. What is too wide for a page so, as a
chain or a ring of many regions, is drawn downwards instead, if that is less wide. Pure, and the same for the same map.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from reconciler.model.reports.topology_map import MapCluster
from reconciler.render.map import paths
from reconciler.render.map.words import Edge
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
    widths: Mapping[paths.Ends, float] | None = None,
    page: float = PAGE,
) -> paths.Layout:
    """``top``: free space above. ``widths``: of edge labels. ``page``: a wider picture is drawn downwards, if that is
    narrower. A cluster without a region is a separate unnamed region.
    """
    placed = _placed(clusters, edges, (0, top), widths or {}, paths.TO_THE_RIGHT)
    if placed.width <= page:
        return placed
    below = paths.turned(_placed(clusters, edges, (top, 0), widths or {}, paths.DOWN))
    return below if below.width < placed.width else placed


def _placed(
    clusters: Sequence[MapCluster],
    edges: Sequence[Edge],
    free: tuple[float, float],
    widths: Mapping[paths.Ends, float],
    measures: paths.Measures,
) -> paths.Layout:
    """Places columns from left to right. ``free``: free space at the left and above."""
    lead = measures.lead(max(widths.values(), default=0.0))
    region_of = {each.name: f"region {each.region}" if each.region else f"cluster {each.name}" for each in clusters}
    members = grouped((region_of[each.name], each.name) for each in clusters)
    between = Counter((region_of[edge.source], region_of[edge.target]) for edge in edges)
    links = {(source, target) for source, target in between if source != target}
    rank = ranks(members, links)
    columns: list[list[str]] = [[] for _ in range(max(rank.values(), default=0) + 1)]
    for region, number in rank.items():
        columns[number].append(region)

    # An edge over several columns is cut into pieces from column to column; its way through each column between takes
    # a place there, high enough for all edges between the two regions side by side.
    pieces: set[tuple[str, str]] = set()
    heights: dict[str, float] = {}
    for source, target in sorted(links):
        step, last = (1 if rank[source] <= rank[target] else -1), source
        for number in range(rank[source] + step, rank[target], step):
            way = paths.way_name(source, target, number)
            columns[number].append(way)
            heights[way] = paths.way_height(between[source, target])
            pieces.add((last, way))
            last = way
        pieces.add((last, target))
    columns = ordered(columns, pieces)

    # A cluster is as high as the slots of its edges, a region as high as its clusters, a column as its regions.
    inside = _inside(members, columns, edges)
    column = {name: rank[region] for name, region in region_of.items()}
    sides = paths.sides_of(edges, column)
    nodes_high = {name: paths.node_height(name, sides, column, widths, measures) for name in column}
    for region, names in inside.items():
        heights[region] = (
            2 * paths.PAD + measures.title_breadth + sum(nodes_high[name] + NODE_GAP for name in names) - NODE_GAP
        )
    # All columns are equally wide, and so are the gaps, in which edges lead straight on before they bend.
    width = measures.node_length + 2 * paths.PAD + measures.title_length
    boxes = _boxes(columns, heights, members, free, (width, lead + measures.bend))
    regions = {name: box for name, box in boxes.items() if name in members}
    nodes: dict[str, paths.Box] = {}
    for region, box in regions.items():
        y = box.y + paths.PAD + measures.title_breadth
        for name in inside[region]:
            x, high = box.x + paths.PAD + measures.title_length, nodes_high[name]
            nodes[name] = paths.Box(x, y, measures.node_length, high)
            y += high + NODE_GAP
    drawn = tuple(paths.edge_paths(edges, paths.Sides(nodes, boxes, region_of, column, sides), widths, measures, lead))
    right = max((box.x + box.width for box in boxes.values()), default=0.0)
    # Curves within the last column lead out to its right.
    beyond = max((x for path in drawn for x, _ in path.points), default=0.0)
    low = max((box.y + box.height for box in boxes.values()), default=free[1])
    return paths.Layout(max(right, beyond) + MARGIN, low + MARGIN, regions, nodes, drawn)


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
) -> dict[str, paths.Box]:
    """Columns are centred on the tallest one. ``sizes``: of a column, and of the gap between two."""
    width, gap = sizes
    boxes: dict[str, paths.Box] = {}
    for number, column in enumerate(columns):
        y = MARGIN + free[1]
        for place, item in enumerate(column):
            if place:
                y += ROW_GAP if item in members or column[place - 1] in members else WAY_GAP
            boxes[item] = paths.Box(MARGIN + free[0] + number * (width + gap), y, width, heights[item])
            y += heights[item]
    lows = [max((boxes[item].y + boxes[item].height for item in column), default=0.0) for column in columns]
    tallest = max(lows, default=0.0)
    for column, low in zip(columns, lows, strict=True):
        for item in column:
            box = boxes[item]
            boxes[item] = paths.Box(box.x, box.y + (tallest - low) / 2, box.width, box.height)
    return boxes


SWEEPS = 8
"""Passes over all layers; orders rarely change after the fourth."""

Link = tuple[str, str]


def ranks(names: Iterable[str], edges: Collection[Link]) -> dict[str, int]:
    """Name -> number of its layer, from 0. An edge leads to a later layer, unless it closes a cycle."""
    order = sorted(names)
    forward = _without_cycles(order, edges)
    into = {name: {source for source, target in forward if target == name} for name in order}
    layer: dict[str, int] = {}
    while len(layer) < len(order):  # sources first: the layer of a name is known when those of its sources are
        for name in order:
            if name not in layer and into[name] <= layer.keys():
                layer[name] = max((layer[source] + 1 for source in into[name]), default=0)
    # A source comes right before what it feeds, not at the far left; a name without edges in the first layer.
    for name in sorted(layer, key=lambda name: -layer[name]):
        later = [layer[target] for source, target in forward if source == name]
        if later:
            layer[name] = max(layer[name], min(later) - 1)
    return layer


def ordered(layers: Sequence[Sequence[str]], edges: Collection[Link]) -> list[list[str]]:
    """Each layer in the order in which few edges cross: by the mean place of neighbours, swept to and fro."""
    near: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        near[source].append(target)
        near[target].append(source)
    rows = [sorted(layer) for layer in layers]
    for sweep in range(SWEEPS):
        for index in range(len(rows)) if sweep % 2 == 0 else reversed(range(len(rows))):
            beside = rows[index - 1 : index] if sweep % 2 == 0 else rows[index + 1 : index + 2]
            at = {name: place / max(1, len(row) - 1) for row in beside for place, name in enumerate(row)}
            centres = []
            for place, name in enumerate(rows[index]):
                places = [at[other] for other in near.get(name, ()) if other in at]
                middle = place / max(1, len(rows[index]) - 1)
                centres.append((sum(places) / len(places) if places else middle, place))
            rows[index] = [rows[index][place] for _, place in sorted(centres)]
    return rows


def _without_cycles(order: Sequence[str], edges: Collection[Link]) -> set[Link]:
    """Edges without those that lead back, by the greedy order of Eades, Lin and Smyth (1993): a name with more outgoing
    than incoming edges comes further left."""
    left, right, rest = [], [], dict.fromkeys(order)
    while rest:
        out = {name: sum(s == name and t in rest and t != s for s, t in edges) for name in rest}
        into = {name: sum(t == name and s in rest and t != s for s, t in edges) for name in rest}
        sinks = [name for name in rest if not out[name]]
        origins = [name for name in rest if not into[name]]
        if origins:
            left.append(origins[0])
        elif sinks:
            right.append(sinks[0])
        else:
            left.append(max(rest, key=lambda name: out[name] - into[name]))
        rest.pop((origins or sinks or [left[-1]])[0])
    place = {name: number for number, name in enumerate([*left, *reversed(right)])}
    return {(source, target) for source, target in edges if place[source] < place[target]}
