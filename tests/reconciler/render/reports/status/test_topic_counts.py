"""How many topics a cluster has is one number in plan, status, the map and the live page: without internal ones."""

from __future__ import annotations

import json

from reconciler.engine.topology_map import topology_map
from reconciler.model.live import LiveCluster
from reconciler.render.live.overview import counted_topics
from reconciler.render.plan.outline import seen as seen_words
from reconciler.render.reports.status.status import status_json
from tests.support.builders import cluster, topology, world


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
