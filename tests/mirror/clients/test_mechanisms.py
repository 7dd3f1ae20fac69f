"""Every SASL mechanism beside SCRAM-SHA-512, at a broker that asks for it again every few seconds (KIP-368)."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd, LaneProgress
from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import ports
from reconciler_sandbox.brokers import server_properties as properties
from reconciler_sandbox.brokers.up_down import Launch, bring_up
from reconciler_sandbox.handles import ClusterHandle
from reconciler_sandbox.profiles import HOST, QUICK_START, Profile, SandboxBroker

from reconciler.backends.clusters.acls_and_quotas import QuotaRequests
from reconciler.backends.clusters.permissions import cluster_facts
from reconciler.backends.clusters.replicas import ReplicaRequests
from reconciler.backends.clusters.users import UserRequests
from reconciler.errors import Unknown
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.principals import Mechanism
from tests.support.commands import Ended, Write
from tests.support.lanes.lane_runs import Flow, UntilControl, caught_up, fill

CreateTopic = Callable[..., str]
PROFILE = Profile("sasl", 1, 1, 1, secure=False, heap="256m", jvm=QUICK_START, clusters=("east",))
PASSWORD = "s3cret-of-ada"
TOKEN_SECONDS = 30
REAUTHENTICATION_MS = 6_000
"""A fifth of it is what a busy machine may take from a request's sending to its being read."""
_MODULE = "org.apache.kafka.common.security"


def _listeners(broker: SandboxBroker) -> dict[str, str]:
    """A plain listener for the test, and one port further another that wants SASL."""
    name = "listener.name.sasl"
    return {
        "listeners": f"PLAINTEXT://{HOST}:{broker.port},SASL://{HOST}:{broker.port + 5},"
        f"CONTROLLER://{HOST}:{broker.controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "connections.max.reauth.ms": str(REAUTHENTICATION_MS),
        f"{name}.plain.sasl.jaas.config": f'{_MODULE}.plain.PlainLoginModule required user_ada="{PASSWORD}";',
        f"{name}.scram-sha-256.sasl.jaas.config": f"{_MODULE}.scram.ScramLoginModule required;",
        f"{name}.oauthbearer.sasl.jaas.config": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required;",
    }


@pytest.fixture(scope="module")
def east() -> Iterator[ClusterHandle]:
    with pytest.MonkeyPatch.context() as patch, guardian.guarded_home() as home:
        patch.setattr(properties, "_plain_listeners", _listeners)
        base, reserved = ports.reserve_block()
        with reserved:
            handle = bring_up(Launch(PROFILE, home, base))["east"]
        credential = UserScramCredentialUpsertion(
            "ada", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), PASSWORD.encode()
        )
        admin = AdminClient(handle.super_client())
        admin.alter_user_scram_credentials([credential])["ada"].result(60)
        yield handle


@dataclass(frozen=True)
class Tokens:
    """An authorization server whose tokens hold for a few seconds; ``given`` counts them."""

    url: str
    given: list[float]


