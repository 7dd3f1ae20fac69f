"""A controller mutation quota (KIP-599) slows a run down and fails nothing."""

from __future__ import annotations

import logging
import subprocess

import pytest
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.paths import JARS

from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.model.plan import Result
from tests.support.clusters import CreateTopic, mutation_quota, real_cluster
from tests.support.fakes.subjects import BrokerStranger, Subject


def limit(cluster: ClusterHandle, client_id: str, partitions_per_second: int) -> None:
    command = ["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", "org.apache.kafka.tools.ConfigCommand"]
    command += ["--bootstrap-server", cluster.bootstrap_servers, "--alter", "--entity-type", "clients"]
    command += ["--entity-name", client_id, "--add-config", f"controller_mutation_rate={partitions_per_second}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@mutation_quota
def test_throttled_changes_are_waited_out(
    plain: Sandbox, unique: str, create_topic: CreateTopic, caplog: pytest.LogCaptureFixture
) -> None:
    east = plain.clusters["east"]
    limit(east, unique, 4)
    with KafkaCluster(real_cluster(east, client_id=unique)) as admin, caplog.at_level(logging.INFO):
        subject = Subject(admin, BrokerStranger(east, create_topic, admin), 1, unique)
        # 44 partitions are free (11 windows of 1 s), 4 more each second. ZooKeeper makes topic after topic meanwhile:
        # 70 small ones took it longer than that, and nothing was throttled.
        outcomes = subject.perform(*[subject.create(f"n{number}", 10) for number in range(8)])
        assert {(outcome.result, outcome.error) for outcome in outcomes} == {(Result.DONE, "")}
        assert "cluster east throttles" in caplog.text
        assert len([name for name in admin.read().topics if name.startswith(f"{unique}-")]) == 8
