"""The map in its formats, and in a page: the picture, and the same as tables, to be read out and searched."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from reconciler.errors import ExitCode
from reconciler.model.options import MapFormat
from reconciler.model.reports.topology_map import MapFlow, State, TopologyMap
from reconciler.render.map.svg import map_figure, map_svg
from reconciler.render.map.words import (
    UNKNOWN,
    cluster_facts,
    cluster_lines,
    edges_of,
    flow_delivery,
    flow_lag,
    flow_rate,
    flow_state,
    headline,
    planned_words,
    wave_lines,
)
from reconciler.render.markup import page as safe
from reconciler.render.markup import report_json, visible
from reconciler.render.page import code, codes, page_html, table
from reconciler.render.plan.outline import gates_words
from reconciler.replication.json_codec import Codec
from reconciler.text import counted, grouped

_CODEC = Codec()
_FIGURE = 1_500
"""Width in pixels up to which a picture is shrunk to the page."""
_PHONE = 720
"""Width up to which words can be read when it is shrunk to a phone."""
_ON_A_PHONE = 12
"""Most clusters that are drawn a second time, for phones."""


def map_section(drawn: TopologyMap, opened: bool = False) -> Iterator[str]:
    """``opened``: with its tables open."""
    yield f'<section id="map"><h2>Map</h2>{framed(drawn)}'
    if drawn.gates is not None and drawn.waves:
        yield f'<p class="faint">{safe(gates_words(drawn.gates))}</p>'
    yield f"<details{' open' if opened else ''}><summary>The map as tables</summary>"
    rows = []
    for cluster in drawn.clusters:
        state = "; ".join((cluster.state.value, *cluster.problems))
        outside = "" if cluster.planned is None else UNKNOWN if cluster.outside is None else f"{cluster.outside:,}"
        words = cluster.region, state, cluster_facts(cluster), planned_words(cluster), outside
        rows.append((code(cluster.name), *map(safe, words)))
    yield table(("cluster", "region", "state", "holds", "plan", "outside of git"), rows)

    # A flow that has its two clusters to itself is a row of one table; others are folded as the picture folds them.
    edges = edges_of(drawn.flows)
    if single := [edge.flows[0] for edge in edges if len(edge.flows) == 1]:
        yield _flow_table(single)
    for edge in (edge for edge in edges if len(edge.flows) > 1):
        count = counted(len(edge.flows), "flow")
        said = ", ".join(part for part in (count, edge.figures, edge.plan_words) if part)
        title = f"{code(edge.source)} to {code(edge.target)}: {safe(said)}"
        yield f"<details><summary>{title}</summary>{_flow_table(edge.flows)}</details>"
    if drawn.chains:
        ways = [
            (code(" \u2192 ".join(chain.clusters)), codes(chain.flows), f"{chain.topics:,}") for chain in drawn.chains
        ]
        yield f"<h3>Hop by hop</h3>{table(('way', 'flows', 'topics'), ways)}"
    yield "</details></section>"


def framed(drawn: TopologyMap, attributes: str = "") -> str:
    """The picture, shrunk to the page, or scrolled in a frame if it is too wide. Phones get it drawn downwards if that
    fits."""
    figure = map_figure(drawn)
    wide = " wide" if _width(figure) > _FIGURE else ""
    narrow = map_figure(drawn, narrow=True) if len(drawn.clusters) <= _ON_A_PHONE else figure
    phone = ""
    if _width(narrow) <= min(_PHONE, _width(figure)):
        wide += " desk"
        phone = f'<div class="map phone"{attributes}>{narrow}</div>'
    return f'<div class="scroll map{wide}" tabindex="0"{attributes}>{figure}</div>{phone}'


def _width(figure: str) -> int:
    return int(figure.partition(' width="')[2].partition('"')[0])


def _flow_table(flows: Sequence[MapFlow]) -> str:
    rows = []
    for flow in flows:
        topics = UNKNOWN if flow.topics is None else f"{flow.topics:,}"
        plan = "; ".join((flow.mark.value, *flow.plan_why)) if flow.mark is not None else ""
        words = flow_state(flow), flow_rate(flow), flow_lag(flow), topics, flow_delivery(flow).replace("_", " "), plan
        rows.append((code(flow.name), f"{code(flow.source)} {code(flow.target)}", *map(safe, words)))
    return table(("flow", "from, to", "state", "records", "lag", "topics", "delivery", "plan"), rows)


def map_in(drawn: TopologyMap, form: MapFormat) -> str:
    match form:
        case MapFormat.SVG:
            return map_svg(drawn)
        case MapFormat.HTML:
            return map_html(drawn)
        case MapFormat.MERMAID:
            return map_mermaid(drawn)
        case MapFormat.DOT:
            return map_dot(drawn)
        case MapFormat.JSON:
            return map_json(drawn)
        case _:
            assert_never(form)


def map_html(drawn: TopologyMap) -> str:
    title = f"{drawn.environment}: {headline(drawn)}"
    return page_html(f"{drawn.environment}: map", [f"<h1>{safe(title)}</h1>", *map_section(drawn, opened=True)])


def map_json(drawn: TopologyMap) -> str:
    """As schemas/reports/map.schema.json."""
    clusters = [{**_CODEC.encoded(cluster), "mark": cluster.mark} for cluster in drawn.clusters]
    fields = _CODEC.encoded(replace(drawn, clusters=(), verdict=""))
    del fields["environment"]
    fields |= {"clusters": clusters, "verdict": headline(drawn)}
    return report_json("map", drawn.environment, exit_code=int(map_code(drawn)), **fields)


def map_code(drawn: TopologyMap) -> ExitCode:
    """The exit code: a failed read is an error, as in ``status``."""
    unknown = any(cluster.state is State.UNKNOWN for cluster in drawn.clusters)
    unknown |= any(flow.state is State.UNKNOWN for flow in drawn.flows)
    return ExitCode.ERROR if drawn.live and unknown else ExitCode.DONE


# The map for others to draw: as a Mermaid flowchart, which GitHub and GitLab draw in comments and pages, and for
# Graphviz.

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
