"""The map as SVG: without scripts, without outside references, light and dark by its own style."""

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap

from reconciler.model.reports.topology_map import MapCluster, MapWave, PlanMark, State, TopologyMap
from reconciler.render.map import words
from reconciler.render.map.layout import PAGE, layout
from reconciler.render.map.paths import PAD, TITLE, Box, EdgePath
from reconciler.render.markup import page as safe
from reconciler.render.page import MAP_CSS
from reconciler.text import counted

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
