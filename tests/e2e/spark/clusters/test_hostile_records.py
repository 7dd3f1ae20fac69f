"""Records that nobody of ours wrote, in each of our topics, beside a running job and before a start: all is copied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from reconciler.replication.mirrormaker_records import checkpoints_topic, offset_syncs_topic
from reconciler.replication.names import OFFSETS_TOPIC, STATUS_TOPIC, position_group, status_key
from tests.fuzz.inputs import Maker, parted
from tests.support.clusters import CreateTopic
from tests.support.jobs.records import producer
from tests.support.jobs.verify_runs import reconciler, until
from tests.support.lanes.truth import placed

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]

EACH = 40
"""Made-up records of each topic and round."""


@pytest.fixture
def env(plain: Sandbox, unique: str, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / f"e{unique}"
    folder.mkdir()
    text = "clusters:\n"
    for alias in ("east", "west"):
        handle = plain[alias]
        servers = f"bootstrap_servers: [{handle.bootstrap_servers}], cluster_id: {handle.cluster_id}"
        text += f"  {alias}: {{{servers}, defaults: {{replication_factor: 1}}}}\n"
    extras = "mirrormaker_topics: {heartbeats: true, heartbeats_interval: 500ms, offset_syncs: true}"
    text += (
        f"flows:\n  {unique}: {{source: east, target: west, topics: ['{unique}'], replication_factor: 1, {extras},\n"
    )
    text += f"    groups: {{include: ['{unique}.*']}}}}\n"
    (folder / "topology.yaml").write_text(text, encoding="utf-8")
    yield folder
    reconciler("mirror", "stop", folder)


def write(cluster: ClusterHandle, topic: str, values: list[bytes]) -> None:
    made = producer(cluster)
    for value in values:
        made.produce(topic, value)
    assert made.flush(60) == 0


def made_up(plain: Sandbox, env: str, flow: str, seed: int) -> None:
    """Under random keys and under those that ours have. Not under the key of the flow's own pause: any record there
    pauses, lest an unreadable pause let records flow. Nor among heartbeats: a plan takes the topic for an
    application's then, and is blocked (decision 216)."""
    maker = Maker(seed)
    east, west = plain["east"], plain["west"]
    digits = "9" * 5000
    status_keys = (status_key(env, "west"), f"{env}/", f"control/{env}/{flow}x/{flow}", f"control/{env}//", "/")
    keys: Mapping[str, tuple[tuple[ClusterHandle, str], tuple[str, ...]]] = {
        "status": ((west, STATUS_TOPIC), (*status_keys, f"control/{env}/{flow}/{flow}x/{digits}")),
        "pause": ((west, STATUS_TOPIC), (f"control/{env}/{flow}/{flow}x/1", f"control/{env}/{flow}/{flow}/7")),
        "position": ((west, OFFSETS_TOPIC), (f"{flow}/{flow}/0/{digits[:19]}", f"{flow}/{flow}/x/0", f"{flow}//0/0")),
        "checkpoint": ((west, checkpoints_topic("east")), ("g",)),
        "lock": ((east, offset_syncs_topic("west")), ("s",)),
    }
    for kind, ((cluster, topic), own) in keys.items():
        made = producer(cluster)
        for number in range(EACH):
            value = maker.fresh(kind)
            key = own[number % len(own)].encode() if number % 2 else maker.random.randbytes(1 + number % 7)
            made.produce(topic, value, key)
        for _ in range(EACH if topic == OFFSETS_TOPIC else 0):
            key, value = parted(maker.fresh("chunk"))
            made.produce(topic, value, key.replace(b"f/t/3", f"{flow}/{flow}/0".encode()) or b"k")
        assert made.flush(60) == 0
    group = Consumer({**west.super_client(), "group.id": position_group(flow)})
    metadata = maker.fresh("position")[:2000].decode("ascii", "replace").replace("\0", "?")
    group.commit(offsets=[TopicPartition(f"{flow}app", 0, seed, metadata)], asynchronous=False)
    group.close()


def flow_of(env: Path) -> Mapping[str, Any]:
    mirrors = json.loads(reconciler("status", env, "--format", "json").out)["mirrors"]
    flows: Mapping[str, Any] = mirrors["west"]["flows"]
    return flows


def test_made_up_records_neither_stop_nor_mislead_a_mirror(
    env: Path, plain: Sandbox, unique: str, create_topic: CreateTopic
) -> None:
    east, west = plain["east"], plain["west"]
    create_topic(east, unique)
    create_topic(west, f"{unique}app")
    values = [b"%d" % number for number in range(400)]

    def all_there(count: int) -> bool:
        return len(placed(west, f"east.{unique}", 0)) >= count

    write(east, unique, values[:100])
    applied = reconciler("apply", env, "--yes", "--first-contact")
    assert applied.code == 0, applied
    until("the first records are copied", lambda: all_there(100), 240)
    for seed in range(3):
        made_up(plain, env.name, unique, seed)
        write(east, unique, values[100 + seed * 50 : 150 + seed * 50])
        until("copying continues beside made-up records", lambda: all_there(150 + seed * 50))  # noqa: B023
    until("its status is its own again", lambda: set(flow_of(env)) == {unique})
    assert not [each for each in flow_of(env)[unique]["conditions"] if each["stops"]], flow_of(env)

    reconciler("mirror", "stop", env)
    made_up(plain, env.name, unique, 9)
    write(east, unique, values[250:])
    applied = reconciler("apply", env, "--yes")
    assert applied.code == 0, applied
    until("a start goes by its own records", lambda: all_there(400), 240)
    assert sorted(placed(west, f"east.{unique}", 0)) == sorted(values), "each once"
    until("its status is its own again", lambda: not [e for e in flow_of(env)[unique]["conditions"] if e["stops"]])
    assert "Equal" in reconciler("verify", env).out
