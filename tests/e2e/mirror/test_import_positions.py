"""``mirror import-positions`` on real brokers: what it finds, what it leaves aside, and when it does not write."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from reconciler.backends.clusters.connect_offsets import Pair, read_records
from reconciler.backends.clusters.groups import Side
from reconciler.operations import import_positions as inheritance
from reconciler.sandbox.handles import ClusterHandle, Sandbox
from tests.support.clusters import CreateTopic
from tests.support.commands import Ended, two_clusters
from tests.support.paths import SCHEMAS

Cli = Callable[..., Ended]
Stored = tuple[int, int | None]
SCHEMA = json.loads((SCHEMAS / "reports" / "imported-positions.schema.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inheritance, "LOOK_AGAIN_S", 0.0)


@pytest.fixture
def env(write: Callable[..., Path], plain: Sandbox, unique: str, create_topic: CreateTopic) -> Path:
    """Flow ``unique`` of a topic with 20 records in partition 0 and 10 in partition 1; its remote topic is there."""
    east, west = plain["east"], plain["west"]
    create_topic(east, unique, partitions=2)
    create_topic(west, f"east.{unique}", partitions=2)
    producer = Producer(east.super_client())
    for number in range(30):
        producer.produce(unique, str(number), partition=int(number >= 20))
    assert producer.flush(30) == 0
    create_topic(west, f"{unique}connectoffsets", partitions=3, cleanup_policy="compact")
    flows = f"flows:\n  {unique}: {{source: east, target: west, topics: [{unique}]}} # ours\n"
    return write(two_clusters(plain) + flows, unique)


def store(west: ClusterHandle, topic: str, *offsets: Stored, commit: bool = True) -> None:
    """As an exactly-once connector does: in a transaction."""
    producer = Producer({**west.super_client(), "transactional.id": f"connect-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition, offset in offsets:
        key = json.dumps(["mm2", {"cluster": "east", "partition": partition, "topic": topic}])
        value = None if offset is None else json.dumps({"offset": offset})
        producer.produce(f"{topic}connectoffsets", key=key, value=value)
    producer.flush(30)
    (producer.commit_transaction if commit else producer.abort_transaction)(30)


def words(env: Path, flow: str) -> tuple[object, ...]:
    place = ("--offsets-topic", f"{flow}connectoffsets", "--connector", "mm2")
    return ("mirror", "import-positions", env, flow, *place)


def test_committed_positions_are_shown_then_written_and_replaced(
    cli: Cli, env: Path, plain: Sandbox, unique: str
) -> None:
    file = env / "topology.yaml"
    before = file.read_text()
    store(plain["west"], unique, (0, 3), (1, 9), (5, 1))
    store(plain["west"], unique, (0, 11))
    store(plain["west"], unique, (0, 15), commit=False)
    shown = cli(*words(env, unique))
    start = f"start: {{offsets: {{{unique}: {{0: 12, 1: 10}}}}}}"
    assert (shown.code, start in shown.out) == (0, True)
    assert f"{unique}-5: is at 2, and the source has 2 partitions" in shown.out
    [row] = [line.split() for line in shown.out.splitlines() if f"west/east.{unique}" in line]
    assert row == [unique, "2", "2", "8", f"west/east.{unique}"]
    assert file.read_text() == before

    assert cli(*words(env, unique), "--write").code == 0
    assert file.read_text() == before.replace("{source: east", f"{{{start}, source: east")
    assert cli("validate", env).code == 0

    store(plain["west"], unique, (0, 12), (1, None))
    again = cli(*words(env, unique), "--write", "--format", "json")
    document = json.loads(again.out)
    jsonschema.validate(document, SCHEMA)
    assert document["flows"][0]["topics"][0]["positions"] == {"0": 13}
    assert document["flows"][0]["topics"][0]["without_position"] == [1]
    assert "{0: 13, 1: 10}" in file.read_text(), "an offset that stands there stays"


def test_positions_of_the_flows_own_are_not_written_over(cli: Cli, env: Path, plain: Sandbox, unique: str) -> None:
    store(plain["west"], unique, (0, 3), (1, 4))
    consumer = Consumer({**plain["west"].super_client(), "group.id": f"mirror.{unique}"})
    consumer.commit(offsets=[TopicPartition(f"east.{unique}", 0, 7)], asynchronous=False)
    shown = cli(*words(env, unique))
    assert f"{unique}-0: the flow has a position of its own, 7" in shown.out
    assert f"{{{unique}: {{1: 5}}}}" in shown.out
    consumer.commit(offsets=[TopicPartition(f"east.{unique}", 1, 7)], asynchronous=False)
    consumer.close()
    before = (env / "topology.yaml").read_text()
    refused = cli(*words(env, unique), "--write")
    assert (refused.code, "no position to take over" in refused.err) == (1, True)
    assert (env / "topology.yaml").read_text() == before


def test_a_mirrormaker_that_still_copies_is_not_taken_over(
    cli: Cli, env: Path, plain: Sandbox, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(plain["west"], unique, (0, 3), (1, 4))

    looks: list[str] = []

    def moving(side: Side, topic: str) -> Sequence[Pair]:
        if looks:
            store(plain["west"], unique, (0, 5))
        looks.append(topic)
        return read_records(side, topic)

    monkeypatch.setattr("reconciler.operations.import_positions.read_records", moving)
    before = (env / "topology.yaml").read_text()
    refused = cli(*words(env, unique), "--write")
    assert (refused.code, "MirrorMaker 2 still copies: 1 position moved" in refused.err) == (3, True)
    assert (env / "topology.yaml").read_text() == before


def test_a_topic_that_is_not_there_is_told_with_those_that_look_like_it(cli: Cli, env: Path, unique: str) -> None:
    ended = cli("mirror", "import-positions", env, unique, "--alias", "gone")
    assert (ended.code, "west/mm2-offsets.gone.internal is not there" in ended.words) == (1, True)
    assert f"west/{unique}connectoffsets" in ended.words


def test_another_connector_has_nothing_to_write(cli: Cli, env: Path, plain: Sandbox, unique: str) -> None:
    store(plain["west"], unique, (0, 3))
    ended = cli(*words(env, unique)[:-1], "another", "--write")
    assert (ended.code, "connector mm2: 1 position of another connector than another" in ended.words) == (1, True)


def test_a_cluster_that_is_not_declared_is_told_with_those_that_are(cli: Cli, env: Path, unique: str) -> None:
    ended = cli("mirror", "import-positions", env, unique, "--on", "north")
    assert (ended.code, "--on names north" in ended.words, "Its clusters: east, west" in ended.words) == (1, True, True)


def test_a_flow_that_is_not_declared_is_told_with_those_that_are(cli: Cli, env: Path, unique: str) -> None:
    ended = cli("mirror", "import-positions", env, "none")
    assert (ended.code, f"Its flows: {unique}" in ended.words) == (1, True)
