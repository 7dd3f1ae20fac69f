"""Read-only copies on secure clusters, with the real job: a stranger is refused while the mirror goes on; a failover
lets him write, the failback ends that, and without the key the rules are gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.clusters import secured_clusters
from tests.support.jobs.environments import Running
from tests.support.jobs.verify_runs import until
from tests.support.lanes.lane_runs import content

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.long]
REST = """
topics:
  {topic}: {{clusters: [east], partitions: 1, replication_factor: 1}}
flows:
  {topic}:
    {{source: east, target: west, topics: [{topic}], naming: {{policy: identity}}, lanes: 1{more}}}
mirrors:
  west: {{}}
access:
  - {{role: mirror, principal: "User:mirror"}}
  - {{role: producer, principal: "User:user", clusters: [east, west], topics: [{topic}]}}
"""
KEPT = ", copies: read_only"


@pytest.fixture
def head(secure: Sandbox, monkeypatch: pytest.MonkeyPatch) -> str:
    return "\n".join(secured_clusters(secure, monkeypatch))


@pytest.fixture
def running(secure: Sandbox, head: str, tmp_path: Path, unique: str) -> Iterator[Running]:
    (tmp_path / unique).mkdir()
    made = Running(tmp_path / unique, secure.clusters, {"RECONCILER_STATE": str(tmp_path / "state")})
    yield made
    made.stop()
    (made.folder / "topology.yaml").write_text(f"{head}\naccess: []\n", encoding="utf-8")
    made.reconciler("apply", str(made.folder), "--yes", "--allow-shrink")


def write(cluster: ClusterHandle, topic: str, value: bytes) -> bool:
    """As an application. False: it is refused."""
    failed: list[KafkaError] = []
    producer = Producer({**cluster.client("user"), "log_level": 0, "message.timeout.ms": 10_000})
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    producer.flush(15)
    assert all(error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED for error in failed), failed
    return not failed


def test_a_stranger_is_kept_off_copies_and_the_mirror_continues(
    running: Running, head: str, secure: Sandbox, unique: str
) -> None:
    east, west, folder = secure["east"], secure["west"], str(running.folder)

    def declare(more: str) -> None:
        text = f"{head}\n{REST.format(topic=unique, more=more)}"
        (running.folder / "topology.yaml").write_text(text, encoding="utf-8")

    def arrives(value: bytes) -> None:
        until("the client writes at home", lambda: write(east, unique, value))
        until(f"{value!r} is copied", lambda: value in values(west, unique), 240)

    def steps(way: str) -> dict[str, str]:
        told = json.loads(running.reconciler(way, folder, unique, "--yes", "--format", "json"))
        return {step["name"]: step["result"] for step in told["steps"]}

    declare("")
    running.apply()
    arrives(b"first")
    assert write(west, unique, b"stranger"), "the hole"

    declare(KEPT)
    shown = running.reconciler("plan", folder, code=2)
    assert f"deny User:user write on topic {unique}" in shown
    assert f"west: User:user loses write on topic {unique}" in shown
    running.apply()
    until("the stranger is refused", lambda: not write(west, unique, b"refused"))
    arrives(b"second")
    assert json.loads(running.reconciler("drift", folder, "--format", "json"))["differences"] == []

    assert steps("failover")["lift"] == "done"
    until("clients write there", lambda: write(west, unique, b"moved"))
    assert "reconciler failback" in running.reconciler("plan", folder), "and denies nothing again"
    assert steps("failover")["lift"] == "already"

    assert steps("failback")["restore"] == "done"
    until("clients are off again", lambda: not write(west, unique, b"refused"))
    arrives(b"third")
    running.reconciler("plan", folder)

    declare("")
    running.apply()
    until("without the key they write", lambda: write(west, unique, b"stranger again"))
    arrives(b"fourth")
    found = values(west, unique)
    assert sorted(found) == sorted(
        [b"first", b"second", b"third", b"fourth", b"stranger", b"moved", b"stranger again"]
    ), "nothing slipped through, nothing twice"


def values(cluster: ClusterHandle, topic: str) -> list[bytes]:
    return [value or b"" for found in content(cluster, topic, 1).values() for _, value, _, _ in found]
