"""Fingerprints change with what the job reads and with nothing else."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.engine.plan.file import topology_digest
from reconciler.environment.load import load
from reconciler.errors import Where
from reconciler.model.environment.flow_settings import Carry, ConfigSync, Delivery, Groups, Isolation, OffsetsKept
from reconciler.model.environment.topology import Cluster, Flow, Mirror, Principal, TopicDefaults, Topology, by_name
from reconciler.model.schemas import schema as schema_of
from reconciler.replication.handover import (
    ChannelSettings,
    Deployment,
    ExecutorPython,
    HandoverError,
    Naming,
    Start,
    fingerprint,
)
from reconciler.replication.handover_reader import parse
from reconciler.resources.mirrors.handover import explain_difference, flow_handover, handovers, mirror_handover
from tests.support.builders import cluster, flow, topology

SECRET = {"sasl.password": "${env:MIRROR_PASSWORD}"}
EAST = cluster("east", bootstrap_servers=("e1:1", "e2:1"), client={"security.protocol": "SASL_SSL", **SECRET})
FLOW = flow("east", "west", "orders", "pay.*", exclude_topics=("x", "y"))
MIRROR = Mirror("west", ("east-to-west",))


def built(*, east: Cluster = EAST, one: Flow = FLOW, mirror: Mirror = MIRROR) -> Topology:
    return topology(east, cluster("west"), one, mirror)


def of_flow(wished: Topology) -> str:
    return str(flow_handover(wished, wished.flows["east-to-west"])["fingerprint"])


def of_mirror(wished: Topology) -> str:
    return str(mirror_handover(wished, wished.mirrors["west"])["fingerprint"])


READ_BY_THE_JOB: dict[str, dict[str, Any]] = {
    "topics": {"one": replace(FLOW, topics=("orders",))},
    "exclude_topics": {"one": replace(FLOW, exclude_topics=("x",))},
    "naming policy": {"one": replace(FLOW, naming=Naming("identity"))},
    "naming separator": {"one": replace(FLOW, naming=Naming("default", "-"))},
    "delivery": {"one": replace(FLOW, delivery=Delivery.AT_LEAST_ONCE)},
    "isolation": {"one": replace(FLOW, isolation=Isolation.READ_UNCOMMITTED)},
    "offsets": {"one": replace(FLOW, offsets=OffsetsKept.SAME)},
    "filler_limit": {"one": replace(FLOW, filler_limit=7)},
    "start kind": {"one": replace(FLOW, start=Start("latest"))},
    "start timestamp": {"one": replace(FLOW, start=Start("timestamp", 5))},
    "lanes": {"one": replace(FLOW, lanes=3)},
    "groups that are synced": {"one": replace(FLOW, groups=Groups(sync_offsets=True))},
    "address": {"east": replace(EAST, bootstrap_servers=("e1:1",))},
    "client": {"east": replace(EAST, client={"security.protocol": "SSL"})},
    "mirror principal": {"east": replace(EAST, principals={Principal.MIRROR: {"sasl.username": "m"}})},
}
NOT_READ: dict[str, dict[str, Any]] = {
    "labels": {"one": replace(FLOW, labels={"team": "a"})},
    "replication factor": {"one": replace(FLOW, replication_factor=3)},
    "config sync": {"one": replace(FLOW, configs=ConfigSync(False, ("a",), "source"))},
    "groups": {"one": replace(FLOW, groups=Groups(("a",), ("b",), False, 1, True))},
    "place in the file": {"one": replace(FLOW, where=Where("other.yaml", 7, 1))},
    "region": {"east": replace(EAST, region="eu")},
    "cluster defaults": {"east": replace(EAST, defaults=TopicDefaults(3, 3, {"retention.ms": "1"}))},
    "plan principal": {"east": replace(EAST, principals={Principal.PLAN: {"sasl.username": "p"}})},
}
READ_BY_THE_MIRROR_ONLY: dict[str, Mirror] = {
    "parallelism": replace(MIRROR, parallelism=3),
    "master": replace(MIRROR, master="spark://host:7077"),
    "spark_conf": replace(MIRROR, spark_conf={"spark.executor.memory": "1g"}),
    "refresh interval": replace(MIRROR, refresh_interval_ms=1),
    "status interval": replace(MIRROR, status_interval_ms=1),
    "metrics port": replace(MIRROR, metrics_port=9404),
    "executors' memory": replace(MIRROR, deployment=Deployment(memory="2g")),
    "executors' Python": replace(MIRROR, deployment=Deployment(python=ExecutorPython("/a.tar.gz"))),
    "channel": replace(MIRROR, channel=ChannelSettings(advertised_address="driver.example.net")),
}


@pytest.mark.parametrize("changed", READ_BY_THE_JOB.values(), ids=READ_BY_THE_JOB.keys())
def test_what_the_job_reads_changes_both_fingerprints(changed: dict[str, Any]) -> None:
    assert of_flow(built(**changed)) != of_flow(built())
    assert of_mirror(built(**changed)) != of_mirror(built())


@pytest.mark.parametrize("changed", NOT_READ.values(), ids=NOT_READ.keys())
def test_what_the_job_does_not_read_changes_none(changed: dict[str, Any]) -> None:
    assert mirror_handover(built(**changed), MIRROR) == mirror_handover(built(), MIRROR)


@pytest.mark.parametrize("mirror", READ_BY_THE_MIRROR_ONLY.values(), ids=READ_BY_THE_MIRROR_ONLY.keys())
def test_what_only_the_application_reads_leaves_flows_alone(mirror: Mirror) -> None:
    assert of_flow(built(mirror=mirror)) == of_flow(built())
    assert of_mirror(built(mirror=mirror)) != of_mirror(built())


@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(FLOW.topics)))
def test_order_and_duplicates_never_matter(shuffle: random.Random, again: list[str]) -> None:
    def mixed(items: Any) -> Any:
        found = list(items)
        shuffle.shuffle(found)
        return tuple(found)

    east = replace(EAST, bootstrap_servers=mixed(EAST.bootstrap_servers * 2), client=dict(mixed(EAST.client.items())))
    one = replace(FLOW, topics=mixed((*FLOW.topics, *again)), exclude_topics=mixed(FLOW.exclude_topics * 2))
    wished = replace(built(east=east, one=one), clusters=by_name(mixed((east, cluster("west")))))
    assert of_mirror(wished) == of_mirror(built())


def test_where_runbooks_are_read_is_handed_over_and_restarts_no_mirror() -> None:
    before = built()
    after = replace(before, rules=replace(before.rules, docs_url="https://docs.example.net/r"))
    [old], [new] = ([json.loads(text) for text in handovers(each).values()] for each in (before, after))
    assert new == old | {"docs_url": "https://docs.example.net/r"}, "the same fingerprint, too"
    assert explain_difference(old, new) == ()
    assert parse(json.dumps(new)).docs_url == "https://docs.example.net/r"
    jsonschema.validate(new, schema_of("mirror"))


def test_which_cluster_is_meant_is_handed_over_and_restarts_no_mirror() -> None:
    [old], [new] = (
        [json.loads(text) for text in handovers(each).values()]
        for each in (built(), built(east=replace(EAST, cluster_id="abc")))
    )
    assert old["flows"][0]["source"] | {"cluster_id": "abc"} == new["flows"][0]["source"]
    assert (new["fingerprint"], new["flows"][0]["fingerprint"]) == (old["fingerprint"], old["flows"][0]["fingerprint"])
    assert fingerprint({key: value for key, value in new.items() if key != "fingerprint"}) == fingerprint(
        {key: value for key, value in old.items() if key != "fingerprint"}
    ), "a host works it out of the record"
    assert explain_difference(old, new) == ()
    assert parse(json.dumps(new)).flows[0].source.cluster_id == "abc"
    jsonschema.validate(new, schema_of("mirror"))


def test_no_metrics_is_as_if_metrics_had_never_been_known() -> None:
    """Otherwise the upgrade to a job that can serve them would restart every mirror."""
    assert "metrics" not in handovers(built())["west"]
    assert of_mirror(built(mirror=replace(MIRROR, metrics_host="0.0.0.0"))) == of_mirror(built())
    open_to_all = replace(MIRROR, metrics_port=9404, metrics_host="0.0.0.0")
    assert of_mirror(built(mirror=open_to_all)) != of_mirror(built(mirror=replace(MIRROR, metrics_port=9404)))


def test_a_deployment_that_says_nothing_is_as_if_none_had_ever_been_known() -> None:
    """The digests are those of the release before: an upgrade restarts no mirror."""
    assert "deployment" not in handovers(built())["west"]
    spelled = replace(MIRROR, deployment=Deployment("client"), verify_conf={"spark.cores.max": "1"})
    assert of_mirror(built(mirror=spelled)) == of_mirror(built())
    cluster_mirror = replace(MIRROR, master="spark://h:7077", spark_conf={"spark.executor.memory": "1g"})
    assert (of_mirror(built()), of_mirror(built(mirror=cluster_mirror))) == ("fa51cf11354b77fb", "fc46de045bdf51f2")


def test_two_flows_in_any_order() -> None:
    first, second = flow("east", "west", name="a"), flow("north", "west", name="b")
    forth = topology(first, second, Mirror("west", ("a", "b")))
    back = topology(second, first, Mirror("west", ("b", "a")))
    assert of_mirror(forth) == of_mirror(back)


def test_hand_over_follows_its_schema_and_keeps_references() -> None:
    mirror_schema = schema_of("mirror")
    deployment = Deployment(executors=2, cores=2, memory="1g", python=ExecutorPython("/a.tgz", "bin/python"))
    text = handovers(built(mirror=replace(MIRROR, metrics_port=9404, deployment=deployment)))["west"]
    jsonschema.Draft202012Validator(mirror_schema).validate(json.loads(text))
    assert "${env:MIRROR_PASSWORD}" in text


@pytest.mark.parametrize("word", ["default", "identity"])
def test_the_word_for_an_older_naming_policy_restarts_no_job_that_was_given_its_path(word: str) -> None:
    clusters = "clusters: {east: {bootstrap_servers: [e:9092]}, west: {bootstrap_servers: [w:9092]}}"
    text = "{clusters}\nflows: {{back: {{source: east, target: west, topics: [a], naming: {{policy: '{policy}'}}}}}}\n"
    policies = (f"{word}-before-4.0", f"replication.policy:{word.capitalize()}ReplicationPolicyTo39")
    new, old = (
        handovers(load({"a.yaml": text.format(clusters=clusters, policy=policy)}, "test")) for policy in policies
    )
    assert new == old
    assert new != {}


def test_explanation_names_flow_field_and_both_values() -> None:
    one = replace(FLOW, lanes=4, topics=("orders",))
    before, after = mirror_handover(built(), MIRROR), mirror_handover(built(one=one), MIRROR)
    assert explain_difference(before, after) == (
        "flow east-to-west: lanes 2 -> 4",
        'flow east-to-west: topics ["orders", "pay.*"] -> ["orders"]',
    )
    assert explain_difference(before, before) == ()


def test_explanation_of_flows_that_come_and_go() -> None:
    old, new = topology(flow("a", "west", name="x")), topology(flow("a", "west", name="y"))
    lines = explain_difference(mirror_handover(old, old.mirrors["west"]), mirror_handover(new, new.mirrors["west"]))
    assert lines == ("flow y: added", "flow x: removed")


def test_explanation_hides_a_literal_secret() -> None:
    east = replace(EAST, client={**EAST.client, "sasl.password": "hunter2"})
    lines = explain_difference(mirror_handover(built(), MIRROR), mirror_handover(built(east=east), MIRROR))
    assert "hunter2" not in "".join(lines)
    assert lines == ('flow east-to-west: source.client.sasl.password "${env:MIRROR_PASSWORD}" -> (hidden)',)


def test_translated_offsets_leave_the_hand_over_and_the_digest_as_they_were() -> None:
    """A release that knows of them restarts no job and makes no saved plan stale: worked out by the release before."""
    one = flow("east", "west", "orders", "pay.*", groups=Groups(sync_offsets=True))
    wished = topology(cluster("east"), cluster("west"), one, Mirror("west", ("east-to-west",)))
    assert of_flow(wished) == "6140a0af14f70520"
    assert of_mirror(wished) == "60a481bbbff0ec98"
    assert topology_digest(wished) == "21e8bc81f98d1ec032943f665e8d3b4bca450d469e92d4889ea118274701d70e"


def test_a_job_reads_that_offsets_are_kept() -> None:
    wished = built(one=replace(FLOW, offsets=OffsetsKept.SAME, filler_limit=9, groups=Groups(both_ways=True)))
    (text,) = handovers(wished).values()
    (read,) = parse(text).flows
    assert (read.keeps_offsets, read.filler_limit) == (True, 9)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"provenance": Carry.LOCAL}, "provenance"),
        ({"delivery": Delivery.AT_LEAST_ONCE}, "at_least_once"),
        ({"isolation": Isolation.READ_UNCOMMITTED}, "read_uncommitted"),
    ],
)
def test_a_job_refuses_what_moves_offsets(changed: dict[str, Any], said: str) -> None:
    (text,) = handovers(built(one=replace(FLOW, offsets=OffsetsKept.SAME, **changed))).values()
    with pytest.raises(HandoverError, match=said):
        parse(text)


def test_a_service_that_refuses_compressed_records_reaches_the_job_and_none_changes_nothing() -> None:
    plain = built()
    assert "uncompressed" not in json.dumps(mirror_handover(plain, MIRROR))
    hubs = topology(EAST, replace(cluster("west"), service="event-hubs"), FLOW, MIRROR)
    handover = mirror_handover(hubs, MIRROR)
    jsonschema.validate(handover, schema_of("mirror"))
    settings = parse(json.dumps(handover))
    assert [settings.flows[0].target.uncompressed, settings.flows[0].source.uncompressed] == [True, False]
    assert settings.status.cluster.uncompressed
    assert settings.flows[0].target.request_bytes == 1_000_000


def test_a_prefix_of_own_topics_reaches_the_job_and_none_changes_nothing() -> None:
    plain = built()
    assert "topic_prefix" not in json.dumps(mirror_handover(plain, MIRROR))
    chosen = topology(EAST, replace(cluster("west"), topic_prefix="team-a."), FLOW, MIRROR)
    handover = mirror_handover(chosen, MIRROR)
    jsonschema.validate(handover, schema_of("mirror"))
    settings = parse(json.dumps(handover))
    assert settings.status.topic == "team-a.__mirror_status"
    assert [settings.flows[0].target.topic_prefix, settings.flows[0].source.topic_prefix] == ["team-a.", ""]
    assert of_flow(chosen) != of_flow(plain)
