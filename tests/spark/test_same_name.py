"""environments/active-active-same-name as a user runs it: applied, written to on both sides, proved, stopped."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.handles import ClusterHandle, Sandbox
from tests.spark.records import producer
from tests.spark.verify_runs import ROOT, reconciler, until
from tests.wire.lane_runs import content

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(600)]

NAME = "active-active-same-name"
TOPICS = {"orders": 4, "orders.returned": 2}


@pytest.fixture
def env(plain: Sandbox, tmp_path: Path) -> Iterator[Path]:
    """The example with the addresses of this run's clusters."""
    text = (ROOT / "environments" / NAME / "topology.yaml").read_text(encoding="utf-8")
    for name, address in (("east", "127.0.0.1:19092"), ("west", "127.0.0.1:29092")):
        text = text.replace(address, plain[name].bootstrap_servers)
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "topology.yaml").write_text(text, encoding="utf-8")
    yield folder
    reconciler("mirror", "stop", folder)


def write(cluster: ClusterHandle, first: int, count: int) -> None:
    made = producer(cluster)
    for number in range(first, first + count):
        for topic, partitions in TOPICS.items():
            made.produce(topic, f"{cluster.name} {number}".encode(), b"k%d" % (number % 13), number % partitions)
    assert made.flush(60) == 0


def values(cluster: ClusterHandle) -> dict[str, Counter[bytes]]:
    return {
        topic: Counter(value or b"" for found in content(cluster, topic, count).values() for _, value, _, _ in found)
        for topic, count in TOPICS.items()
    }


def test_both_sides_hold_every_record_once_and_nothing_goes_round(env: Path, plain: Sandbox) -> None:
    applied = reconciler("apply", env, "--yes")
    assert applied.code == 0, applied
    east, west = plain["east"], plain["west"]
    write(east, 0, 400)
    write(west, 0, 300)

    def all_have(count: int) -> bool:
        return all(found.total() >= count for side in (east, west) for found in values(side).values())

    until("every record on both sides", lambda: all_have(700), 240)
    write(west, 1000, 50)
    until("what was written meanwhile", lambda: all_have(750), 120)
    time.sleep(3)
    assert values(east) == values(west)
    assert all(found.total() == 750 and set(found.values()) == {1} for found in values(east).values())
    assert reconciler("plan", env).code == 0
    status = json.loads(reconciler("status", env, "--format", "json").out)
    flows = {name: flow for mirror in status["mirrors"].values() for name, flow in mirror["flows"].items()}
    assert set(flows) == {"east-to-west", "west-to-east"}
    for flow in flows.values():
        assert "record work: provenance" in {path["reason"] for path in flow["paths"]}
        assert flow["records_returning"] > 0
    verified = reconciler("verify", env)
    assert verified.code == 0, verified
