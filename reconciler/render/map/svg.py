"""The map as SVG: without scripts, without outside references, light and dark by its own style; and its layout."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from reconciler.model.reports.topology_map import MapCluster, MapWave, PlanMark, State, TopologyMap
from reconciler.render.map import paths, words
from reconciler.render.map.paths import PAD, TITLE, Box, EdgePath
from reconciler.render.map.words import Edge
from reconciler.render.markup import page as safe
from reconciler.render.page import MAP_CSS
from reconciler.text import counted, grouped

ALL_LABELS = 60
"""Most edges whose words are all drawn; of more, only those that a plan marks or that have a problem."""
_CHARACTER = 6.2
"""Mean width of a character of an edge's words, in pixels."""
_WIDE = 7.0
"""Width of a wide one."""
_LONGEST = 38
_SHORTEST = 24
"""In a narrow picture."""
_WAVE = (250, 64)
_BETWEEN_WAVES = 70
_BETWEEN_ROWS = 10
_HEAD = 34


def map_svg(drawn: TopologyMap) -> str:
    """A file of its own, with its headline."""
    return _svg(drawn, f"<style>{MAP_CSS}</style>", f"{drawn.environment}: {words.headline(drawn)}")


def map_figure(drawn: TopologyMap, narrow: bool = False) -> str:
    """Within a page that has ``MAP_CSS`` and a headline. ``narrow``: drawn downwards, with short words, for phones."""
    return _svg(drawn, "", "", narrow)