def _token() -> str:
    """Unsecured JWS (RFC 7515, alg none), which a broker without further settings takes."""
    now = time.time()
    parts = [{"alg": "none"}, {"sub": "ada", "iat": now, "exp": now + TOKEN_SECONDS, "scope": "kafka"}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + "."


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    given: list[float] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the server's name
            self.rfile.read(int(self.headers["Content-Length"]))
            given.append(time.monotonic())
            body = json.dumps({"access_token": _token(), "token_type": "bearer", "expires_in": TOKEN_SECONDS}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer((HOST, 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield Tokens(f"http://{HOST}:{server.server_port}", given)
    server.shutdown()
    thread.join()
    server.server_close()


def _client(east: ClusterHandle, mechanism: str, tokens: Tokens) -> dict[str, str]:
    port = east.brokers[0].port + 5
    common = {
        "bootstrap.servers": f"{HOST}:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    if mechanism != "OAUTHBEARER":
        return {**common, "sasl.username": "ada", "sasl.password": PASSWORD}
    return {
        **common,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "ada",
        "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.token.endpoint.url": tokens.url,
    }


@pytest.mark.kafka
@pytest.mark.parametrize(
    "mechanism", [*(pytest.param(each, marks=pytest.mark.long) for each in ("PLAIN", "SCRAM-SHA-256")), "OAUTHBEARER"]
)
def test_requests_of_the_reconciler_log_in_so_too(east: ClusterHandle, tokens: Tokens, mechanism: str) -> None:
    client = _client(east, mechanism, tokens)
    cluster = Cluster("east", (client.pop("bootstrap.servers"),), client=client)
    with UserRequests(cluster, Principal.PLAN) as users:
        assert users.described() == {"ada": {Mechanism.SHA_256: 4096}}
    with QuotaRequests(cluster, Principal.PLAN) as quotas:
        assert quotas.described(quotas.brokers()[0]) == {}
    told = cluster_facts(cluster, Principal.PLAN)
    assert not [one for one in (told.brokers, told.features, told.skew_ms, told.quotas) if isinstance(one, Unknown)]
    with ReplicaRequests(cluster, Principal.PLAN) as replicas:
        until = time.monotonic() + 1.5 * REAUTHENTICATION_MS / 1000
        while time.monotonic() < until:
            assert replicas.moves() == ()
            time.sleep(0.5)


@pytest.mark.kafka
@pytest.mark.parametrize(
    "mechanism", [*(pytest.param(each, marks=pytest.mark.long) for each in ("PLAIN", "SCRAM-SHA-256")), "OAUTHBEARER"]
)
def test_copies_on_and_on_while_sessions_end(
    east: ClusterHandle, tokens: Tokens, unique: str, create_topic: CreateTopic, mechanism: str
) -> None:
    """A trickle over several session lifetimes: nothing fails, nothing is missing."""
    client = _client(east, mechanism, tokens)
    flow = replace(Flow(east, east, unique, 1), clients=(client, client))
    create_topic(east, flow.topic)
    create_topic(east, flow.remote)
    producer = Producer({**east.super_client(), "linger.ms": 0})
    lane, reports = flow.lane(), []
    control = UntilControl(lane.partitions, lambda _: False, 120)
    thread = threading.Thread(target=lambda: reports.append(batch_path(lane, control)))
    thread.start()
    began, slowest = time.monotonic(), 0.0
    while (sent := time.monotonic()) - began < 2.2 * REAUTHENTICATION_MS / 1000:
        producer.produce(flow.topic, b"%d" % int(sent * 1000))
        producer.flush(20)
        slowest = max(slowest, time.monotonic() - sent)
        time.sleep(0.02)
    control.done = flow.at_end()
    thread.join(60)
    assert [report.end for report in reports] == [LaneEnd.STOPPED], reports
    assert flow.target_content() == flow.source_content()
    last: LaneProgress = control.reports[-1]
    copying = next(one for one in control.reports if any(p.records for p in one.partitions))
    if slowest < 0.1 * REAUTHENTICATION_MS / 1000:  # else this broker cannot answer within what is left of a session
        assert last.retries == copying.retries, "a session that ends is no failure"
    if mechanism == "OAUTHBEARER":
        renewals = (time.monotonic() - began) / (0.8 * TOKEN_SECONDS)
        assert 1 <= len(tokens.given) <= 2 + renewals, "sessions share a token until 80 % of its life"


@pytest.mark.kafka
def test_a_token_that_no_one_signed_is_taken_where_the_broker_takes_it(
    east: ClusterHandle, tokens: Tokens, unique: str, create_topic: CreateTopic
) -> None:
    """By both clients alike: ours copies, librdkafka's reads the ends."""
    client = {
        **{k: v for k, v in _client(east, "OAUTHBEARER", tokens).items() if not k.startswith("sasl.oauthbearer")},
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=ada scope=kafka lifeSeconds=30",
    }
    flow = replace(Flow(east, east, unique, 1), clients=(client, client))
    create_topic(east, flow.topic)
    create_topic(east, flow.remote)
    fill(east, unique, [(b"k", b"v", (), int(time.time() * 1000))])
    report, _ = flow.run(batch_path)
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()
    assert AdminClient(client).list_topics(flow.remote, timeout=20).topics[flow.remote].error is None
    assert tokens.given == []


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", ["PLAIN", pytest.param("SCRAM-SHA-256", marks=pytest.mark.long)])
def test_a_rotated_password_is_reported_by_every_command_and_by_a_lane(
    east: ClusterHandle,
    tokens: Tokens,
    unique: str,
    create_topic: CreateTopic,
    tmp_path: Path,
    write: Write,
    cli: Callable[..., Ended],
    mechanism: str,
) -> None:
    """The lane goes on by itself once the file has the new one."""
    create_topic(east, unique)
    create_topic(east, f"east.{unique}")
    fill(east, unique, [(b"k", b"v", (), 1)])
    kept = tmp_path / "password"
    kept.write_text("not the password")
    client = {**_client(east, mechanism, tokens), "sasl.password": f"${{file:{kept}}}"}
    settings = dict(client)
    servers = settings.pop("bootstrap.servers")
    cluster = {"bootstrap_servers": [servers], "cluster_id": east.cluster_id, "client": settings}
    folder = write(json.dumps({"clusters": {"east": cluster}}))
    assert cli("validate", folder).code == 0, "it is known only there"
    said = f"broker {servers} refused {mechanism}: "
    for command in ("plan", "doctor"):
        told = cli(command, folder)
        assert (told.code, said in told.words.replace("Broker", "broker"), "not the password" in told.words) == (
            1,
            True,
            False,
        ), told
    lane = replace(Flow(east, east, unique, 1), clients=(client, client)).lane()
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 30))
    assert report.end is LaneEnd.FAILED, report
    [condition] = report.progress.conditions
    assert (condition.code, said in condition.text) == ("authentication_failed", True), condition
    assert "not the password" not in condition.text
    kept.write_text(PASSWORD)
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
    assert report.end is LaneEnd.STOPPED, report
