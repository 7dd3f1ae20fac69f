"""The map in each format: what it says, that it is well-formed, and that no name is more than text."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from xml.etree import ElementTree

import jsonschema
import pytest

from reconciler.engine.topology_map import topology_map
from reconciler.errors import ExitCode
from reconciler.model.options import MapFormat
from reconciler.model.reports.topology_map import MapFlow, PlannedCounts, State, TopologyMap
from reconciler.model.schemas import schema
from reconciler.render.map.formats import map_code, map_dot, map_html, map_in, map_json, map_mermaid
from reconciler.render.map.svg import map_svg
from reconciler.render.map.words import Edge
from tests.support.documents.maps import changed_plan, documented, drawn, large, regions
from tests.support.documents.pages import NASTY, elements, words
from tests.support.paths import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def planned() -> TopologyMap:
    return topology_map(regions(lanes=4), None, changed_plan())


def nasty() -> TopologyMap:
    """Names as no broker takes them, but a file or a saved plan might hold."""
    value = drawn()
    name = f'<script>alert("1")</script>" {NASTY}'
    clusters = tuple(replace(each, name=f"{each.name}{name}", region=name, problems=(name,)) for each in value.clusters)
    flows = tuple(
        replace(
            each,
            name=f"{each.name}{name}",
            source=f"{each.source}{name}",
            target=f"{each.target}{name}",
            said=name,
            labels={"owner": name},
        )
        for each in value.flows
    )
    return replace(value, environment=name, clusters=clusters, flows=flows)


def texts(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_the_picture_has_figures_states_and_unknown_parts() -> None:
    told = texts(map_svg(drawn()))
    assert "shop: 3 clusters, 4 flows: 1 problem, 2 unknown" in told
    assert "12,000/s (9.4 MiB/s), lag 0" in told
    assert "west-to-east: record-too-large" in told
    assert "rate and lag unknown" in told
    assert "region us-east" in told
    assert {"1. wave canary", "2. wave rest", "gates", "soak 10m"} <= set(told)


def test_a_plan_is_on_the_picture_in_words_not_in_colours_alone() -> None:
    svg = map_svg(planned())
    told = texts(svg)
    assert "east-to-west: restarting" in told
    assert "2 changes, no soak" in told
    assert "+1" in told
    assert "lined-restarting" in svg
    assert any(each.startswith("shop: 2 changes") for each in told)


def test_a_high_risk_is_as_red_as_a_deletion() -> None:
    value = planned()
    risky = replace(value.clusters[0], planned=PlannedCounts(changed=1, high_risk=1))
    assert "node lined-removed" not in map_svg(value)
    svg = map_svg(replace(value, clusters=(risky, *value.clusters[1:])))
    assert "node lined-removed" in svg
    assert "marked mark-removed" in svg


def test_from_git_alone_nothing_is_said_of_rates() -> None:
    svg = map_svg(topology_map(regions()))
    assert "as git declares them; no cluster was asked" in svg
    assert "/s" not in "".join(texts(svg))
    assert "lag" not in "".join(texts(svg))


def test_a_thick_line_is_a_high_rate() -> None:
    def thickness(rate: float | None) -> float:
        value = drawn()
        flow = replace(value.flows[0], bytes_per_second=rate)
        [width] = re.findall(r'stroke-width="([0-9.]+)"', map_svg(replace(value, flows=(flow,))))
        return float(width)

    widths = [thickness(rate) for rate in (None, 0.0, 1e4, 1e6, 1e9)]
    assert widths[0] == widths[1] < widths[2] < widths[3] < widths[4]


@pytest.mark.parametrize("value", [drawn(), planned(), large(50, 500)])
def test_each_format_names_every_cluster(value: TopologyMap) -> None:
    for form in MapFormat:
        text = map_in(value, form)
        assert text.endswith("\n")
        assert all(cluster.name in text for cluster in value.clusters)


def test_the_page_has_every_flow_of_a_folded_edge_without_a_script() -> None:
    value = large(50, 500)
    text = words(map_html(value))
    assert all(flow.name in text for flow in value.flows)
    assert "10 flows" in text


def test_json_is_as_its_schema_says() -> None:
    for value in (drawn(), planned(), topology_map(regions())):
        document = json.loads(map_json(value))
        jsonschema.Draft202012Validator(schema("map")).validate(document)
        assert document["exit_code"] == map_code(value)
    document = json.loads(map_json(drawn()))
    assert document["flows"][2]["records_lag"] is None
    assert document["chains"] == [
        {"clusters": ["east", "west", "hub"], "flows": ["east-to-west", "west-to-hub"], "topics": 1}
    ]


def test_what_was_asked_and_is_unknown_is_an_error() -> None:
    assert map_code(drawn()) is ExitCode.ERROR
    assert map_code(topology_map(regions())) is ExitCode.DONE
    value = drawn()
    known = tuple(replace(flow, state=State.OK) for flow in value.flows)
    assert map_code(replace(value, flows=known)) is ExitCode.DONE


def test_no_name_is_more_than_text() -> None:
    value = nasty()
    page = elements(map_html(value))
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert {"img", "b", "iframe"}.isdisjoint(tag for tag, _ in page.tags)
    for _, attributes in page.tags:
        assert not attributes.keys() & {"onerror", "onclick", "style", "src", "href"}
    assert len(texts(map_svg(value))) > 5
    mermaid = map_mermaid(value)
    assert not re.search(r"[<`\\]", mermaid.replace("<br/>", ""))
    assert all(line.count('"') in (0, 2) for line in mermaid.splitlines())
    for line in map_dot(value).splitlines():
        assert len(re.findall(r'(?<!\\)(?:\\\\)*"', line)) % 2 == 0
    assert "\u202e" not in "".join(map_in(value, form) for form in MapFormat if form is not MapFormat.JSON)


def test_the_picture_asks_nothing_of_others() -> None:
    svg = map_svg(drawn())
    assert re.findall(r"https?://[^\"' ]+", svg) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in svg
    assert "prefers-color-scheme:dark" in svg


def test_a_chart_for_comments_leaves_edges_out_before_it_is_too_large_to_be_drawn() -> None:
    flows = tuple(
        MapFlow(f"f{n}", f"c{n % 60}", f"c{(n * 7 + n // 60 + 1) % 60}", "m", "exactly_once") for n in range(900)
    )
    value = replace(
        large(60, 0),
        flows=tuple(
            replace(f, source=f"kafka-{f.source[1:]:0>2}", target=f"kafka-{f.target[1:]:0>2}")
            for f in flows
            if f.source != f.target
        ),
    )
    text = map_mermaid(value)
    assert text.count("-.->|") == 200
    assert "more edges are left out" in text
    assert len(text) < 50_000


def test_an_edge_of_several_flows_has_the_worst_and_the_known_figures() -> None:
    first, second, unknown, _ = drawn().flows
    edge = Edge("east", "west", (first, second))
    assert (edge.state, edge.figures) == (State.PROBLEM, "12,000/s (9.4 MiB/s), lag 1,234")
    more = Edge("east", "west", (second, unknown))
    assert more.figures == "rate unknown, lag at least 1,234"


def test_the_picture_in_the_documentation_is_what_the_program_draws() -> None:
    """To accept another one: ``UPDATE_GOLDEN=1 pytest`` of this file."""
    path = ROOT / "docs" / "begin" / "pictures" / "map.svg"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(map_svg(documented()), "utf-8")
    assert path.read_text("utf-8") == map_svg(documented())
