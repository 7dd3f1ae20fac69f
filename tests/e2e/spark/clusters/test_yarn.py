"""The mirror on YARN, with Python from the archive, while executors, NodeManagers and a whole machine are killed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_mirror.model.lane import lane_of
from reconciler_sandbox.handles import Sandbox

from tests.support.jobs.flow_of_records import assert_all_once_in_order, copying, flowing
from tests.support.jobs.mirror_job import Job, create_topics, flow, handover
from tests.support.jobs.yarn.cluster import Yarn
from tests.support.jobs.yarn.mirror import NODE_MB, mirror_on_yarn

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.long]

LANES = 2
PARTITIONS = 8
PATIENCE_S = 300.0
MASTER_OF_APPLICATION = "org.apache.spark.deploy.yarn.ExecutorLauncher"
EXECUTOR = "YarnCoarseGrainedExecutorBackend"


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    cluster = Yarn(tmp_path / "yarn")
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def test_executors_and_nodes_are_lost_and_come_back(plain: Sandbox, yarn: Yarn, tmp_path: Path) -> None:
    east, west = plain.clusters["east"], plain.clusters["west"]
    name = f"y{uuid.uuid4().hex[:6]}"
    assert {lane_of(name, number, LANES) for number in range(PARTITIONS)} == set(range(LANES)), "each lane has some"
    create_topics(west, "__mirror_status")
    create_topics(east, name, partitions=PARTITIONS)
    create_topics(west, f"east.{name}", partitions=PARTITIONS)
    for node in ("a", "b"):
        yarn.node(node, NODE_MB, 4)
    content = handover(west, name, [flow(name, east, west, [name], lanes=LANES)])
    job = Job(
        tmp_path / "run",
        content,
        mirror=mirror_on_yarn(name, tmp_path),
        environment={"HADOOP_CONF_DIR": str(yarn.conf)},
    )
    try:
        job.start()
        with flowing(east, west, {name: PARTITIONS}, rate=20) as (load, arrivals):
            copies = copying(load, arrivals, name, job, PATIENCE_S)
            copies("every partition is copied")
            assert sum(node.kill_executors() for node in yarn.nodes.values()) >= 1
            copies("after kill -9 of both executors")

            with_master = next(node for node in yarn.nodes.values() if node.containers(MASTER_OF_APPLICATION))
            other = next(node for node in yarn.nodes.values() if node is not with_master)
            other.lose()
            copies("after the loss of a machine without a spare one")
            yarn.node("c", NODE_MB, 4)
            copies("with a machine more")

            with_master.lose()
            copies("after the loss of the machine with the application's master")
            assert_all_once_in_order(load, arrivals, {name: PARTITIONS}, PATIENCE_S)
        assert job.stop() == 0
    finally:
        job.kill_group()
