"""Each login through each command, and a mirror whose logins live for a minute, under load.

A run takes LOGIN_MINUTES, 3 unless set; 100 s of it, in the middle, no login can be renewed. What is written then
arrives afterwards, each record once, without a restart of the job.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.brokers import kerberos as kdc
from reconciler_sandbox.handles import ClusterHandle

from tests.support.access import short_logins as logins
from tests.support.access.issuer import GRANT
from tests.support.access.short_logins import Login
from tests.support.jobs.environments import Running
from tests.support.jobs.verify_runs import until
from tests.support.lanes.lane_runs import content

SECONDS = float(os.environ.get("LOGIN_MINUTES", "3")) * 60
REFUSED_SECONDS = 100
pytestmark = [pytest.mark.spark, pytest.mark.timeout(SECONDS + 900), pytest.mark.long]
FLOW = """\
topics:
  {topic}: {{clusters: [east]}}
flows:
  east-to-west: {{source: east, target: west, topics: [{topic}], lanes: 1}}
mirrors:
  west: {{}}
"""


@pytest.fixture(
    params=[
        "OAUTHBEARER",
        "client_secret_post",
        "private_key_jwt",
        "jwt-bearer",
        "provider",
        "azure",
        "gcp",
        "aws_sts",
        "AWS_MSK_IAM",
        "GSSAPI",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "PLAIN",
        "SSL",
    ]
)
def login(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Login]:
    match request.param:
        case "GSSAPI":
            made = logins.of_kdc(request.getfixturevalue("kerberos"))
        case "AWS_MSK_IAM":
            made = logins.of_role()
        case "aws_sts":
            made = logins.of_web_identity()
        case "azure":
            made = logins.of_azure()
        case "gcp":
            made = logins.of_google(tmp_path)
        case "provider":
            made = logins.of_provider(tmp_path / "packages")
        case "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512":
            made = logins.of_password(tmp_path, request.param)
        case "SSL":
            made = logins.of_certificate(tmp_path)
        case "client_secret_post":
            made = logins.of_issuer(client_authentication=request.param)
        case "private_key_jwt":
            made = logins.of_issuer(client_authentication=request.param, client_secret="")
        case "jwt-bearer":
            made = logins.of_issuer(grant_type=GRANT, client_secret="")
        case _:
            made = logins.of_issuer()
    with made as login:
        yield login


@pytest.fixture
def running(login: Login, tmp_path: Path, unique: str) -> Iterator[Running]:
    folder = tmp_path / "env"
    folder.mkdir()
    clusters: dict[str, Any] = {}
    for name, handle in login.clusters.items():
        client = dict(login.clients[name])
        servers = client.pop("bootstrap.servers")
        clusters[name] = {"bootstrap_servers": [servers], "cluster_id": handle.cluster_id, "client": client}
        clusters[name]["defaults"] = {"partitions": 2, "replication_factor": 1}
        if client.get("sasl.mechanism") == "GSSAPI":
            keytab = str(kdc.keytab(handle.home, "admin"))
            of = {"sasl.kerberos.principal": "admin@SANDBOX.TEST", "sasl.kerberos.keytab": keytab}
            clusters[name]["principals"] = {"plan": of, "apply": of}
    (folder / "topology.yaml").write_text(f"{json.dumps({'clusters': clusters})[1:-1]}\n{FLOW.format(topic=unique)}")
    made = Running(folder, login.clusters, {"RECONCILER_STATE": str(tmp_path / "state"), **login.environ})
    yield made
    made.stop()


class Load:
    """Unique records, 50 a second, until it is stopped."""

    def __init__(self, cluster: ClusterHandle, topic: str) -> None:
        self.written = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, args=(cluster, topic))
        self._thread.start()

    def _write(self, cluster: ClusterHandle, topic: str) -> None:
        producer = Producer({**cluster.super_client(), "enable.idempotence": True})
        while not self._over.wait(0.1):
            for _ in range(5):
                producer.produce(topic, b"%d" % self.written)
                self.written += 1
            producer.poll(0)
        assert producer.flush(60) == 0

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def told_by_job(state: Path) -> str:
    """Its log: while no login is possible, its status reaches no cluster."""
    return "\n".join(log.read_text(errors="replace") for log in state.rglob("*.log"))


def test_each_command_logs_in_and_a_mirror_outlives_what_refuses_its_logins(
    running: Running, login: Login, unique: str, tmp_path: Path
) -> None:
    env, state = str(running.folder), tmp_path / "state"
    running.reconciler("validate", env)
    running.reconciler("plan", env, code=2)
    running.apply()
    running.reconciler("plan", env)

    def status() -> str:
        return json.dumps(json.loads(running.reconciler("status", env, "--format", "json")))

    load = Load(login.clusters["east"], unique)
    try:
        until("the mirror copies", lambda: '"records_lag"' in status(), 240)
        began = time.monotonic()
        time.sleep(max(5.0, (SECONDS - REFUSED_SECONDS) / 2))
        at_refusal = load.written
        login.refuse()
        try:
            time.sleep(REFUSED_SECONDS)
            log = told_by_job(state)
            assert login.said in running.reconciler("plan", env, code=1, told=True)
        finally:
            login.allow()
        assert load.written > at_refusal + 1000, "there was load meanwhile"
        assert login.said in log, log[-3000:]
        time.sleep(max(5.0, began + SECONDS - time.monotonic()))
    finally:
        load.stop()
    until("the mirror has caught up", lambda: '"records_lag": 0, ' in status(), 240)
    until("the condition is over", lambda: "condition over" in told_by_job(state), 60)
    until("nothing is wrong any more", lambda: '"conditions": []' in status(), 60)
    copies = content(login.clusters["west"], f"east.{unique}", 2)
    values = sorted(int(value) for records in copies.values() for _, value, _, _ in records if value)
    assert values == list(range(load.written)), "nothing is lost or doubled"
    by_one_client = "our own connections" in running.reconciler("verify", env, told=True)
    assert by_one_client == any(client.get("sasl.mechanism") == "GSSAPI" for client in login.clients.values())
    running.reconciler("failover", env, "east-to-west", "--yes")
