"""explain names the layer that decided, the rule that carries or keeps a topic, and every name it has."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from reconciler.engine.explain import explain
from reconciler.environment.load import load
from reconciler.environment.yaml.read import read
from reconciler.environment.yaml.sections import collect
from reconciler.errors import ExitCode, ReconcilerError, Unknown, Where
from reconciler.model.environment.topology import Mirror, Tombstone, TopicDefaults, Topology
from reconciler.model.reports.explain import ExplainedValue, TopicAnswer
from reconciler.model.schemas import schema
from reconciler.render.reports.declared import explanation_json, explanation_text
from tests.support.access.acls import env, rules
from tests.support.builders import cluster, flow, topic, topology, world
from tests.support.fakes.cluster import unreachable
from tests.support.worlds import LiveParts, live_parts, topologies

CLUSTERS, TOPICS, FLOWS = (Where(f"{name}.yaml", line) for name, line in (("clusters", 2), ("topics", 5), ("flows", 9)))


def shop() -> Topology:
    defaults = TopicDefaults(3, 2, {"min.insync.replicas": "1"})
    return topology(
        cluster("east", defaults=defaults, where=CLUSTERS),
        cluster("west", where=CLUSTERS),
        topic("orders", partitions=6, configs={"retention.ms": "86400000"}, where=TOPICS),
        topic("orders.tmp", where=TOPICS),
        topic("pay", where=TOPICS),
        flow("east", "west", r"orders.*", exclude_topics=(r".*\.tmp",), replication_factor=1, where=FLOWS),
        flow("west", "north", r"east\..*", where=FLOWS),
        flow("north", "east", ".*", where=FLOWS),
    )


def answer(subject: str, wished: Topology | None = None, **more: Any) -> TopicAnswer:
    [found] = explain(wished or shop(), subject, **more).topics
    return found


def values(found: TopicAnswer) -> dict[str, ExplainedValue]:
    return {one.key: one for one in found.values}


def test_each_value_names_its_layer_and_place() -> None:
    found = answer("east/orders")
    told = {key: (one.wished, one.because, one.where) for key, one in values(found).items()}
    assert told == {
        "partitions": ("6", "declared", "topics.yaml:5"),
        "replication_factor": ("2", "default of cluster east, for a new topic", "clusters.yaml:2"),
        "min.insync.replicas": ("1", "default of cluster east", "clusters.yaml:2"),
        "retention.ms": ("1d", "declared", "topics.yaml:5"),
    }
    assert found.declared == "topics.yaml:5"


def test_a_remote_topic_names_its_source_and_flow() -> None:
    told = values(answer("west/east.orders"))
    assert (told["partitions"].wished, told["partitions"].because) == ("6", "as many as east/orders")
    assert (told["replication_factor"].wished, told["replication_factor"].where) == ("1", "flows.yaml:9")
    assert told["retention.ms"].because == "source east/orders"
    assert told["retention.ms"].where == "topics.yaml:5"


def test_a_default_holds_for_a_new_topic_but_always_for_the_topics_of_the_mirror() -> None:
    wished = topology(
        cluster("east"),
        cluster("west", defaults=TopicDefaults(replication_factor=2), where=CLUSTERS),
        topic("orders", "east", partitions=6),
        topic("pay", "west", partitions=1),
        flow("east", "west", "orders"),
    )
    assert (
        values(answer("west/pay", wished))["replication_factor"].because == "default of cluster west, for a new topic"
    )
    internal = values(answer("west/__mirror_status", wished))["replication_factor"]
    assert (internal.wished, internal.because, internal.where) == ("2", "default of cluster west", "clusters.yaml:2")


def test_no_one_decides_where_no_one_does() -> None:
    told = values(answer("west/plain", topology(cluster("west"), topic("plain", "west"))))
    assert told["partitions"].because == told["replication_factor"].because == "the brokers decide"


@pytest.mark.parametrize(
    ("subject", "flow_name", "rule"),
    [
        ("east/orders", "east-to-west", "orders.* matches the whole name"),
        ("east/pay", "east-to-west", "none of its expressions matches: orders.*"),
        ("east/my-orders", "east-to-west", "matches a part of the name only"),
        ("east/orders.tmp", "east-to-west", r"excluded by exclude_topics .*\.tmp"),
        ("east/orders.replica", "east-to-west", "which MirrorMaker 2 excludes"),
        ("north/__x", "north-to-east", "which MirrorMaker 2 excludes"),
        ("north/west.east.orders", "north-to-east", "its records have been on east"),
    ],
)
def test_the_rule_that_decided(subject: str, flow_name: str, rule: str) -> None:
    [found] = [one for one in answer(subject).flows if one.flow == flow_name]
    assert rule in found.rule
    assert (found.remote is not None) == rule.endswith("whole name")


@pytest.mark.parametrize("subject", ["east/orders", "west/east.orders", "north/west.east.orders"])
def test_its_names_over_all_hops_from_any_of_them(subject: str) -> None:
    assert [(str(hop.source), str(hop.remote), hop.depth) for hop in answer(subject).hops] == [
        ("east/orders", "west/east.orders", 1),
        ("west/east.orders", "north/west.east.orders", 2),
    ]


def test_one_key_alone_with_its_live_value_and_source() -> None:
    seen = world("east", "west", "north")
    seen.clusters["east"].put("orders", 6, 1, retention_ms="60000")
    [value] = answer("orders:retention.ms", live=seen.look(shop())).values
    assert (value.wished, value.live) == ("1d", "1m (topic)")
    [value] = answer("orders:max.message.bytes", live=seen.look(shop())).values
    assert value.wished == ""
    assert value.live.endswith("(broker default)")
    [value] = answer("orders:max.message.bytes").values
    assert "not known" in value.because


def test_overrides_no_one_declared_and_topics_no_one_manages() -> None:
    seen = world("east", "west", "north")
    seen.clusters["east"].put("stray", 2, 1, preallocate="true")
    found = answer("stray", live=seen.look(shop()))
    assert found.reason.startswith("unmanaged")
    assert values(found)["partitions"].live == "2"
    assert "left as it is" in values(found)["preallocate"].because


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "to be deleted: its tombstone (stones.yaml:3) counts until 2099-12-31: moved"),
        ({"expired": True}, "unmanaged, never changed: its tombstone (stones.yaml:3) counted until 2099-12-31"),
        ({"topic_id": "other"}, "unmanaged, never changed: its tombstone (stones.yaml:3) is for an earlier topic"),
        ({"topic": "gone"}, "gone; its tombstone (stones.yaml:3) can be removed"),
    ],
)
def test_a_topic_with_a_tombstone_is_not_called_never_touched(changes: dict[str, Any], told: str) -> None:
    seen = world("east", "west", "north")
    seen.clusters["east"].put("old", 1, 1)
    there = seen.clusters["east"].topics["old"]
    stone = Tombstone("east", "old", there.topic_id, "moved", "2099-12-31", Where("stones.yaml", 3))
    wished = replace(shop(), deletions=(replace(stone, **changes),))
    found = answer(f"east/{changes.get('topic', 'old')}", wished, live=seen.look(wished))
    assert found.reason.startswith(told)


def test_a_silent_cluster_is_unknown_and_reported_from_git() -> None:
    seen = world("east", "west", "north")
    seen.clusters["west"].fail_on(1, unreachable("west"))
    found = explain(shop(), "east.orders", seen.look(shop()))
    assert [one.subject for one in found.unknown] == ["cluster west"]
    [one] = found.topics
    assert one.live == ""
    assert values(one)["partitions"].wished == "6"


def test_a_flow_lists_what_it_carries_and_what_it_leaves() -> None:
    [found] = explain(shop(), "east-to-west").flows
    assert [str(one.remote) for one in found.carried] == ["west/east.orders"]
    assert [one.topic.name for one in found.left] == ["orders.tmp", "__mirror_offsets", "__mirror_status", "pay"]
    assert found.declared == "flows.yaml:9"
    assert found.mirror == "west"


def test_one_name_of_several_kinds_explains_each() -> None:
    wished = topology(topic("west"), flow("east", "west", "west"))
    found = explain(wished, "west")
    assert len(found.topics) == len(found.mirrors) == 1


def test_a_mirror_is_explained_with_its_job() -> None:
    seen, wished = (
        world(),
        topology(topic("a", partitions=1), flow("east", "west", "a"), Mirror("west", ("east-to-west",))),
    )
    seen.apply(wished)
    [found] = explain(wished, "west", seen.look(wished)).mirrors
    assert found.live == f"running, fingerprint {found.fingerprint}"
    assert found.status_cluster == "west"


def test_a_name_that_is_nowhere_offers_the_nearest() -> None:
    with pytest.raises(ReconcilerError, match=r"Perhaps orders"):
        explain(shop(), "odrers")
    with pytest.raises(ReconcilerError, match="no cluster eats"):
        explain(shop(), "eats/orders")


@pytest.mark.slow
@given(topologies(), live_parts)
def test_whatever_is_planned_can_be_explained(wished: Topology, before: LiveParts) -> None:
    """Every value of a topic that is to be made is in its explanation, and both renderings hold."""
    seen = before.build()
    shape = schema("explanation")
    live = seen.look(wished)
    for planned in seen.plan(wished).changes[:4]:
        if (ref := getattr(planned.change, "ref", None)) is None:
            continue
        found = explain(wished, str(ref), live)
        told = values(found.topics[0])
        assert {one.key for one in getattr(planned.change, "configs", ())} <= told.keys()
        assert all(one.because for one in told.values())
        assert str(ref) in explanation_text(found)
        jsonschema.Draft202012Validator(shape).validate(json.loads(explanation_json(found)))


def test_each_value_is_reported_with_its_own_line() -> None:
    text = """\
