"""Two mirror hosts and an ``apply`` that ends: the machine of one is lost, and the other one has the mirror running.

Then that one is asked to leave, and hands the mirror on to a third.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from tests.support.commands import two_clusters
from tests.support.jobs.flow_of_records import assert_all_once_in_order, flowing
from tests.support.jobs.hosts.mirror_hosts import Hosts
from tests.support.jobs.records import write_awkward
from tests.support.jobs.yarn.cluster import Yarn
from tests.support.jobs.yarn.mirror import NODE_MB, in_cluster_mode

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1500), pytest.mark.long]

LONGEST_GAP_S = 2.0


@pytest.fixture
def hosts(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Hosts]:
    name = f"hosted{unique}"
    made = Hosts(tmp_path / name, plain, name, tmp_path)
    declare(made, "spark_conf: {spark.driver.memory: 480m}")
    yield made
    for machine in made.machines.values():
        machine.lose()


def declare(hosts: Hosts, settings: str, lanes: int = 2) -> None:
    """``settings``: of the mirror, besides that it is hosted."""
    name = hosts.topic
    text = two_clusters(hosts.sandbox) + (
        f"topics: {{{name}: {{clusters: [east], partitions: 2, replication_factor: 1, "
        "configs: {retention.ms: '-1'}}}\n"
        f"flows: {{{name}-flow: {{source: east, target: west, topics: ['{name}'], replication_factor: 1, "
        f"lanes: {lanes}}}}}\n"
        f"mirrors: {{{name}: {{flows: [{name}-flow], hosted: true, {settings}}}}}\n"
    )
    hosts.environment.mkdir(exist_ok=True)
    (hosts.environment / "all.yaml").write_text(text, "utf-8")


def test_a_lost_machine_is_replaced_by_the_standby_and_each_record_is_copied_once(hosts: Hosts) -> None:
    env = str(hosts.environment)
    hosts.start("first")
    hosts.until("the host waits for the topic", lambda: "waiting for its topic" in hosts.machines["first"].log)
    answer = hosts.reconciler("apply", env, "--yes")
    assert "generation 1 is written" in answer, answer
    assert "checked: a new plan is empty" in answer, answer
    write_awkward(hosts.sandbox["east"], hosts.topic, 2, 300)
    hosts.until_equal(300)
    before = hosts.application()
    hosts.start("standby")
    hosts.until("the standby is there", lambda: "waiting for desired records" in hosts.machines["standby"].log)
    assert "taken" not in hosts.machines["standby"].log

    hosts.machines["first"].lose()
    hosts.another_runs(before, "after the loss of the machine")
    write_awkward(hosts.sandbox["east"], hosts.topic, 2, 300, seed=1)
    hosts.until_equal(600)

    hosts.reconciler("plan", env)  # exit code 0: it is as declared, whatever machine asks
    before, leaving = hosts.application(), hosts.machines["standby"].process
    third = hosts.start("third")
    hosts.until("a third one is there", lambda: "waiting for desired records" in third.log)
    assert leaving is not None
    topics = {hosts.topic: 2}
    with flowing(hosts.sandbox["east"], hosts.sandbox["west"], topics) as (load, arrivals):
        hosts.until("records flow", lambda: all(arrivals.at.values()))
        since = time.monotonic()
        leaving.terminate()
        hosts.another_runs(before, "after SIGTERM to the host")
        assert leaving.wait(190) == 0
        crowd = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # a process gets that much less of the machine
        gap = arrivals.longest_gap(hosts.topic, since)
        assert gap <= LONGEST_GAP_S * crowd, (gap, crowd, third.log)
        assert_all_once_in_order(load, arrivals, topics)
    assert hosts.machines["standby"].pids() == [], "it left none of its application"

    assert "stopped" in hosts.reconciler("mirror", "stop", env)
    assert hosts.application() == ""
    assert third.process is not None
    third.process.terminate()
    assert third.process.wait(60) == 0


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[Yarn]:
    cluster = Yarn(tmp_path / "yarn")
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def test_a_driver_on_the_cluster_outlives_hosts_and_is_followed_by_the_next(
    plain: Sandbox, tmp_path: Path, unique: str, yarn: Yarn
) -> None:
    """Deploy mode cluster: neither the loss of a host's machine nor a host that leaves restarts anything."""
    for node in ("a", "b"):
        yarn.node(node, 2 * NODE_MB, 4)
    name = f"hosted{unique}"
    mirror = in_cluster_mode(name, tmp_path)
    conf, python = dict(mirror.spark_conf), mirror.deployment.python.archive
    settings = (
        "master: yarn, deploy_mode: cluster, parallelism: 2, executors: 2, cores: 1, memory: 480m, "
        f"python: {{archive: '{python}'}}, spark_conf: {json.dumps(conf)}"
    )
    accepted = (
        f"masters: [yarn]\nspark_conf: {json.dumps([*conf, 'spark.executor.*'])}\n"
        f"archives: {json.dumps([python, python + '#*', conf['spark.yarn.jars'], './environment/bin/python'])}"
    )
    hosts = Hosts(tmp_path / name, plain, name, tmp_path, accepted, {"HADOOP_CONF_DIR": str(yarn.conf)})
    declare(hosts, settings)
    env = str(hosts.environment)
    try:
        hosts.start("first")
        hosts.until("the host waits for the topic", lambda: "waiting for its topic" in hosts.machines["first"].log)
        assert "checked: a new plan is empty" in hosts.reconciler("apply", env, "--yes")
        write_awkward(plain["east"], name, 2, 300)
        hosts.until_equal(300)
        driver = hosts.application()
        standby = hosts.start("standby")
        hosts.until("the standby is there", lambda: "waiting for desired records" in standby.log)

        hosts.machines["first"].lose()
        write_awkward(plain["east"], name, 2, 300, seed=1)
        hosts.until_equal(600)
        hosts.until("the standby has it", lambda: f"mirror {name}: taken" in standby.log)
        hosts.until("and follows the driver", lambda: followed(standby.folder) == driver)
        hosts.reconciler("plan", env)  # exit code 0: it is as declared
        assert hosts.application() == driver, "nothing was restarted"

        declare(hosts, settings, lanes=3)
        hosts.reconciler("apply", env, "--yes")
        changed = hosts.application()
        assert changed not in ("", driver), "a changed definition restarts it, as always"

        assert standby.process is not None
        standby.process.terminate()
        assert standby.process.wait(190) == 0
        assert "its driver copies on in the cluster" in standby.log
        assert standby.pids() == []
        write_awkward(plain["east"], name, 2, 300, seed=2)
        hosts.until_equal(900)
        third = hosts.start("third")
        hosts.until("a third one follows the driver", lambda: followed(third.folder) == changed)
        assert hosts.application() == changed

        assert "stopped" in hosts.reconciler("mirror", "stop", env)
        assert hosts.application() == ""
        end = time.monotonic() + 60
        while any(node.containers("mirror_job.py") for node in yarn.nodes.values()):
            assert time.monotonic() < end
            time.sleep(0.2)
    finally:
        for machine in hosts.machines.values():
            machine.lose()


def followed(folder: Path) -> str:
    """The application that a machine's run folder names."""
    for path in sorted((folder / "state").rglob("driver.json")):
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        return str(document["application_id"])
    return ""
