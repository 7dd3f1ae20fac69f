"""Several flows at once: which remote topics there are in the shapes people build; heartbeats go round them all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from reconciler.model.environment.flow_settings import MirrorMakerTopics
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.schemas import schema as schema_of
from reconciler.replication.handover import InternalTopics, OffsetSyncs
from reconciler.replication.handover_reader import parse
from reconciler.replication.mirrormaker_records import HEARTBEATS, offset_syncs_topic
from reconciler.replication.names import OFFSETS_TOPIC
from reconciler.resources.flows.routes import find_routes
from reconciler.resources.mirrors.handover import mirror_handover
from tests.support.builders import flow, topic, topology, world

ALL = MirrorMakerTopics(heartbeats=1000, offset_syncs="source")
Remotes = dict[str, list[str]]


def _remotes(wished: Topology) -> Remotes:
    found: Remotes = {}
    for route in find_routes(wished, world(*wished.clusters).look(wished)).routes:
        found.setdefault(route.remote.cluster, []).append(route.remote.name)
    return found


SHAPES = [
    pytest.param([flow("a", "b"), flow("b", "c")], ("a",), {"b": ["a.x"], "c": ["b.a.x"]}, id="multi-hop"),
    pytest.param([flow("a", "c"), flow("b", "c")], ("a", "b"), {"c": ["a.x", "b.x"]}, id="fan-in"),
    pytest.param([flow("a", "b"), flow("a", "c")], ("a",), {"b": ["a.x"], "c": ["a.x"]}, id="fan-out"),
    pytest.param(
        [flow("a", "h"), flow("b", "h"), flow("h", "a"), flow("h", "b")],
        ("a", "b", "h"),
        {"a": ["h.b.x", "h.x"], "b": ["h.a.x", "h.x"], "h": ["a.x", "b.x"]},
        id="hub and spoke",
    ),
    pytest.param(
        [flow("a", "b"), flow("b", "c"), flow("c", "a")],
        ("a",),
        {"b": ["a.x"], "c": ["b.a.x"]},
        id="ring",
    ),
    pytest.param([flow("a", "b"), flow("b", "a")], ("a", "b"), {"a": ["b.x"], "b": ["a.x"]}, id="both ways"),
]


@pytest.mark.parametrize(("flows", "where", "remotes"), SHAPES)
def test_remote_topics_of_a_shape(flows: list[Flow], where: tuple[str, ...], remotes: Remotes) -> None:
    assert _remotes(topology(topic("x", *where, partitions=1), *flows)) == remotes


@pytest.mark.parametrize(("flows", "where", "remotes"), SHAPES)
def test_heartbeats_go_round_every_shape_and_the_next_plan_is_empty(
    flows: list[Flow], where: tuple[str, ...], remotes: Remotes
) -> None:
    asking = [replace(one, topics=("x",), mirrormaker_topics=ALL) for one in flows]
    wished = topology(topic("x", *where, partitions=1), *asking)
    seen = world(*wished.clusters)
    seen.apply(wished)
    assert seen.plan(wished).changes == ()
    for one in asking:
        there = seen.clusters[one.target].topics
        assert HEARTBEATS in seen.clusters[one.source].topics
        assert f"{one.source}.{HEARTBEATS}" in there
        assert OFFSETS_TOPIC in there
        assert offset_syncs_topic(one.target) in seen.clusters[one.source].topics
        assert not any("mm2" in name and not name.startswith("mm2") for name in there), "internal topics never travel"


def test_syncs_may_lie_on_the_target() -> None:
    one = flow("a", "b", "x", mirrormaker_topics=replace(ALL, offset_syncs="target"))
    wished = topology(topic("x", "a", partitions=1), one)
    seen = world("a", "b")
    seen.apply(wished)
    assert offset_syncs_topic("a") in seen.clusters["b"].topics
    assert offset_syncs_topic("b") not in seen.clusters["a"].topics


def test_the_separator_of_internal_names_may_stay_a_dot() -> None:
    one = flow("a", "b", "x", mirrormaker_topics=replace(ALL, internal_separator=False))
    one = replace(one, naming=replace(one.naming, separator="--"))
    seen = world("a", "b")
    seen.apply(topology(topic("x", "a", partitions=1), one))
    assert "mm2-offset-syncs.b.internal" in seen.clusters["a"].topics
    assert "a--heartbeats" in seen.clusters["b"].topics


def test_the_job_gets_only_what_is_asked_for() -> None:
    schema = schema_of("mirror")
    plain, asking = flow("a", "b", "x"), flow("a", "b", "x", mirrormaker_topics=ALL)
    assert "mirrormaker_topics" not in _told(plain)["flows"][0]
    told = _told(asking)
    jsonschema.validate(told, schema)
    (settings,) = parse(json.dumps(told)).flows
    assert settings.mirrormaker == InternalTopics(1000, OffsetSyncs("source", "mm2-offset-syncs.b.internal"))
    assert settings.selector().why_not(HEARTBEATS) is None, "heartbeats travel whatever the topics say"
    assert settings.selector().why_not("b.heartbeats") == "cycle"
    assert settings.selector().why_not("mm2-offset-syncs.b.internal") is not None


def _told(one: Flow) -> dict[str, Any]:
    wished = topology(topic("x", "a", partitions=1), one)
    return mirror_handover(wished, wished.mirrors["b"])
