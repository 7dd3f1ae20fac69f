"""Two environments with one flow's name and one alias for their sources, and topics that others filled: real jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_mirror.driver.takeover import WireTakeover
from reconciler_mirror.model.lane import PartitionSpec
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.environment.load import load
from reconciler.replication.handover_reader import parse
from reconciler.resources.mirrors.handover import handovers
from tests.support.clusters import CreateTopic
from tests.support.jobs.records import producer
from tests.support.jobs.verify_runs import reconciler, until

pytestmark = [pytest.mark.kafka("trio"), pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture
def environments(trio: Sandbox, unique: str, tmp_path: Path) -> Iterator[Mapping[str, Path]]:
    """``a`` mirrors east to west, ``b`` hub to west; both call their source ``source``, and the flow alike."""
    folders = {}
    for name, source in (("a", "east"), ("b", "hub")):
        folders[name] = tmp_path / f"{unique}{name}"
        folders[name].mkdir()
        text = "clusters:\n"
        for alias, handle in (("source", trio[source]), ("west", trio["west"])):
            servers = f"bootstrap_servers: [{handle.bootstrap_servers}], cluster_id: {handle.cluster_id}"
            text += f"  {alias}: {{{servers}, defaults: {{replication_factor: 1}}}}\n"
        flow = f"{{source: source, target: west, topics: ['{unique}.*'], replication_factor: 1}}"
        text += f"flows:\n  {unique}: {flow}\n"
        (folders[name] / "topology.yaml").write_text(text, encoding="utf-8")
    yield folders
    for folder in folders.values():
        reconciler("mirror", "stop", folder)


def write(cluster: ClusterHandle, topic: str, count: int) -> None:
    made = producer(cluster)
    for number in range(count):
        made.produce(topic, b"%d" % number)
    assert made.flush(60) == 0


def end(cluster: ClusterHandle, topic: str) -> int:
    admin, asked = AdminClient(cluster.super_client()), TopicPartition(topic, 0)
    return int(admin.list_offsets({asked: OffsetSpec.latest()}, request_timeout=60)[asked].result(60).offset)


def copied(cluster: ClusterHandle, topic: str, count: int) -> Callable[[], bool]:
    """Records and the markers of the transactions that brought them."""
    return lambda: end(cluster, topic) >= count


def mirror_of(env: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(reconciler("status", env, "--format", "json").out)["mirrors"]["west"]
    return found


def conditions(env: Path) -> Mapping[str, str]:
    flows = mirror_of(env)["flows"].values()
    return {str(one["code"]): str(one["text"]) for flow in flows for one in flow["conditions"]}


def test_neither_stops_the_other_and_who_does_is_named(
    environments: Mapping[str, Path], trio: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, hub, west = trio["east"], trio["hub"], trio["west"]
    topic, remote, late = f"{unique}x", f"source.{unique}x", f"{unique}late"
    a, b = environments["a"], environments["b"]
    for source in (east, hub):
        create_topic(source, topic)
        write(source, topic, 100)
    applied = reconciler("apply", a, "--yes")
    assert applied.code == 0, applied
    until("the records of a", copied(west, remote, 100), 120)

    refused = reconciler("apply", b, "--yes")
    assert refused.code == 3, refused
    assert "flow-not-ours" in refused.out + refused.err
    assert f"belongs to environment {a.name}" in refused.out + refused.err
    begun = reconciler("apply", b, "--yes", "--partial")  # its job is started, and leaves the flow alone itself
    assert begun.code in (0, 3, 4), begun
    until("the condition of b", lambda: "flow_not_ours" in conditions(b), 120)
    assert a.name in conditions(b)["flow_not_ours"]
    before = end(west, remote)
    write(east, topic, 30)
    until("more records of a", copied(west, remote, before + 30), 60)
    assert conditions(a) == {}

    create_topic(west, f"source.{late}")
    write(west, f"source.{late}", 10)  # somebody else's, before a's job sees the topic
    create_topic(east, late)
    write(east, late, 10)
    until("the condition of the later topic", lambda: "remote_topic_not_empty" in conditions(a), 60)
    assert end(west, f"source.{late}") == 10

    text = handovers(load({"t.yaml": (b / "topology.yaml").read_text("utf-8")}, b.name))["west"]
    admin = AdminClient(west.super_client())
    assert admin.list_topics(remote, timeout=30).topics[remote].error is None
    specs = [PartitionSpec(topic, 0, remote, "AAAAAAAAAAAAAAAAAAAAAQ")]
    taking = WireTakeover(parse(text).flows[0])  # as a release before, which asks for no owner
    taking.take("local-older", specs)
    taking.close()
    write(east, topic, 5)  # a lane looks who owns its flow when it commits
    until("a's end", lambda: mirror_of(a)["state"] == "failed", 90)
    assert "application local-older" in mirror_of(a)["detail"]
    planned = reconciler("plan", a)
    assert planned.code == 3, planned
    assert "remote-topic-not-empty" in planned.out, "of the later topic"
    assert "flow-not-ours" not in planned.out, "its positions name its topics"


def test_a_flow_without_topics_is_kept_from_another_environment(
    environments: Mapping[str, Path], trio: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, hub, west = trio["east"], trio["hub"], trio["west"]
    topic, a, b = f"{unique}x", environments["a"], environments["b"]
    applied = reconciler("apply", a, "--yes")
    assert applied.code == 0, applied
    refused = reconciler("apply", b, "--yes")
    assert refused.code == 3, refused
    assert f"belongs to environment {a.name}" in refused.out + refused.err

    begun = reconciler("apply", b, "--yes", "--partial")  # its job is started, and leaves the flow alone itself
    assert begun.code in (0, 3, 4), begun
    until("the condition of b", lambda: "flow_not_ours" in conditions(b), 120)
    for source in (east, hub):
        create_topic(source, topic)
        write(source, topic, 100)
    assert reconciler("apply", a, "--yes").code == 0
    until("the records of a", copied(west, f"source.{topic}", 100), 120)
    assert mirror_of(a)["state"] == "running"
    assert conditions(a) == {}
    assert reconciler("plan", b).code == 3
