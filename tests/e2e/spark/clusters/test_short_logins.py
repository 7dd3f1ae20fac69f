"""Tokens and Kerberos through each command, and a mirror whose logins live for a minute, under load.

A run takes LOGIN_MINUTES, 3 unless set; 100 s of it, in the middle, no login can be renewed. What is written then
arrives afterwards, each record once, without a restart of the job.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from reconciler_sandbox.brokers import kerberos as kdc
from reconciler_sandbox.handles import ClusterHandle, Sandbox

from tests.support.access import token_brokers as brokers
from tests.support.access.identity import IdentityAnswer, IdentityRequest, identity_server
from tests.support.access.issuer import SECRET, running_issuer
from tests.support.jobs.environments import Running
from tests.support.jobs.verify_runs import until
from tests.support.lanes.lane_runs import content

SECONDS = float(os.environ.get("LOGIN_MINUTES", "3")) * 60
REFUSED_SECONDS, LIFE_SECONDS = 100, 60
pytestmark = [pytest.mark.spark, pytest.mark.timeout(SECONDS + 900), pytest.mark.long]
FLOW = """\
topics:
  {topic}: {{clusters: [east]}}
flows:
  east-to-west: {{source: east, target: west, topics: [{topic}], lanes: 1}}
mirrors:
  west: {{}}
"""


@dataclass
class Login:
    """``said``: of each refusal, what a condition has to say; empty where nothing gives logins that could refuse them.
    ``refuse`` and ``allow``: what gives the logins."""

    clusters: dict[str, ClusterHandle]
    clients: dict[str, dict[str, str]]
    environ: dict[str, str]
    said: str

    def refuse(self) -> None: ...

    def allow(self) -> None: ...


@contextlib.contextmanager
def of_issuer() -> Iterator[Login]:
    with running_issuer() as issuer, brokers.token_brokers(issuer, ("east", "west"), LIFE_SECONDS * 1000) as sandbox:
        issuer.life = LIFE_SECONDS
        clients = {name: brokers.client(handle, "OAUTHBEARER") for name, handle in sandbox.clusters.items()}
        environ = {"SECRET_OF_ADA": SECRET}

        class OfIssuer(Login):
            def refuse(self) -> None:
                issuer.answer = IdentityAnswer({"error": "temporarily_unavailable"}, 503)

            def allow(self) -> None:
                issuer.answer = None

        of_ada = {**issuer.client(), "sasl.oauthbearer.client.secret": "${env:SECRET_OF_ADA}"}
        said = "it answered 503, temporarily_unavailable"
        yield OfIssuer(dict(sandbox.clusters), {n: {**c, **of_ada} for n, c in clients.items()}, environ, said)


@contextlib.contextmanager
def of_kdc(realm: Sandbox) -> Iterator[Login]:
    class OfKdc(Login):
        def refuse(self) -> None:
            kdc.stop(realm.home)

        def allow(self) -> None:
            port = int(kdc.configuration(realm.home).read_text().rpartition("kdc = ")[2].split()[0].rpartition(":")[2])
            kdc.start(realm.home, port, ())

    clients = {name: handle.kerberos_client("mirror") for name, handle in realm.clusters.items()}
    kdc.kadmin(realm.home, f"modprinc -maxlife {LIFE_SECONDS}s mirror", f"modprinc -maxlife {LIFE_SECONDS}s admin")
    login = OfKdc(dict(realm.clusters), clients, dict(realm.secrets()), "KDC")
    try:
        yield login
    finally:
        login.allow()
        kdc.kadmin(realm.home, "modprinc -maxlife 1day mirror", "modprinc -maxlife 1day admin")


@contextlib.contextmanager
def of_role() -> Iterator[Login]:
    """Keys of a container's role that live for a minute, as ECS and EKS give them."""
    refused = threading.Event()

    def answer(_: IdentityRequest) -> IdentityAnswer:
        if refused.is_set():
            return IdentityAnswer("service unavailable", 503)
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + LIFE_SECONDS))
        keys = {"AccessKeyId": brokers.KEY, "SecretAccessKey": brokers.AWS_SECRET, "Token": brokers.SESSION}
        return IdentityAnswer({**keys, "Expiration": end})

    class OfRole(Login):
        def refuse(self) -> None:
            refused.set()

        def allow(self) -> None:
            refused.clear()

    with (
        running_issuer() as issuer,
        brokers.token_brokers(issuer, ("east", "west"), LIFE_SECONDS * 1000) as sandbox,
        identity_server(answer) as server,
    ):
        clients = {name: brokers.client(handle, "AWS_MSK_IAM") for name, handle in sandbox.clusters.items()}
        environ = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/v1/credentials"}
        yield OfRole(dict(sandbox.clusters), clients, environ, "it answered 503")


