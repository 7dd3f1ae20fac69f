"""A saved plan comes back as it was, or not at all."""

from __future__ import annotations

import json

import jsonschema
from hypothesis import HealthCheck, given, settings

from reconciler import planfile
from reconciler.topology import Topology
from tests.worlds import LiveParts, live_parts, topologies


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(topologies(), live_parts)
def test_round_trip(wished: Topology, before: LiveParts) -> None:
    plan = before.build().plan(wished)
    text = planfile.dumps(plan)
    assert planfile.loads(text) == plan
    document = json.loads(text)
    jsonschema.Draft202012Validator(planfile.schema()).validate(document)
    assert document["digest"] == planfile.digest(plan)
