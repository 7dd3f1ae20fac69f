"""A whole environment whose clusters are logged in to by Kerberos alone: each command, a mirror, and a failover."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from reconciler_sandbox.brokers import kerberos as kdc
from reconciler_sandbox.handles import Sandbox

from tests.support.jobs.environments import Running, exactly
from tests.support.jobs.hosts.mirror_hosts import HostMachine
from tests.support.jobs.live_page import compared
from tests.support.jobs.standalone.cluster import Standalone, mirror_on
from tests.support.jobs.verify_runs import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]
CLUSTER = """\
  {name}:
    bootstrap_servers: ["{servers}"]
    cluster_id: {id}
    client: {{security.protocol: SASL_PLAINTEXT, sasl.mechanism: GSSAPI}}
    defaults: {{partitions: 3, replication_factor: 1}}
    principals:
      plan: {{sasl.kerberos.principal: plan, sasl.kerberos.keytab: "${{env:SANDBOX_PLAN_KEYTAB}}"}}
      apply: {{sasl.kerberos.principal: admin@SANDBOX.TEST, sasl.kerberos.keytab: "${{env:SANDBOX_ADMIN_KEYTAB}}"}}
      mirror: {{sasl.kerberos.keytab: "${{env:SANDBOX_MIRROR_KEYTAB}}"}}
"""
REST = """\
topics:
  {topic}: {{clusters: [east]}}
flows:
  of-{topic}: {{source: east, target: west, topics: [{topic}], lanes: 1, groups: {{sync_offsets: true}}}}
mirrors:
  west: {{}}
"""


@pytest.fixture
def running(kerberos: Sandbox, tmp_path: Path, unique: str) -> Iterator[Running]:
    folder = tmp_path / unique
    folder.mkdir()
    clusters = "".join(
        CLUSTER.format(name=name, servers=handle.kerberos_bootstrap_servers, id=handle.cluster_id)
        for name, handle in kerberos.clusters.items()
    )
    (folder / "topology.yaml").write_text(f"clusters:\n{clusters}{REST.format(topic=unique)}")
    made = Running(folder, kerberos.clusters, {"RECONCILER_STATE": str(tmp_path / "state"), **kerberos.secrets()})
    yield made
    made.stop()


def test_an_environment_on_kerberos_is_planned_mirrored_verified_and_failed_over(
    running: Running, kerberos: Sandbox, unique: str
) -> None:
    env = str(running.folder)
    running.reconciler("validate", env)
    running.reconciler("plan", env, code=2)
    running.apply()
    running.reconciler("plan", env)
    written = running.write("east", unique, 600)
    read = [running.read("east", f"group-{unique}", unique, 150)]

    def status() -> dict[str, object]:
        told = json.loads(running.reconciler("status", env, "--format", "json"))
        assert isinstance(told, dict)
        return told

    until("the mirror has caught up", lambda: '"records_lag": 0, ' in json.dumps(status()), 60)
    told = running.reconciler("verify", env, told=True)
    assert "sasl.mechanism is GSSAPI: our own connections speak Kerberos" in told
    doctor = running.reconciler("doctor", env, told=True)
    assert "Kerberos has one for each of 1 broker" in doctor

    running.reconciler("failover", env, f"of-{unique}", "--yes")
    read.append(running.read("west", f"group-{unique}", rf"east\.{unique}", 10_000))
    assert exactly(read, written)


def test_what_stops_a_login_is_reported_by_plan(running: Running, kerberos: Sandbox, tmp_path: Path) -> None:
    running.environ["SANDBOX_PLAN_KEYTAB"] = str(kdc.keytab(kerberos.home, "user"))
    told = running.reconciler("plan", str(running.folder), code=1, told=True)
    assert "sasl.kerberos.principal is plan, and the keytab" in told
    assert "holds user@SANDBOX.TEST" in told


def test_a_host_keeps_the_mirror_and_the_live_page_shows_it(
    running: Running, kerberos: Sandbox, unique: str, tmp_path: Path
) -> None:
    """Each principal has the rights of its role, no more: what apply asks and the host's lease are records."""
    topology, accept = running.folder / "topology.yaml", tmp_path / "accept.yaml"
    topology.write_text(topology.read_text().replace("west: {}", "west: {hosted: true}"))
    accept.write_text(f"environments: [{unique}]\nmasters: ['local[[]*']\n")
    machine = HostMachine(tmp_path / "host", kerberos.secrets())
    machine.host(running.folder, accept)
    try:
        until("the host waits for the topic", lambda: "waiting for its topic" in machine.log)
        assert "generation 1 is written" in running.reconciler("apply", str(running.folder), "--yes", told=True)
        running.reconciler("plan", str(running.folder))  # plan's login reads what apply asked
        with compared(running):
            written = running.write("east", unique, 600)
            read = running.read("west", f"group-{unique}", rf"east\.{unique}", 10_000, len(written))
        assert exactly([read], written)
        running.stop()
        assert machine.process is not None
        machine.process.terminate()
        assert machine.process.wait(60) == 0, machine.log
    finally:
        machine.lose()


def test_keytab_and_configuration_travel_by_sparks_files(
    running: Running, kerberos: Sandbox, unique: str, tmp_path: Path
) -> None:
    """Executors know them by the names that Spark gives them, and have no such paths in their variables."""
    named = {"SANDBOX_MIRROR_KEYTAB", "KRB5_CONFIG"}
    paths = {name: Path(kerberos.secrets()[name]) for name in named}
    env, cluster = str(running.folder), Standalone(tmp_path / "spark")
    try:
        cluster.start().worker("worker", cores=2)
        made = mirror_on(cluster, "west", tmp_path, executors=1)
        assert made.deployment.python is not None
        conf = {
            **made.spark_conf,
            "spark.files": ",".join(map(str, paths.values())),
            **{f"spark.executorEnv.{name}": path.name for name, path in paths.items()},
        }
        python = {"archive": made.deployment.python.archive}
        mirror = {"master": cluster.master, "parallelism": 1, "executors": 1, "cores": 1, "memory": "480m"}
        text = json.dumps({**mirror, "python": python, "spark_conf": conf})
        topology = running.folder / "topology.yaml"
        topology.write_text(topology.read_text().replace("west: {}", f"west: {text}"))
        running.apply()
        written = running.write("east", unique, 600)

        def copied() -> bool:
            told = json.loads(running.reconciler("status", env, "--format", "json"))
            return '"records_lag": 0, ' in json.dumps(told)

        until("the mirror has caught up", copied, 240)
        read = running.read("west", f"group-{unique}", rf"east\.{unique}", 10_000, len(written))
        assert exactly([read], written)
        running.reconciler("verify", env)
    finally:
        running.stop()
        cluster.stop()
