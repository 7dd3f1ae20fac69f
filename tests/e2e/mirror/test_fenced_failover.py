"""A failover with a fence on secure clusters: real rules, a real producer; the failback takes back what was made."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_mirror.lane.run import batch_path
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.model.environment.topology import Principal
from reconciler.model.principals import AclBinding
from reconciler.replication.names import STATUS_TOPIC
from reconciler.resources.acls.derive_from_flows import denial
from tests.support.access.acls import rules
from tests.support.access.role_users import kafka_filter, kafka_rule
from tests.support.clusters import CreateTopic, real_cluster
from tests.support.commands import Ended, Write
from tests.support.lanes.lane_runs import Flow, fill
from tests.support.lanes.truth import map_topic

RECORDS = 40
READ = 25


def environment(secure: Sandbox, flow: Flow, monkeypatch: pytest.MonkeyPatch) -> str:
    lines = ["clusters:"]
    for name, handle in secure.clusters.items():
        prefix = name.upper()
        monkeypatch.setenv(f"{prefix}_CA", str(handle.ca))
        lines += [
            f"  {name}:",
            f"    bootstrap_servers: [{handle.bootstrap_servers}]",
            f"    cluster_id: {handle.cluster_id}",
            "    client: {security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, "
            f'ssl.ca.location: "${{env:{prefix}_CA}}"}}',
            "    principals:",
        ]
        for who in ("plan", "apply", "mirror"):
            monkeypatch.setenv(f"{prefix}_{who.upper()}", handle.passwords[who])
            lines.append(f'      {who}: {{sasl.username: {who}, sasl.password: "${{env:{prefix}_{who.upper()}}}"}}')
    groups = f"groups: {{include: ['{flow.topic}-.*']}}"
    lines.append(f"flows: {{{flow.topic}: {{source: east, target: west, topics: [{flow.topic}], {groups}}}}}")
    lines.append(f"mirrors: {{there: {{flows: [{flow.topic}]}}}}")
    return "\n".join(lines) + "\n"


def wrote(east: ClusterHandle, topic: str) -> bool:
    """As an application, one record."""
    failed: list[KafkaError] = []
    producer = Producer({**east.client("user"), "log_level": 0, "message.timeout.ms": 10_000})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: failed.append(error) if error else None)
    producer.flush(15)
    assert all(error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED for error in failed), failed
    return not failed


def until_wrote(east: ClusterHandle, topic: str, *, wanted: bool) -> None:
    """A broker knows a rule a moment after it was made."""
    until = time.monotonic() + 60
    while wrote(east, topic) is not wanted:
        assert time.monotonic() < until
        time.sleep(0.2)


def group_at(cluster: ClusterHandle, group: str, topic: str) -> int:
    consumer = Consumer({**cluster.super_client(), "group.id": group, "log_level": 0})
    (at,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(at.offset)


def rules_of(east: ClusterHandle, topic: str) -> set[AclBinding]:
    with KafkaCluster(real_cluster(east, "apply"), Principal.APPLY, topic) as cluster:
        acls = cluster.read_access().acls
    assert isinstance(acls, frozenset)
    return {acl for acl in acls if acl.name == topic}


def report(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.words
    told: dict[str, Any] = json.loads(ended.out)
    return told


def results(ended: Ended) -> dict[str, str]:
    return {step["name"]: step["result"] for step in report(ended)["steps"]}


@pytest.mark.long
def test_producers_are_kept_off_the_old_source_until_the_failback(
    cli: Callable[..., Ended],
    secure: Sandbox,
    unique: str,
    create_topic: CreateTopic,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    east, west, group = secure["east"], secure["west"], f"{unique}-billing"
    flow = Flow(east, west, unique)
    create_topic(east, unique)
    create_topic(west, flow.remote)
    map_topic(west)
    with contextlib.suppress(KafkaException):  # another test has made it
        create_topic(west, STATUS_TOPIC, cleanup_policy="compact")
    fill(east, unique, [(b"%d" % number, b"v", (), -1) for number in range(RECORDS)])
    flow.run(batch_path, flow.at_end())
    consumer = Consumer({**east.super_client(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(unique, 0, READ)], asynchronous=False)
    consumer.close()
    stood = rules(f"deny User:{unique}-stranger write topic {unique}", f"allow User:user write topic {unique}")
    admin = AdminClient(east.super_client())
    for made in admin.create_acls([kafka_rule(each) for each in stood]).values():
        made.result(30)
    env = write(environment(secure, flow, monkeypatch), unique)
    try:
        until_wrote(east, unique, wanted=True)
        flow.run(batch_path, flow.at_end())
        away = cli("failover", env, unique, "--unplanned", "--fence", "--yes", "--format", "json")
        assert results(away)["fence"] == "done"
        assert group_at(west, group, flow.remote) == READ
        until_wrote(east, unique, wanted=False)
        assert rules_of(east, unique) == {*stood, denial(unique)}
        again = cli("failover", env, unique, "--unplanned", "--fence", "--yes", "--format", "json")
        assert results(again)["fence"] == "already"

        back = cli("failback", env, unique, "--yes", "--format", "json")
        assert results(back)["unfence"] == "done"
        until_wrote(east, unique, wanted=True)
        assert rules_of(east, unique) == stood, "what was there before stays"
        assert group_at(east, group, unique) == READ
    finally:
        for gone in admin.delete_acls([kafka_filter(each) for each in (*stood, denial(unique))]).values():
            gone.result(30)
