"""Plans and applies beside remote topics that somebody else filled: nothing is copied a second time. Real brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.mirrormaker_records import HEARTBEATS, Heartbeat
from reconciler.replication.names import STATUS_TOPIC
from reconciler.replication.offsets.position_metadata import written
from tests.support.clusters import CreateTopic
from tests.support.commands import Ended, two_clusters

Cli = Callable[..., Ended]
Write = Callable[..., Path]


def filled(cluster: ClusterHandle, topic: str, count: int) -> None:
    producer = Producer(cluster.super_client())
    for number in range(count):
        producer.produce(topic, str(number), partition=number % 2)
    assert producer.flush(30) == 0


def end(cluster: ClusterHandle, topic: str) -> int:
    admin, asked = AdminClient(cluster.super_client()), [TopicPartition(topic, number) for number in range(2)]
    answers = admin.list_offsets({each: OffsetSpec.latest() for each in asked}, request_timeout=30)
    return sum(answer.result(30).offset for answer in answers.values())


def positioned(cluster: ClusterHandle, group: str, topic: str, fields: Mapping[str, object]) -> None:
    """As a lane commits: with its proof."""
    consumer = Consumer({**cluster.super_client(), "group.id": group})
    at = [TopicPartition(topic, number, 5, written((topic, number), 5, fields)) for number in range(2)]
    consumer.commit(offsets=at, asynchronous=False)
    consumer.close()


@pytest.fixture
def beside(plain: Sandbox, unique: str, create_topic: CreateTopic) -> str:
    """A source topic with 40 records, and a remote topic in which a foreign producer has written all of them."""
    east, west = plain["east"], plain["west"]
    create_topic(east, unique, partitions=2)
    create_topic(west, f"east.{unique}", partitions=2)
    filled(east, unique, 40)
    filled(west, f"east.{unique}", 40)
    return unique


def environment(plain: Sandbox, topic: str, more: str = "", flow: str = "") -> str:
    return two_clusters(plain) + f"flows:\n  {flow or topic}: {{source: east, target: west, topics: [{topic}]{more}}}\n"


def test_apply_is_blocked_until_the_user_says_where_to_begin(
    cli: Cli, write: Write, plain: Sandbox, beside: str
) -> None:
    env = write(environment(plain, beside), beside)
    planned = cli("plan", env)
    assert planned.code == 3, planned.words
    assert "remote-topic-not-empty" in planned.out
    assert f"east.{beside} 40" in planned.out
    assert "to copy: at most 40 records, again, of 1 topic over 1 flow" in planned.out
    refused = json.loads(cli("plan", env, "--format", "json").out)["refused"]
    [entry] = [one for one in refused if one["reason"]["code"] == "remote-topic-not-empty"]
    assert "start: latest" in entry["todo"]
    applied = cli("apply", env, "--yes")
    assert applied.code == 3, applied.words
    assert end(plain["west"], f"east.{beside}") == 40
    for start, sentence in (("latest", ""), ("again", "to copy: at most 40 records, again"), ("earliest", None)):
        planned = cli("plan", write(environment(plain, beside, f", start: {start}"), beside))
        assert planned.code == (3 if sentence is None else 2), planned.words
        assert sentence is None or sentence in planned.out


def test_a_transactional_producer_is_named(
    cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, west = plain["east"], plain["west"]
    create_topic(east, unique)
    create_topic(west, f"east.{unique}")
    producer = Producer({**west.super_client(), "transactional.id": f"billing-{unique}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(f"east.{unique}", "1")
    producer.commit_transaction(30)
    planned = cli("plan", write(environment(plain, unique), unique), "--format", "json")
    [entry] = [one for one in json.loads(planned.out)["refused"] if one["reason"]["code"] == "remote-topic-not-empty"]
    assert f"Written by transactional id billing-{unique}, last at " in entry["reason"]["text"], entry


def test_init_says_so_before_anything_is_applied(cli: Cli, plain: Sandbox, beside: str, tmp_path: Path) -> None:
    servers = [f"--cluster={name}={handle.bootstrap_servers}" for name, handle in plain.clusters.items()]
    made = cli("init", tmp_path / beside, *servers, "--security-protocol=PLAINTEXT", f"--flow=east:west={beside}")
    assert made.code == 0, made.words
    assert "remote-topic-not-empty" in made.out
    assert f"east.{beside} 40" in made.out
    assert "reconciler mirror import-positions" in made.out


def test_positions_that_were_deleted_or_of_another_environment_block(
    cli: Cli, write: Write, plain: Sandbox, beside: str, create_topic: CreateTopic
) -> None:
    west, remote = plain["west"], f"east.{beside}"
    with suppress(KafkaException):  # another test made it: where it is missing, no job of the flow could be seen
        create_topic(west, STATUS_TOPIC)
    env = write(environment(plain, beside), beside)
    owner = [f"{beside}-other", plain["east"].cluster_id]
    positioned(west, f"mirror.{beside}", remote, {"i": "", "c": 3, "a": "local-7", "h": 9, "w": owner})
    planned = cli("plan", env)
    assert planned.code == 3, planned.words
    assert "flow-not-ours" in planned.out
    assert f"belongs to environment {beside}-other" in planned.out
    moved = f"moved: [{{environment: {beside}, from: {beside}-other}}]\n"
    assert moved.strip() in planned.out
    planned = cli("plan", write(environment(plain, beside) + moved, beside))
    assert planned.code == 2, planned.words
    planned = cli("plan", write(environment(plain, beside, flow=f"{beside}-new"), beside))
    assert planned.code == 3, planned.words
    assert "remote-topic-not-ours" in planned.out
    assert f"group mirror.{beside} holds its positions (application local-7)" in planned.out


def test_doctor_and_validate_say_so_too(cli: Cli, write: Write, plain: Sandbox, beside: str) -> None:
    env = write(environment(plain, beside), beside)
    assert "[remote-topic-not-empty]" in cli("validate", env, "--live").out
    said = cli("doctor", env)
    assert said.code == 1, said.words
    assert "remote-topic-not-empty" in said.out
    assert f"import-positions {env} {beside} --write" in said.out


def test_heartbeats_are_not_written_into_a_topic_of_an_application(
    cli: Cli, write: Write, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    """MirrorMaker 2's own are no reason. Nothing else on these clusters has heartbeats, so the topic goes again."""
    east, beat = plain["east"], Heartbeat("west", "east", 1).record()
    env = write(environment(plain, unique, ", mirrormaker_topics: {heartbeats: true}"), unique)
    create_topic(east, HEARTBEATS)
    try:
        producer = Producer(east.super_client())
        producer.produce(HEARTBEATS, beat[1], beat[0])
        assert producer.flush(30) == 0
        assert "heartbeats-not-ours" not in cli("plan", env).out
        producer.produce(HEARTBEATS, b"device 7 is alive")
        assert producer.flush(30) == 0
        planned = cli("plan", env)
        assert planned.code == 3, planned.words
        assert "heartbeats-not-ours" in planned.out
        assert f"flows.{unique}.mirrormaker_topics.heartbeats: false" in planned.out
        assert "[heartbeats-not-ours]" in cli("validate", env, "--live").out
        assert cli("plan", write(environment(plain, unique), unique)).code == 2
    finally:
        admin = AdminClient(east.super_client())
        admin.delete_topics([HEARTBEATS], request_timeout=30)[HEARTBEATS].result(30)
