"""Of topics ``status`` says how many there are, and which a flow leaves out: "0 behind" does not hide them."""

from __future__ import annotations

import json

from reconciler.engine.topology_map import topology_map
from reconciler.model.live import LiveCluster
from reconciler.render.live.flows import counted_topics
from reconciler.render.plan.outline import seen as seen_words
from reconciler.render.reports.status import status_json, status_text
from tests.support.builders import cluster, flow, topology, world


def test_a_topic_that_a_flow_matches_and_leaves_is_named_with_the_rule() -> None:
    seen = world()
    seen.clusters["east"].put("west.orders")
    seen.clusters["east"].put("orders")
    wished = topology(flow("east", "west", ".*"))
    told = (
        "  flow east-to-west does not carry 1 topic of east that its expressions match: west.orders (west before a"
        " separator in its name says that its records have been on west)"
    )
    assert told in status_text(wished, seen.look(wished), 0).splitlines()
    kept = topology(flow("east", "west", ".*", exclude_topics=(r"west\..*",)))
    assert "does not carry" not in status_text(kept, seen.look(kept), 0)


def test_internal_topics_count_nowhere() -> None:
    declared = topology(cluster("east"))
    there = world("east")
    there.clusters["east"].put("orders")
    there.clusters["east"].put("__consumer_offsets", 50)
    live = there.look(declared)
    read = live.clusters["east"]
    assert isinstance(read, LiveCluster)
    assert {name: each.internal for name, each in read.topics.items()} == {"__consumer_offsets": True, "orders": False}
    [planned] = there.plan(declared).basis.clusters
    [drawn] = topology_map(declared, live).clusters
    printed = json.loads(status_json(declared, live, 0))["clusters"]["east"]["topics"]
    assert (planned.topics, drawn.topics, printed, counted_topics(read)) == (1, 1, 1, "1 topic")
    assert "1 topic visible" in seen_words(planned)
