"""environments/active-active-same-name as a user runs it: applied, written to on both sides, proved, failed over and
back, stopped. Its topics get names of this run, because the clusters are shared.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.jobs.records import producer
from tests.support.jobs.verify_runs import reconciler, until
from tests.support.lanes.lane_runs import content
from tests.support.lanes.truth import placed
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.long]

NAME = "active-active-same-name"
Key = tuple[str, int]
GROUPS = {"clerk": 0.5, "late": 0.9, "done": 1.0}
"""Group -> how much of each partition it has read on one side."""


@pytest.fixture
def topics(unique: str) -> dict[str, int]:
    return {f"{unique}orders": 4, f"{unique}orders.returned": 2}


@pytest.fixture
def env(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Path]:
    """The example with the addresses of this run's clusters."""
    text = (ROOT / "environments" / NAME / "topology.yaml").read_text(encoding="utf-8")
    for name, address in (("east", "127.0.0.1:19092"), ("west", "127.0.0.1:29092")):
        text = text.replace(address, plain[name].bootstrap_servers)
    text = text.replace("orders", f"{unique}orders")
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "topology.yaml").write_text(text, encoding="utf-8")
    yield folder
    reconciler("mirror", "stop", folder)


def write(cluster: ClusterHandle, topics: dict[str, int], first: int, count: int) -> None:
    made = producer(cluster)
    for number in range(first, first + count):
        for topic, partitions in topics.items():
            made.produce(topic, f"{cluster.name} {number}".encode(), b"k%d" % (number % 13), number % partitions)
    assert made.flush(60) == 0


def values(cluster: ClusterHandle, topics: dict[str, int]) -> dict[str, Counter[bytes]]:
    return {
        topic: Counter(value or b"" for found in content(cluster, topic, count).values() for _, value, _, _ in found)
        for topic, count in topics.items()
    }


def test_both_sides_hold_every_record_once_and_nothing_goes_round(
    env: Path, plain: Sandbox, topics: dict[str, int]
) -> None:
    applied = reconciler("apply", env, "--yes")
    assert applied.code == 0, applied
    east, west = plain["east"], plain["west"]
    write(east, topics, 0, 400)
    write(west, topics, 0, 300)

    def all_have(count: int) -> bool:
        return all(found.total() >= count for side in (east, west) for found in values(side, topics).values())

    until("every record on both sides", lambda: all_have(700), 240)
    write(west, topics, 1000, 50)
    until("what was written meanwhile", lambda: all_have(750), 120)
    time.sleep(3)
    assert values(east, topics) == values(west, topics)
    assert all(found.total() == 750 and set(found.values()) == {1} for found in values(east, topics).values())
    assert reconciler("plan", env).code == 0
    status = json.loads(reconciler("status", env, "--format", "json").out)
    flows = {name: flow for mirror in status["mirrors"].values() for name, flow in mirror["flows"].items()}
    assert set(flows) == {"east-to-west", "west-to-east"}
    for flow in flows.values():
        assert "record work: provenance" in {path["reason"] for path in flow["paths"]}
        assert flow["records_returning"] > 0
    verified = reconciler("verify", env, "east-to-west")
    assert verified.code == 0, verified
    moves_and_misses_nothing(env, "failover", (east, west), topics)
    moves_and_misses_nothing(env, "failback", (west, east), topics)


def moves_and_misses_nothing(
    env: Path, way: str, move: tuple[ClusterHandle, ClusterHandle], topics: dict[str, int]
) -> None:
    """Groups go on at the first record, of whichever side, that they have not read where they leave; what they have
    read of the other side behind it is read again, and the report counts exactly that."""
    origin, destination = move
    here, there = ({key: placed(cluster, *key) for key in partitions(topics)} for cluster in move)
    read: dict[tuple[str, Key], set[bytes]] = {}
    for group, part in GROUPS.items():
        offsets: dict[Key, int] = {}
        for key, found in here.items():
            values, count = list(found), int(part * len(found))
            offsets[key] = found[values[count]] if count < len(values) else found[values[-1]] + 1
            read[f"{way}-{group}", key] = set(values[:count])
        commit(origin, f"{way}-{group}", offsets)
    moved = reconciler(way, env, "east-to-west", "--yes", "--format", "json")
    assert moved.code == 0, moved
    told = {one["group"]: one for one in json.loads(moved.out)["groups"]}
    for group in {group for group, _ in read}:
        again = 0
        for key, at in committed(destination, group, here).items():
            values = list(there[key])
            first = next((there[key][value] for value in values if value not in read[group, key]), at)
            assert at <= first, "missed"
            assert not [value for value in values if at <= there[key][value] < first], "could have gone on later"
            again += sum(there[key][value] >= at for value in read[group, key])
        assert (told[group]["exact"], told[group]["read_again"], told[group]["missed"]) == (True, again, 0)
        assert again == 0 or not group.endswith("done")
    for cluster in move:  # the next move is of its own groups alone
        admin = AdminClient(cluster.client())
        for future in admin.delete_consumer_groups(sorted({group for group, _ in read})).values():
            future.result(20)


def partitions(topics: dict[str, int]) -> list[Key]:
    return [(topic, number) for topic, count in topics.items() for number in range(count)]


def committed(cluster: ClusterHandle, group: str, keys: Iterable[Key]) -> dict[Key, int]:
    consumer = Consumer({**cluster.client(), "group.id": group})
    found = consumer.committed([TopicPartition(*key) for key in keys], timeout=20)
    consumer.close()
    return {(one.topic, one.partition): one.offset for one in found}


def commit(cluster: ClusterHandle, group: str, offsets: dict[Key, int]) -> None:
    consumer = Consumer({**cluster.client(), "group.id": group})
    consumer.commit(offsets=[TopicPartition(*key, offset) for key, offset in offsets.items()], asynchronous=False)
    consumer.close()
