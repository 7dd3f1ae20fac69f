"""Where regions, clusters and edges stand: nothing over anything else, and the same each time."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.reports.topology_map import MapCluster, MapFlow, TopologyMap
from reconciler.render.map.fold import edges_of
from reconciler.render.map.layers import ordered, ranks
from reconciler.render.map.layout import Layout, layout
from tests.support.documents.maps import drawn, large

NAMES = st.sampled_from("abcdefgh")
EDGES = st.lists(st.tuples(NAMES, NAMES).filter(lambda pair: pair[0] != pair[1]), max_size=20)


def placed(value: TopologyMap) -> Layout:
    return layout(value.clusters, edges_of(value.flows))


def test_an_edge_leads_to_a_later_layer_unless_it_closes_a_cycle() -> None:
    assert ranks("abc", {("a", "b"), ("b", "c"), ("a", "c")}) == {"a": 0, "b": 1, "c": 2}
    assert ranks("ab", {("a", "b"), ("b", "a")}) == {"a": 0, "b": 1}
    assert ranks(["hub", "s1", "s2"], {("s1", "hub"), ("s2", "hub")}) == {"s1": 0, "s2": 0, "hub": 1}
    assert ranks("abc", {("a", "c"), ("b", "c"), ("a", "b")}) == {"a": 0, "b": 1, "c": 2}


def test_layers_are_put_in_the_order_in_which_few_edges_cross() -> None:
    assert ordered([["a", "b"], ["x", "y"]], {("a", "y"), ("b", "x")}) in (
        [["a", "b"], ["y", "x"]],
        [["b", "a"], ["x", "y"]],
    )


@pytest.mark.parametrize("value", [drawn(), large(50, 500)])
def test_no_region_lies_on_another_and_all_is_within_the_picture(value: TopologyMap) -> None:
    there = placed(value)
    assert not any(one.meets(other) for one, other in combinations(there.regions.values(), 2))
    assert not any(one.meets(other) for one, other in combinations(there.nodes.values(), 2))
    assert len(there.nodes) == len(value.clusters)
    for box in (*there.regions.values(), *there.nodes.values()):
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= there.width
        assert box.y + box.height <= there.height
    assert all(0 <= x <= there.width for way in there.ways for x, _ in way.points)


@given(pairs=EDGES, regions=st.lists(st.sampled_from(("", "", "r", "s", "t")), min_size=8, max_size=8))
def test_any_graph_is_drawn_whole_and_the_same_each_time(pairs: list[tuple[str, str]], regions: list[str]) -> None:
    clusters = [MapCluster(name, region, 1) for name, region in zip("abcdefgh", regions, strict=True)]
    flows = [MapFlow(f"f{n}", *pair, "m", "exactly_once") for n, pair in enumerate(pairs)]
    edges = edges_of(flows)
    there = layout(clusters, edges)
    assert there == layout(clusters, edges_of(reversed(flows)))
    assert {way.edge.ends for way in there.ways} == set(pairs)
    assert not any(one.meets(other) for one, other in combinations(there.nodes.values(), 2))
    for way in there.ways:
        for name, point in ((way.edge.source, way.points[0]), (way.edge.target, way.points[-1])):
            box = there.nodes[name]
            assert point[0] in (box.x, box.x + box.width)
            assert box.y < point[1] < box.y + box.height


def test_flows_between_the_same_two_clusters_are_one_edge() -> None:
    value = large(50, 500)
    edges = edges_of(value.flows)
    assert sum(len(edge.flows) for edge in edges) == len(value.flows) > 450
    assert len(edges) <= 60
    assert edges[0].name.endswith(" flows")
