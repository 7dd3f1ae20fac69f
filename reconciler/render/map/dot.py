"""The map in Graphviz's language, for those who have it installed."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.reports.topology_map import MapCluster, State, TopologyMap
from reconciler.render.escape import visible
from reconciler.render.map.fold import Edge, edges_of
from reconciler.render.map.words import cluster_facts, planned_words
from reconciler.text import grouped

_STYLES = {State.OK: "solid", State.PROBLEM: "bold", State.IDLE: "dotted", State.UNKNOWN: "dashed"}


def map_dot(drawn: TopologyMap) -> str:
    lines = [f"digraph {_quoted(drawn.environment)} {{", "  rankdir=LR;", "  node [shape=box, style=rounded];"]
    for number, (region, clusters) in enumerate(grouped((each.region, each) for each in drawn.clusters).items()):
        if region:
            lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(f'region {region}')};"]
        lines += [f"    {_quoted(each.name)} [label={_quoted(*_lines(each))}];" for each in clusters]
        lines += ["  }"] if region else []
    lines += [_edge(edge) for edge in edges_of(drawn.flows)]
    return "\n".join([*lines, "}"]) + "\n"


def _lines(cluster: MapCluster) -> Iterator[str]:
    yield cluster.name
    yield cluster_facts(cluster)
    yield from cluster.problems
    if plan := planned_words(cluster):
        yield plan


def _edge(edge: Edge) -> str:
    label = _quoted(*(part for part in (edge.name, edge.figures, edge.plan_words) if part))
    return f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={label}, style={_STYLES[edge.state]}];"


def _quoted(*lines: str) -> str:
    """A quoted string (the DOT language, ``ID``): only the quote and the backslash mean something in it."""
    escaped = (visible(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
