"""What doctor asks for of records, the roles give: else an environment that follows the pages fails in an emergency."""

from __future__ import annotations

import pytest

from reconciler.engine.doctor.rights import record_needs
from reconciler.environment.load import load
from reconciler.model.environment.topology import OURS, Principal
from reconciler.model.principals import Operation
from reconciler.resources.acls.desired import desired_rules
from reconciler.resources.flows.routes import find_routes
from tests.support.builders import world

TEXT = """
clusters: {east: {bootstrap_servers: [e:1]}, west: {bootstrap_servers: [w:1]}}
topics: {orders: {clusters: [east], partitions: 1}}
flows: {east-to-west: {source: east, target: west, topics: [orders]}}
mirrors: {west: {hosted: true}}
audit: {topic: audit-of-applies, cluster: east}
access:
  - {role: mirror, principal: "User:mirror"}
  - {role: reconciler-plan, principal: "User:plan", clusters: [east, west]}
  - {role: reconciler-apply, principal: "User:apply", clusters: [east, west]}
"""


@pytest.mark.parametrize("cluster", ["east", "west"])
@pytest.mark.parametrize("principal", OURS)
def test_the_roles_have_what_doctor_asks_for(principal: Principal, cluster: str) -> None:
    topology = load({"a.yaml": TEXT}, "e")
    live = world("east", "west").look(topology)
    routing = find_routes(topology, live)
    given = desired_rules(topology, live, routing).rules[cluster]
    has = {(rule.operation, rule.name) for rule in given if rule.principal == f"User:{principal}"}
    needs = list(record_needs(topology, cluster, principal, routing.routes))
    asked = {
        (Operation[need.operation], topic)
        for need in needs
        for topic in need.topics
        if not topic.startswith("east.")  # a prefix is given
    }
    assert asked, "each of them needs some record"
    assert asked <= has
