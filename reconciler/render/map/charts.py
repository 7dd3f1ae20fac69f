"""The map for others to draw: as a Mermaid flowchart, which GitHub and GitLab draw in comments and pages, and for
Graphviz."""

import re
from collections.abc import Iterator

from reconciler.model.reports.topology_map import State, TopologyMap
from reconciler.render.map.words import cluster_lines, edges_of, wave_lines
from reconciler.render.markup import visible
from reconciler.text import grouped

MOST_EDGES = 200
"""Mermaid draws no chart of more than 500 edges or 50,000 characters, and hardly readable ones before."""
_PLAIN = re.compile(r"[^A-Za-z0-9 .,_/()+-]")
_COLOURS = {
    "added": "#1a7f37",
    "changed": "#9a6700",
    "restarting": "#8250df",
    "removed": "#cf222e",
    "blocked": "#cf222e",
    "unknown": "#6e7781",
    "problem": "#cf222e",
}
_STYLES = {State.OK: "solid", State.PROBLEM: "bold", State.IDLE: "dotted", State.UNKNOWN: "dashed"}


def map_mermaid(drawn: TopologyMap) -> str:
    """Texts of others are in quotes, every character that could mean something as its number."""
    edges = edges_of(drawn.flows)
    ids = {cluster.name: f"c{number}" for number, cluster in enumerate(drawn.clusters)}
    lines = ["flowchart LR", *_clusters(drawn, ids)]
    # A chart with too many edges keeps those that the plan changes.
    shown = sorted(edges, key=lambda edge: (edge.mark is None, edge.ends))[:MOST_EDGES]
    for number, edge in enumerate(shown):
        name = f"{edge.name}: {edge.plan_words}" if edge.plan_words else edge.name
        label = _quoted(", ".join(part for part in (name, edge.figures) if part))
        arrow = "-->" if edge.state in (State.OK, State.PROBLEM) else "-.->"
        lines.append(f"  {ids[edge.source]} {arrow}|{label}| {ids[edge.target]}")
        if word := edge.mark.value if edge.mark is not None else _problem(edge.state):
            lines.append(f"  linkStyle {number} stroke:{_COLOURS[word]},stroke-width:3px")
    if len(shown) < len(edges):
        lines.append(f"  %% {len(edges) - len(shown)} more edges are left out")
    for number, wave in enumerate(drawn.waves):
        lines.append(f"  w{number}([{_quoted(f'wave {wave.name}', *wave_lines(wave))}])")
        lines += [f"  w{number - 1} -. gates .-> w{number}"] if number else []
    return "\n".join(lines) + "\n"


def _clusters(drawn: TopologyMap, ids: dict[str, str]) -> Iterator[str]:
    for number, (region, clusters) in enumerate(grouped((each.region, each) for each in drawn.clusters).items()):
        indent = "    " if region else "  "
        if region:
            yield f"  subgraph r{number}[{_quoted(f'region {region}')}]"
        for each in clusters:
            outside = [f"{each.outside:,} changed outside of git"] if each.outside else []
            yield f"{indent}{ids[each.name]}[{_quoted(*cluster_lines(each), *outside)}]"
        if region:
            yield "  end"
    for cluster in drawn.clusters:
        if word := cluster.mark.value if cluster.mark is not None else _problem(cluster.state):
            yield f"  style {ids[cluster.name]} stroke:{_COLOURS[word]},stroke-width:3px"


def _problem(state: State) -> str:
    return "problem" if state is State.PROBLEM else ""


def _quoted(*lines: str) -> str:
    return '"' + "<br/>".join(_PLAIN.sub(lambda each: f"#{ord(each.group())};", visible(line)) for line in lines) + '"'


def map_dot(drawn: TopologyMap) -> str:
    lines = [f"digraph {_dot_quoted(drawn.environment)} {{", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for number, (region, clusters) in enumerate(grouped((each.region, each) for each in drawn.clusters).items()):
        if region:
            lines += [f"  subgraph cluster_{number} {{", f"    label={_dot_quoted(f'region {region}')};"]
        for each in clusters:
            lines.append(f"    {_dot_quoted(each.name)} [label={_dot_quoted(*cluster_lines(each))}];")
        lines += ["  }"] if region else []
    for edge in edges_of(drawn.flows):
        label = _dot_quoted(*(part for part in (edge.name, edge.figures, edge.plan_words) if part))
        ends = f"{_dot_quoted(edge.source)} -> {_dot_quoted(edge.target)}"
        lines.append(f"  {ends} [label={label}, style={_STYLES[edge.state]}];")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_quoted(*lines: str) -> str:
    """A quoted string (the DOT language, ``ID``): only the quote and the backslash mean something in it."""
    escaped = (visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
