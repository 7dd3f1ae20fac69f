"""``status`` names topics that a flow's expressions match and that it does not carry: "0 behind" does not hide them."""

from __future__ import annotations

from reconciler.render.reports.status.status import status_text
from tests.support.builders import flow, topology, world


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