def of_ada(cluster: ClusterHandle, mechanism: str) -> dict[str, str]:
    return {**brokers.client(cluster, mechanism), "sasl.password": "${env:PASSWORD_OF_ADA}"}


@contextlib.contextmanager
def of_scram() -> Iterator[Login]:
    """Sessions of a minute; a user who is deleted, and made again with the same password."""
    with running_issuer() as issuer, brokers.token_brokers(issuer, ("east", "west"), LIFE_SECONDS * 1000) as sandbox:

        class OfScram(Login):
            def refuse(self) -> None:
                for cluster in self.clusters.values():
                    brokers.take_password(cluster)

            def allow(self) -> None:
                for cluster in self.clusters.values():
                    brokers.set_password(cluster, brokers.PASSWORD)

        clients = {name: of_ada(handle, "SCRAM-SHA-256") for name, handle in sandbox.clusters.items()}
        yield OfScram(dict(sandbox.clusters), clients, {"PASSWORD_OF_ADA": brokers.PASSWORD}, "SCRAM-SHA-256")


@contextlib.contextmanager
def of_password() -> Iterator[Login]:
    with running_issuer() as issuer, brokers.token_brokers(issuer, ("east", "west"), LIFE_SECONDS * 1000) as sandbox:
        clients = {name: of_ada(handle, "PLAIN") for name, handle in sandbox.clusters.items()}
        yield Login(dict(sandbox.clusters), clients, {"PASSWORD_OF_ADA": brokers.PASSWORD}, "")


@contextlib.contextmanager
def of_certificate(secure: Sandbox) -> Iterator[Login]:
    clients = {name: handle.mtls_client() for name, handle in secure.clusters.items()}
    yield Login(dict(secure.clusters), clients, {}, "")


@pytest.fixture(params=["OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM", "SCRAM-SHA-256", "PLAIN", "SSL"])
def login(request: pytest.FixtureRequest) -> Iterator[Login]:
    match request.param:
        case "GSSAPI":
            made = of_kdc(request.getfixturevalue("kerberos"))
        case "AWS_MSK_IAM":
            made = of_role()
        case "SCRAM-SHA-256":
            made = of_scram()
        case "PLAIN":
            made = of_password()
        case "SSL":
            made = of_certificate(request.getfixturevalue("secure"))
        case _:
            made = of_issuer()
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
        until("the mirror copies", lambda: '"records_lag"' in status(), 120)
        began = time.monotonic()
        if login.said:
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
        time.sleep(max(5.0, began + (SECONDS if login.said else LIFE_SECONDS) - time.monotonic()))
    finally:
        load.stop()
    until("the mirror has caught up", lambda: '"records_lag": 0, ' in status(), 120)
    if login.said:
        until("the condition is over", lambda: "condition over" in told_by_job(state), 60)
    until("nothing is wrong any more", lambda: '"conditions": []' in status(), 60)
    copies = content(login.clusters["west"], f"east.{unique}", 2)
    values = sorted(int(value) for records in copies.values() for _, value, _, _ in records if value)
    assert values == list(range(load.written)), "nothing is lost or doubled"
    by_one_client = "connections of our own" in running.reconciler("verify", env, told=True)
    assert by_one_client == any(client.get("sasl.mechanism") == "GSSAPI" for client in login.clients.values())
    running.reconciler("failover", env, "east-to-west", "--yes")
