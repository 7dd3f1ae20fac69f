"""Other names for the program's own topics, as a cluster needs that leaves each team only topics with its prefix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from reconciler_sandbox.handles import Sandbox

from reconciler.replication.names import LOCK_TOPIC, OFFSETS_TOPIC, STATUS_TOPIC, status_key
from tests.support.clusters import topics
from tests.support.jobs.environments import Running
from tests.support.jobs.records import digest, total, write_awkward
from tests.support.jobs.verify_runs import until
from tests.support.reading import to_the_end

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.long]
RECORDS = 200


@pytest.fixture
def running(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Running]:
    folder = tmp_path / unique
    folder.mkdir()
    clusters = {"east": plain["east"], "west": plain["west"]}
    made = Running(folder, clusters, {"RECONCILER_STATE": str(tmp_path / "state")})
    yield made
    made.stop()


def write(running: Running, **internal_topics: Any) -> str:
    """One topic and its flow to west, and a flow back of everything that begins with the prefix. ``internal_topics``:
    of west."""
    topic, both = running.name, {"lanes": 1}
    clusters: dict[str, dict[str, Any]] = {
        name: {"bootstrap_servers": [each.bootstrap_servers], "cluster_id": each.cluster_id}
        for name, each in running.clusters.items()
    }
    if internal_topics:
        clusters["west"]["internal_topics"] = internal_topics
    flow = {"source": "east", "target": "west", "topics": [topic], "groups": {"sync_offsets": True}, **both}
    back = {"source": "west", "target": "east", "topics": [rf"{topic}\..*"], **both}
    declared = {
        topic: {"clusters": ["east"], "partitions": 2, "replication_factor": 1},
        f"{topic}.own": {"clusters": ["west"], "partitions": 1, "replication_factor": 1},
    }
    flows = {f"{topic}-there": flow, f"{topic}-back": back}
    environment = {"clusters": clusters, "topics": declared, "flows": flows, "mirrors": {"east": {}, "west": {}}}
    (running.folder / "topology.yaml").write_text(json.dumps(environment))
    return str(running.folder)


def test_a_mirror_keeps_its_records_under_a_chosen_prefix(running: Running) -> None:
    prefix, topic = f"{running.name}.", running.name
    east, west = running.clusters["east"], running.clusters["west"]
    env = write(running, prefix=prefix, configs={"segment.bytes": "2MiB"})
    running.apply()
    running.reconciler("plan", env)
    write_awkward(east, topic, 2, RECORDS)
    until("all records", lambda: total(digest(west, f"east.{topic}")) == RECORDS, 120)
    assert digest(west, f"east.{topic}") == digest(east, topic)
    running.read("east", f"{topic}-readers", topic, 50)

    admin = AdminClient(west.client())
    made = admin.list_topics(timeout=20).topics
    assert {prefix + name for name in (LOCK_TOPIC, STATUS_TOPIC, OFFSETS_TOPIC)} <= set(made)
    resource = ConfigResource(ResourceType.TOPIC, prefix + OFFSETS_TOPIC)
    assert admin.describe_configs([resource])[resource].result(20)["segment.bytes"].value == str(2 << 20)
    if STATUS_TOPIC in made:  # of other tests
        keys = {message.key() for message in to_the_end(west, STATUS_TOPIC)}
        assert status_key(running.name, "west").encode() not in keys
    returned = topics(east)
    assert f"west.{topic}.own" in returned
    assert not [name for name in returned if name.startswith(f"west.{prefix}__")], "own topics do not travel"

    # Offsets are translated by the map, and a pause is obeyed: both are read under the chosen names.
    flow = f"{topic}-there"
    translate = ("offsets", "translate", env, flow, "--group", f"{topic}-readers", "--format", "json")
    assert json.loads(running.reconciler(*translate))["exact"]
    running.reconciler("mirror", "pause", env, flow)
    until("a pause", lambda: '"paused"' in running.reconciler("status", env, "--format", "json"), 60)
    running.reconciler("mirror", "resume", env, flow)
    running.reconciler("verify", env, flow)
    running.reconciler("doctor", env)


def test_another_prefix_on_a_running_environment_is_refused(running: Running) -> None:
    prefix = f"{running.name}."
    env = write(running, prefix=prefix)
    running.apply()
    refused = running.reconciler("plan", write(running, prefix=f"{running.name}-new."), code=3, told=True)
    assert f"keeps its records on west in {prefix}{LOCK_TOPIC}" in refused
    assert f"Set clusters.west.internal_topics.prefix to '{prefix}'" in refused
    refused = running.reconciler("apply", write(running), "--yes", code=3, told=True)
    assert f"Set clusters.west.internal_topics.prefix to '{prefix}'" in refused
    write(running, prefix=prefix)
    running.reconciler("plan", env)
