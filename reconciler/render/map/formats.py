"""The map in its formats, and in a page: the picture, and the same as tables, to be read out and searched."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from reconciler.errors import ExitCode
from reconciler.model.options import MapFormat
from reconciler.model.reports.topology_map import MapFlow, State, TopologyMap
from reconciler.render.map.charts import map_dot, map_mermaid
from reconciler.render.map.svg import map_figure, map_svg
from reconciler.render.map.words import (
    UNKNOWN,
    cluster_facts,
    edges_of,
    flow_delivery,
    flow_lag,
    flow_rate,
    flow_state,
    headline,
    planned_words,
)
from reconciler.render.markup import page as safe
from reconciler.render.markup import report_json
from reconciler.render.page import code, codes, page_html, table
from reconciler.render.plan.waves import gates_words
from reconciler.replication.json_codec import Codec
from reconciler.text import counted

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
