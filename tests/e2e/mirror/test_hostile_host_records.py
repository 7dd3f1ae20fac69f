"""A real host process, and records that somebody else than apply wrote to its control topic: refused, each with what
would have to be added, nothing is started, nobody is asked, and the host keeps what it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from reconciler_sandbox.handles import Sandbox

from reconciler.backends.mirror_jobs.host.control_topic import ControlTopic
from reconciler.model.environment.topology import Principal
from reconciler.model.state.mirror_control import DESIRED, HostPhase, HostReport, read_lease
from reconciler.replication.names import CONTROL_TOPIC, desired_key, host_key
from tests.support.access.trap import Trap
from tests.support.clusters import real_cluster
from tests.support.commands import two_clusters
from tests.support.fakes.control import SUBMISSION, desired, document
from tests.support.jobs.hosts.mirror_hosts import Hosts

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
ACCEPTED = "spark_conf: ['spark.*']\narchives: ['{folder}/ours/*.tar.gz#environment']"


@pytest.fixture
def trap() -> Iterator[Trap]:
    with Trap() as made:
        yield made


@pytest.fixture
def hosts(plain: Sandbox, tmp_path: Path, unique: str) -> Iterator[Hosts]:
    ports = [plain[name].bootstrap_servers.rpartition(":")[2] for name in ("east", "west")]
    words = " ".join(f"host:*.1:{port}" for port in ports)
    allow = {"RECONCILER_ALLOW": f"{words} env:EAST_*", "EAST_USER": "ada", "EAST_PASSWORD": "canary"}
    accepted = ACCEPTED.format(folder=tmp_path)
    made = Hosts(tmp_path / f"hostile{unique}", plain, f"hostile{unique}", tmp_path, accepted, allow)
    made.environment.mkdir()
    (made.environment / "clusters.yaml").write_text(two_clusters(plain), "utf-8")
    yield made
    for machine in made.machines.values():
        machine.lose()


def hostile(trap: Trap, west: str, folder: Path) -> dict[str, tuple[dict[str, Any], dict[str, Any], str, str]]:
    """Mirror -> hand-over, submission, what is refused, and what would have to be written."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "${env:EAST_USER}", "sasl.password": "${env:EAST_PASSWORD}"}

    def reached(servers: str) -> dict[str, Any]:
        east = {"name": "east", "bootstrap_servers": [servers], "client": login}
        there = {"name": "west", "bootstrap_servers": [west], "client": {"security.protocol": "PLAINTEXT"}}
        made = document(source=east, target=there)
        return {**made, "status": {**made["status"], "cluster": there}}

    def conf(name: str, value: str) -> dict[str, Any]:
        return {**SUBMISSION, "spark_conf": {name: value}}

    archive, own = f"{folder}/ours/../evil.tar.gz#environment", reached(west)
    local = {**SUBMISSION, "master": "local-cluster[1,1,512]"}
    repl, kryo = "spark.repl.class.uri", "spark.kryo.classesToRegister"
    return {
        "list": (reached(f"{trap.address},{west}"), SUBMISSION, "of its hand-over", "Run reconciler apply"),
        "user": (reached(f"me@{west}"), SUBMISSION, "of its hand-over", "Run reconciler apply"),
        "trap": (reached(trap.address), SUBMISSION, f"does not list {trap.address}", "or add it to RECONCILER_ALLOW"),
        "dots": (own, conf("spark.archives", archive), "not accepted", f': - "{archive}"'),
        "repl": (own, conf(repl, f"file:{folder}/"), "can run code", f': - "{repl}"'),
        "kryo": (own, conf(kryo, "evil.Evil"), "can run code", f': - "{kryo}"'),
        "local": (own, local, "'local-cluster[1,1,512]' is not accepted", ': - "local-cluster[1,1,512]"'),
    }


def test_a_record_of_others_is_refused_with_the_remedy_and_nothing_is_begun(
    hosts: Hosts, trap: Trap, tmp_path: Path
) -> None:
    environment, west = hosts.environment.name, hosts.sandbox["west"]
    admin = AdminClient(west.client())
    if CONTROL_TOPIC not in admin.list_topics(timeout=30).topics:
        topic = NewTopic(CONTROL_TOPIC, 1, 1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic])[CONTROL_TOPIC].result(30)
    control = ControlTopic(real_cluster(west), environment, Principal.APPLY)
    records = hostile(trap, west.bootstrap_servers, tmp_path)
    for mirror, (handover, submission, _, _) in records.items():
        told = {**handover, "environment": environment, "mirror": mirror}
        record = replace(desired(1, handover=told, submission=submission), environment=environment, mirror=mirror)
        assert control.swap(desired_key(environment, mirror), None, DESIRED.dumps(record))
    assert control.swap(desired_key(environment, "torn"), None, rb'{"handover": {"a": "\ud800"}}')

    machine = hosts.start("only")
    reports: dict[str, HostReport] = {}

    def all_judged() -> bool:
        entries = control.read()
        for mirror in (*records, "torn"):
            lease = read_lease(entries.get(host_key(environment, mirror)), environment, mirror)
            if lease is not None and lease.report.what:
                reports[mirror] = lease.report
        return len(reports) == len(records) + 1

    hosts.until("all are judged", all_judged)
    assert {report.phase for report in reports.values()} == {HostPhase.REFUSED}
    for mirror, (_, _, problem, todo) in records.items():
        assert problem in reports[mirror].what
        assert todo in reports[mirror].todo
        todo = reports[mirror].todo.replace(" ENV", f" {hosts.environment}")
        assert todo in machine.log, "its log says it, too"
    assert machine.process is not None
    assert machine.pids() == [machine.process.pid], "no Spark was begun"
    assert trap.connections == 0
    assert "Traceback" not in machine.log
    control.close()
