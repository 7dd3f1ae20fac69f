"""``mirror seek`` on real brokers: shows positions, moves them where Kafka's own tool would not, asks first."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from reconciler_sandbox.handles import Sandbox

from tests.support.clusters import CreateTopic
from tests.support.commands import Ended, two_clusters

Cli = Callable[..., Ended]
METADATA = json.dumps({"i": "", "e": 3, "c": 5, "a": "local-1"})
OF_A_DELETED_TOPIC = json.dumps({"i": "gone", "e": 3, "c": 5, "a": "local-1"})


@pytest.fixture
def env(write: Callable[..., Path], plain: Sandbox, unique: str, create_topic: CreateTopic) -> Path:
    """Flow ``unique`` of a topic with 20 records, whose remote topic is empty; partition 0 stands at 7."""
    east, west = plain["east"], plain["west"]
    create_topic(east, unique, partitions=2)
    create_topic(west, f"east.{unique}", partitions=2)
    producer = Producer(east.super_client())
    for number in range(20):
        producer.produce(unique, str(number), partition=0)
    producer.flush(20)
    commit(plain, unique, unique, METADATA)
    flows = f"flows:\n  {unique}: {{source: east, target: west, topics: [{unique}]}}\n"
    return write(two_clusters(plain) + flows, unique)


def commit(plain: Sandbox, flow: str, topic: str, metadata: str) -> None:
    consumer = Consumer({**plain["west"].super_client(), "group.id": f"mirror.{flow}"})
    consumer.commit(offsets=[TopicPartition(f"east.{topic}", 0, 7, metadata)], asynchronous=False)
    consumer.close()


def rows(ended: Ended) -> list[list[str]]:
    return [line.split() for line in ended.out.splitlines()[1:]]


def test_a_position_is_shown_and_moved_beyond_the_end_of_the_target(cli: Cli, env: Path, unique: str) -> None:
    seek = ("mirror", "seek", env, unique, "--topic", unique)
    assert rows(cli(*seek)) == [["0", "7", "0", "20", "13"], ["1", "none", "0", "0", "unknown"]]
    refused = cli(*seek, "--partition", 0, "--to", 15)
    assert (refused.code, "standard input is not a terminal" in refused.words) == (1, True)
    moved = cli(*seek, "--partition", 0, "--to", 15, "--yes")
    assert (moved.code, f"{unique}-0 continues at source offset 15" in moved.words) == (0, True)
    assert rows(cli(*seek, "--partition", 0)) == [["0", "15", "0", "20", "5"]]
    assert cli(*seek, "--to", "latest", "--yes").code == 0
    assert rows(cli(*seek)) == [["0", "20", "0", "20", "0"], ["1", "0", "0", "0", "0"]]


def test_what_cannot_be_is_reported_with_what_is(cli: Cli, env: Path, unique: str) -> None:
    beyond = cli("mirror", "seek", env, unique, "--topic", unique, "--partition", 0, "--to", 21, "--yes")
    assert (beyond.code, "partition 0 has 0 to 20" in beyond.words) == (1, True)
    other = cli("mirror", "seek", env, unique, "--topic", f"{unique}x", "--to", "latest", "--yes")
    assert (other.code, f"Perhaps you mean {unique}" in other.words) == (1, True)
    partition = cli("mirror", "seek", env, unique, "--topic", unique, "--partition", 2)
    assert (partition.code, "0 to 1" in partition.words) == (1, True)


def test_a_position_of_a_deleted_topic_means_nothing_in_the_one_of_its_name(
    cli: Cli, env: Path, plain: Sandbox, unique: str
) -> None:
    """Neither is it counted as copied, nor is it taken over from another flow."""
    seek = ("mirror", "seek", env, unique, "--topic", unique, "--partition", 0)
    commit(plain, unique, unique, OF_A_DELETED_TOPIC)
    assert rows(cli(*seek)) == [["0", *["7,", "of", "a", "deleted", "topic"], "0", "20", "unknown"]]
    [place] = json.loads(cli(*seek, "--format", "json").out)["partitions"]
    assert (place["former"], place["position"], place["behind"]) == (7, None, None)
    commit(plain, f"{unique}x", unique, OF_A_DELETED_TOPIC)
    refused = cli(*seek, "--from-flow", f"{unique}x", "--yes")
    assert (refused.code, "of a deleted topic" in refused.words, "earliest" in refused.words) == (1, True, True)
    asked = cli(*seek, "--to", 5)
    assert "passed over and never copied: 5 offsets that the source has" in asked.words
    assert "1 partition has a position in a deleted topic of the same name" in asked.words
