"""The map in its formats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

from reconciler.errors import ExitCode
from reconciler.model.options import MapFormat
from reconciler.model.reports.topology_map import MapCluster, State, TopologyMap
from reconciler.render.escape import page as safe
from reconciler.render.map.dot import map_dot
from reconciler.render.map.mermaid import map_mermaid
from reconciler.render.map.section import map_section
from reconciler.render.map.svg import map_svg
from reconciler.render.map.words import headline
from reconciler.render.plan.html import page_html
from reconciler.render.report_json import report_json
from reconciler.replication.json_codec import Codec

_CODEC = Codec()


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
    fields = _CODEC.encoded(replace(drawn, clusters=(), verdict=""))
    del fields["environment"]
    fields |= {"clusters": [_cluster(cluster) for cluster in drawn.clusters], "verdict": headline(drawn)}
    return report_json("map", drawn.environment, exit_code=int(map_code(drawn)), **fields)


def map_code(drawn: TopologyMap) -> ExitCode:
    """What was asked and could not be read is an error, as in ``status``."""
    unknown = any(cluster.state is State.UNKNOWN for cluster in drawn.clusters)
    unknown |= any(flow.state is State.UNKNOWN for flow in drawn.flows)
    return ExitCode.ERROR if drawn.live and unknown else ExitCode.DONE


def _cluster(cluster: MapCluster) -> dict[str, Any]:
    return {**_CODEC.encoded(cluster), "mark": cluster.mark}
