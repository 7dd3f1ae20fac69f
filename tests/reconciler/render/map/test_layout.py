"""The places of regions, clusters and edges: nothing over anything else, and the same each time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.reports.topology_map import MapCluster, MapFlow, TopologyMap
from reconciler.render.map.paths import Box, EdgePath, Layout, Point
from reconciler.render.map.svg import PAGE, layout, ordered, ranks
from reconciler.render.map.words import edges_of
from tests.support.documents.maps import drawn, fans, large

NAMES = st.sampled_from("abcdefgh")
EDGES = st.lists(st.tuples(NAMES, NAMES).filter(lambda pair: pair[0] != pair[1]), max_size=20)


def meet(one: Box, other: Box) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


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
    assert not any(meet(one, other) for one, other in combinations(there.regions.values(), 2))
    assert not any(meet(one, other) for one, other in combinations(there.nodes.values(), 2))
    assert len(there.nodes) == len(value.clusters)
    for box in (*there.regions.values(), *there.nodes.values()):
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= there.width
        assert box.y + box.height <= there.height
    assert all(0 <= x <= there.width for path in there.paths for x, _ in path.points)


@given(pairs=EDGES, regions=st.lists(st.sampled_from(("", "", "r", "s", "t")), min_size=8, max_size=8))
def test_any_graph_is_drawn_whole_and_the_same_each_time(pairs: list[tuple[str, str]], regions: list[str]) -> None:
    clusters = [MapCluster(name, region, 1) for name, region in zip("abcdefgh", regions, strict=True)]
    flows = [MapFlow(f"f{n}", *pair, "m", "exactly_once") for n, pair in enumerate(pairs)]
    edges = edges_of(flows)
    there = layout(clusters, edges)
    assert there == layout(clusters, edges_of(reversed(flows)))
    assert {path.edge.ends for path in there.paths} == set(pairs)
    assert not any(meet(one, other) for one, other in combinations(there.nodes.values(), 2))
    for path in there.paths:
        for name, point in ((path.edge.source, path.points[0]), (path.edge.target, path.points[-1])):
            box = there.nodes[name]
            if there.down:
                assert point[1] in (box.y, box.y + box.height)
                assert box.x < point[0] < box.x + box.width
            else:
                assert point[0] in (box.x, box.x + box.width)
                assert box.y < point[1] < box.y + box.height


def test_flows_between_the_same_two_clusters_are_one_edge() -> None:
    value = large(50, 500)
    edges = edges_of(value.flows)
    assert sum(len(edge.flows) for edge in edges) == len(value.flows) > 450
    assert len(edges) <= 60
    assert edges[0].name.endswith(" flows")


WORDS = (200.0, 30.0)
"""Width and height of the words of an edge, here."""


def along(path: EdgePath) -> Iterator[tuple[float, float]]:
    """Points of its curves, by their definition."""
    for first in range(0, len(path.points) - 1, 3):
        curve = path.points[first : first + 4]
        for step in range(41):
            share = step / 40
            weights = [math.comb(3, k) * share**k * (1 - share) ** (3 - k) for k in range(4)]
            x, y = (sum(w * point[axis] for w, point in zip(weights, curve, strict=True)) for axis in (0, 1))
            yield x, y


def words_box(words: Point, down: bool) -> Box:
    x, y = words
    return Box(x + 8, y, *WORDS) if down else Box(x, y - WORDS[1] / 2, *WORDS)


def ways(*pairs: tuple[str, str], region: str = "") -> TopologyMap:
    names = sorted({name for pair in pairs for name in pair})
    nodes = tuple(MapCluster(name, region or f"of-{name}", 3) for name in names)
    flows = [MapFlow(f"{source}-{target}", source, target, "m", "exactly_once") for source, target in pairs]
    return TopologyMap("ways", nodes, tuple(flows), live=True)


TEN = [f"region-{number}" for number in range(10)]
CHAIN = ways(*pairwise(TEN))
RING = ways(*pairwise([*TEN, TEN[0]]))
BOTH_WAYS = ways(*pairwise(TEN), *pairwise(reversed(TEN)))
MESH = ways(*permutations(TEN[:5], 2))
STAR = ways(*[("hub", f"leaf-{number:02}") for number in range(50)])
SHAPES = {"chain": CHAIN, "ring": RING, "both ways": BOTH_WAYS, "mesh": MESH, "star": STAR}


@pytest.mark.parametrize("name", ["chain", "ring", "both ways", "star"])
def test_many_regions_are_no_wider_than_a_page(name: str) -> None:
    edges = edges_of(SHAPES[name].flows)
    there = layout(SHAPES[name].clusters, edges, widths={edge.ends: WORDS[0] for edge in edges})
    assert there.width <= PAGE
    assert there.down == (name != "star")


@pytest.mark.parametrize(
    "value",
    [drawn(), fans(), large(50, 500), large(12, 40), *SHAPES.values()],
    ids=["shop", "fans", "50", "12", *SHAPES],
)
def test_no_words_lie_on_a_line_of_another_edge_on_other_words_or_on_a_cluster(value: TopologyMap) -> None:
    edges = edges_of(value.flows)
    there = layout(value.clusters, edges, widths={edge.ends: WORDS[0] for edge in edges})
    words = {path.edge.ends: words_box(path.words, there.down) for path in there.paths if path.words}
    assert len(words) == len(edges)
    assert not any(meet(one, other) for one, other in combinations(words.values(), 2))
    assert not any(meet(one, region) for one in words.values() for region in there.regions.values())
    for path in there.paths:
        for x, y in along(path):
            crossed = [ends for ends, box in words.items() if meet(box, Box(x, y, 0.1, 0.1))]
            assert set(crossed) <= {path.edge.ends}, f"{path.edge.ends} crosses {crossed} at {x:.0f}, {y:.0f}"