clusters:
  east:
    bootstrap_servers: [a:1]
    defaults:
      replication_factor: 2
defaults:
  configs:
    retention.ms: 7d
classes:
  critical:
    configs: &base
      segment.ms: 1d
      retention.ms: 30d
topics:
  orders:
    clusters: [east]
    class: critical
    partitions: 6
    configs:
      retention.ms: 1d
"""
    places, problems = collect([read("e.yaml", text)])
    assert problems == []
    [told] = explain(load({"e.yaml": text}, "e"), "orders", None, places).topics
    found = values(told)
    assert {key: one.where for key, one in found.items()} == {
        "partitions": "e.yaml:18",
        "replication_factor": "e.yaml:5",
        "retention.ms": "e.yaml:20",
        "segment.ms": "e.yaml:12",
    }
    assert found["retention.ms"].overridden == (
        "30d by class critical, e.yaml:13",
        "7d by default of the environment, e.yaml:8",
    )


def test_without_the_ownership_record_no_rule_is_called_unmanaged() -> None:
    seen, declared = world(), env("access: []\n")
    east = seen.clusters["east"]
    east.acls |= rules("allow User:app read topic orders")
    [answer] = explain(declared, "User:app", seen.look(declared)).access
    assert answer.because == "unmanaged: neither declared nor made by an earlier run"
    east.record_unreadable = Unknown("ownership record of east", "no answer")
    found = explain(declared, "User:app", seen.look(declared))
    assert found.unknown == (east.record_unreadable,)
    assert [each.because for each in found.access] == ["not declared; whether an earlier run made it is not known"]


def test_live_configs_that_could_not_be_read_are_named_as_unknown() -> None:
    seen, declared = world("east"), topology(topic("orders", configs={"retention.ms": "86400000"}))
    seen.apply(declared)
    assert not explain(declared, "east/orders", seen.look(declared)).unknown
    seen.clusters["east"].configs_unreadable = Unknown("configs of orders", "no answer")
    found = explain(declared, "east/orders", seen.look(declared))
    assert found.unknown == (seen.clusters["east"].configs_unreadable,)
    assert found.exit_code is ExitCode.ERROR