def _svg(drawn: TopologyMap, style: str, title: str, narrow: bool = False) -> str:
    """The picture: waves on top, then regions, lines, words and clusters, and the legend below. The words are known
    first, since the layout leaves room for them."""
    edges = words.edges_of(drawn.flows)
    head = _HEAD if title else 0
    strip = 0
    if drawn.waves:
        strip = len(drawn.waves) * (_WAVE[1] + _BETWEEN_ROWS) + 24 if narrow else _WAVE[1] + 40
    longest = _SHORTEST if narrow else _LONGEST
    # Words take room, so that they are known before anything is placed. With many edges the picture has those words
    # alone that a reader looks for.
    labels = {edge.ends: _label(edge, longest) for edge in edges if len(edges) <= ALL_LABELS or _matters(edge)}
    widths = {ends: max(len(text) for text, _ in lines) * _CHARACTER for ends, lines in labels.items()}
    placed = layout(drawn.clusters, edges, head + strip, widths, 0 if narrow else PAGE)
    signs = wrap(words.legend(drawn), 52) if narrow else [words.legend(drawn)]
    row = _WAVE[0] + 32 if narrow else len(drawn.waves) * (_WAVE[0] + _BETWEEN_WAVES)
    wide = max(placed.width, row if drawn.waves else 0, max(map(len, signs)) * _CHARACTER + 32)
    wide = max(wide, min(len(title) * 7.5 + 32, 1400))
    size = f"{wide:.0f}", f"{placed.height + 10 + 16 * len(signs):.0f}"
    label = f"{counted(len(drawn.clusters), 'cluster')} and {counted(len(drawn.flows), 'flow')} of {drawn.environment}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="topology" viewBox="0 0 {size[0]} {size[1]}"'
        f' width="{size[0]}" height="{size[1]}" role="img" aria-label="{safe("map: " + label)}">',
        style,
        f'<rect class="back" width="{size[0]}" height="{size[1]}"/>' if title else "",
        f'<text class="name" x="16" y="24">{safe(_cut(title, int((wide - 32) / 7.5)))}</text>' if title else "",
        *_strip(drawn.waves, head + 8, narrow),
    ]
    for name, box in placed.regions.items():
        kind, _, region = name.partition(" ")
        place = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
        written = _line(box.x + PAD, box.y + TITLE, f"region {region}", 34, "small faint") if kind == "region" else ""
        parts.append(f'<rect class="region" {place} rx="12"/>{written}')
    # Words come after all lines, so that none crosses them.
    parts += [_path(path, placed.down) for path in placed.paths]
    for path in placed.paths:
        if path.words is None:
            continue
        x, y = path.words
        # Of two lines of words: above and below a line to the right, beside one that leads down.
        places = ((x + 8, y + 12), (x + 8, y + 28)) if placed.down else ((x, y - 6), (x, y + 15))
        for (text, css), at in zip(labels[path.edge.ends], places, strict=False):
            parts.append(_line(*at, text, longest, css))
    parts += [
        *(_node(cluster, placed.nodes[cluster.name]) for cluster in drawn.clusters),
        *(
            f'<text class="small faint" x="16" y="{placed.height + 10 + 16 * number:.0f}">{safe(line)}</text>'
            for number, line in enumerate(signs)
        ),
        "</svg>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _strip(waves: Sequence[MapWave], above: float, narrow: bool) -> Iterator[str]:
    """Waves from left to right, with a gate between each two; ``narrow``: one below the other."""
    for number, wave in enumerate(waves):
        x = 16 if narrow else 16 + number * (_WAVE[0] + _BETWEEN_WAVES)
        top = above + number * (_WAVE[1] + _BETWEEN_ROWS) if narrow else above
        where, rest = words.wave_lines(wave)
        yield f"<g><title>{safe(f'wave {wave.name}: {where}; {rest}')}</title>"
        yield f'<rect class="node" x="{x}" y="{top:.0f}" width="{_WAVE[0]}" height="{_WAVE[1]}" rx="8"/>'
        yield _line(x + 12, top + 20, f"{number + 1}. wave {wave.name}", 30, "name")
        yield _line(x + 12, top + 38, where, 36, "small")
        yield f"{_line(x + 12, top + 55, rest, 36, 'small faint')}</g>"
        if number + 1 < len(waves) and not narrow:
            left, middle = x + _WAVE[0], top + _WAVE[1] / 2
            yield f'<path class="edge idle" d="M{left + 4} {middle}H{left + _BETWEEN_WAVES - 6}"/>'
            yield _line(left + 20, middle - 8, "gates", 10, "small faint")


def _node(cluster: MapCluster, box: Box) -> str:
    """A cluster: its state as a dot, its facts, and what the plan does to it. The frame has the colour of the worst of
    these."""
    dangerous = cluster.planned is not None and cluster.planned.high_risk > 0
    worse = cluster.mark in (PlanMark.UNKNOWN, PlanMark.BLOCKED)
    shown = PlanMark.REMOVED if dangerous and not worse else cluster.mark
    mark = f" lined-{shown.value}" if shown is not None else ""
    lines = [("", words.cluster_facts(cluster))]
    lines += [("problem said", ", ".join(cluster.problems))] if cluster.problems else []
    if plan := words.planned_words(cluster):
        lines.append((f"marked mark-{shown.value}" if shown is not None else "faint", plan))
    if cluster.outside:
        lines.append(("problem said", f"{cluster.outside:,} changed outside of git"))
    step, first = (17, 22) if len(lines) < 3 else (15, 16) if len(lines) == 3 else (12.5, 14)
    tooltip = "; ".join(text for _, text in lines)
    parts = [
        f"<g><title>{safe(f'cluster {cluster.name}: {cluster.state.value}; {tooltip}')}</title>",
        f'<rect class="node{mark}" x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}"'
        f' height="{box.height:.0f}" rx="8"/>',
        f'<circle class="dot {cluster.state.value}" cx="{box.x + 14:.0f}" cy="{box.y + first - 4.5:.1f}" r="4.5"/>',
        _line(box.x + 25, box.y + first, cluster.name, 22, "name"),
    ]
    for number, (style, text) in enumerate(lines, start=1):
        place = box.x + 12, box.y + first + number * step
        parts.append(_line(*place, text, 31, f"small {style}".strip(), box.width - 24))
    return "".join((*parts, "</g>"))


def _matters(edge: words.Edge) -> bool:
    return edge.mark is not None or edge.state is State.PROBLEM


def _path(path: EdgePath, down: bool) -> str:
    """A flow as a curve with an arrow, thicker the more it copies. The title has what the words on the map leave
    out."""
    edge, (start, *rest) = path.edge, path.points
    curves = " ".join(
        f"C{rest[i][0]:.1f} {rest[i][1]:.1f} {rest[i + 1][0]:.1f} {rest[i + 1][1]:.1f} {rest[i + 2][0]:.1f}"
        f" {rest[i + 2][1]:.1f}"
        for i in range(0, len(rest), 3)
    )
    x, y = path.points[-1]
    back = -9 if path.onward else 9
    sides = ((x - 4.5, y + back), (x + 4.5, y + back)) if down else ((x + back, y - 4.5), (x + back, y + 4.5))
    shape = f"M{x:.1f} {y:.1f}" + "".join(f"L{side[0]:.1f} {side[1]:.1f}" for side in sides) + "Z"
    mark = edge.mark.value if edge.mark is not None else ""
    line = f"edge {edge.state.value}" + (f" lined-{mark}" if mark else "")
    arrow = f"arrow {edge.state.value}" + (f" mark-{mark}" if mark else "")
    title = ", ".join(part for part in (f"{edge.source} to {edge.target}", edge.figures, edge.plan_words) if part)
    names = [f"{flow.name}: {flow.said}, {words.flow_delivery(flow)}" for flow in edge.flows[:20]]
    names += [f"and {len(edge.flows) - 20} more"] if len(edge.flows) > 20 else []
    # 1.6 pixels for nothing or unknown, 2 for 1 KiB/s, 6.5 for 1 GiB/s.
    rate = edge.bytes_per_second
    thickness = 1.6 + (min(5.0, max(0.0, math.log10(rate) - 2) * 0.7) if rate else 0.0)
    return (
        f'<g><title>{safe("; ".join((title, *names)))}</title><path class="{line}" stroke-width="{thickness:.1f}"'
        f' d="M{start[0]:.1f} {start[1]:.1f} {curves}"/><path class="{arrow}" d="{shape}"/></g>'
    )


def _label(edge: words.Edge, longest: int) -> list[tuple[str, str]]:
    """Words above the line and, where there are figures, below it, each with its style."""
    mark = edge.mark.value if edge.mark is not None else ""
    lines = [(edge.name, "small"), (edge.figures, "small faint")]
    if _matters(edge):
        said = edge.plan_words if mark else _said(edge)
        lines[0] = (f"{edge.name}: {said}", f"small marked mark-{mark}" if mark else "small problem said")
    elif edge.state is State.IDLE:
        lines[0] = (f"{edge.name}: {_said(edge)}", "small")
    return [(_cut(text, longest), style) for text, style in lines if text]


def _said(edge: words.Edge) -> str:
    return ", ".join(dict.fromkeys(flow.said for flow in edge.flows))


def _line(x: float, y: float, text: str, longest: int, style: str, within: float = 0.0) -> str:
    """``within``: pixels that it has. Text that may need more, by its letters and a reader's font, is drawn closer."""
    shown = _cut(text, longest)
    too_long = within and len(shown) * _WIDE > within
    fit = f' textLength="{within:.0f}" lengthAdjust="spacingAndGlyphs"' if too_long else ""
    return f'<text class="{style}" x="{x:.0f}" y="{y:.1f}"{fit}>{safe(shown)}</text>'


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: max(1, longest - 1)]}\u2026"


# Places regions, clusters and edges on a plane, in pixels (decision 126).
#
# Regions form columns, so that most flows lead from left to right; an edge over several columns has a way through each
# of them. Right of every column all edges lead straight on, as far as the longest words: there words are above and
# below their own line, and on no other one. Edges bend and cross only behind that. What is too wide for a page so, as a
# chain or a ring of many regions, is drawn downwards instead, if that is less wide. Pure, and the same for the same
# map.

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
