"""What a review says of an edit beside its plan."""

from __future__ import annotations

from reconciler.engine.edits.compare import compare
from reconciler.engine.plan.build import plan
from reconciler.environment.load import load
from reconciler.operations.review.plan import _effects
from reconciler.render.plan.formats import Review
from tests.support.builders import world

TEXT = """
clusters: {east: {bootstrap_servers: ['a:1']}}
topics: {orders: {clusters: [east], partitions: 1}, pay: {clusters: [east], partitions: 1}}
"""


def test_of_a_new_environment_each_entry_without_effect_is_named() -> None:
    seen, now = world("east"), load({"e.yaml": TEXT}, "shop")
    seen.clusters["east"].put("orders", 1, 1)
    live = seen.look(now)
    review = _effects(Review(plan(now, live), compare(None, now), seen=live), None, now)
    assert [(each.name, each.why) for each in review.effectless] == [
        ("orders", "east/orders already exists, as declared")
    ]
