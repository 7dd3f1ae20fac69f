"""What a failover asks for by name, because brokers hide silently what a principal may not see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from reconciler.backends.clusters.groups import Side
from reconciler.model.reports.failover import Key, Level, Way
from reconciler.operations.failover.decide import move_of
from reconciler.operations.failover.hidden import hidden
from reconciler.resources.flows.routes import selector_of
from tests.support.builders import flow, topology


@dataclass
class OneSide:
    name: str
    copied: Mapping[str, Sequence[Key]] = field(default_factory=dict)
    denied: frozenset[str] = frozenset()
    principal: str = "mirror"

    def positions(self, of: str) -> Mapping[Key, int]:
        return dict.fromkeys(self.copied.get(of, ()), 7)

    def denied_topics(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.denied]

    def is_denied_group(self, _: str) -> bool:
        return False


@pytest.mark.parametrize("moved_from", ["", "first-name"])
def test_a_topic_that_a_flow_has_copied_and_the_origin_hides_stops_a_failover(moved_from: str) -> None:
    """Also of a flow that was renamed: its positions go on under its first name."""
    renamed = replace(flow("east", "west", "orders"), moved_from=moved_from)
    move = move_of(topology(renamed), Way.FAILOVER, renamed.name)
    east = OneSide("east", denied=frozenset({"orders"}))
    west = OneSide("west", {renamed.state_name: [("east.orders", 0), ("east.orders", 1)]})
    sides = cast(tuple[Side, Side], cast(Any, (east, west)))
    checks = list(hidden(move, sides, {renamed.name: renamed}, {renamed.name: selector_of(renamed)}, ["g"]))
    assert [(check.code, check.level) for check in checks] == [("hidden-topics", Level.STOPS)]
    assert "orders" in checks[0].text
    east.denied = frozenset()
    assert list(hidden(move, sides, {renamed.name: renamed}, {renamed.name: selector_of(renamed)}, ["g"])) == []
