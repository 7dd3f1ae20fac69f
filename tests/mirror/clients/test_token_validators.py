"""Tokens at brokers that prove them: Kafka's validator with an issuer's keys, and AWS' signature made again in Java."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from reconciler_mirror.lane.run import batch_path
from reconciler_mirror.model.lane import LaneEnd, LaneSpec
from reconciler_mirror.verify.model import OffsetSpan
from reconciler_mirror.verify.read_partition import Readers, records
from reconciler_mirror.verify.second_client import partition_reader
from reconciler_sandbox.handles import ClusterHandle

from reconciler.backends.clusters.permissions import cluster_facts
from reconciler.errors import Unknown
from reconciler.kafka.client.auth import oauth
from reconciler.kafka.client.auth.tokens import aws, web
from reconciler.kafka.client.auth.tokens.aws import AwsKeys, presigned
from reconciler.model.environment.topology import Cluster, Principal
from tests.support.access import token_brokers as brokers
from tests.support.access.identity import IdentityAnswer, IdentityRequest, identity_server
from tests.support.access.issuer import AUDIENCE, CLIENT, GRANT, SECRET, Issuer, pem, running_issuer
from tests.support.commands import Ended, Write
from tests.support.lanes.lane_runs import Flow, UntilControl, caught_up, endpoint, fill
from tests.support.lanes.truth import map_topic

CreateTopic = Callable[..., str]
pytestmark = [pytest.mark.kafka, pytest.mark.long]
WAYS = {
    "basic": {},
    "form": {"client_authentication": "client_secret_post"},
    "private_key_jwt": {"client_authentication": "private_key_jwt", "client_secret": ""},
    "jwt-bearer": {"grant_type": GRANT, "client_secret": ""},
}
REFUSED: dict[str, tuple[dict[str, object], str, str]] = {
    "wrong audience": ({"aud": "other.example.net"}, "k1", "aud 'other.example.net'"),
    "no audience": ({"aud": None}, "k1", "The token has iss 'https://issuer.test', sub 'ada'"),
    "wrong issuer": ({"iss": "https://evil.test"}, "k1", "iss 'https://evil.test'"),
    "expired": ({"exp": 1_795_780_800}, "k1", "an end at 2026-11-27T12:00:00Z, and the clock here says 20"),
    "unknown key": ({}, "k2", "key 'k2'"),
}


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Issuer, ClusterHandle]]:
    with running_issuer() as issuer, brokers.token_brokers(issuer) as sandbox:
        yield issuer, sandbox["east"]


@pytest.fixture
def east(started: tuple[Issuer, ClusterHandle], monkeypatch: pytest.MonkeyPatch) -> ClusterHandle:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    named = {"ACCESS_KEY_ID": brokers.KEY, "SECRET_ACCESS_KEY": brokers.AWS_SECRET, "SESSION_TOKEN": brokers.SESSION}
    for name, value in named.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return started[1]


@pytest.fixture
def issuer(started: tuple[Issuer, ClusterHandle], monkeypatch: pytest.MonkeyPatch) -> Issuer:
    monkeypatch.setattr(oauth, "_kept", {})
    issuer = started[0]
    issuer.changed, issuer.kid, issuer.answer, issuer.life, issuer.secret = {}, "k1", None, 300.0, SECRET
    return issuer


@pytest.fixture
def flow(east: ClusterHandle, unique: str, create_topic: CreateTopic) -> Flow:
    made = Flow(east, east, unique)
    create_topic(east, made.topic)
    create_topic(east, made.remote)
    map_topic(east)
    fill(east, made.topic, [(b"%d" % n, b"v", (), int(time.time() * 1000)) for n in range(50)])
    return made


@pytest.fixture
def told(
    east: ClusterHandle, write: Write, cli: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """That ``plan`` and ``doctor`` say why a login is refused which ``validate`` has nothing against."""

    def by_commands(client: dict[str, str], *said: str) -> None:
        settings = dict(client)
        servers = settings.pop("bootstrap.servers")
        if secret := settings.get("sasl.oauthbearer.client.secret"):
            monkeypatch.setenv("OF_ADA", secret)
            settings["sasl.oauthbearer.client.secret"] = "${env:OF_ADA}"
        cluster = {"bootstrap_servers": [servers], "cluster_id": east.cluster_id, "client": settings}
        folder = write(json.dumps({"clusters": {"east": cluster}}))
        assert cli("validate", folder).code == 0, "it is known only there"
        for command in ("plan", "doctor"):
            ended = cli(command, folder)
            assert ended.code == 1, ended
            assert [words for words in said if words not in ended.words] == [], ended.words
            assert without_secrets(ended.words)
        monkeypatch.setattr(oauth, "_kept", {})

    return by_commands


def without_secrets(text: str) -> bool:
    return not [secret for secret in (SECRET, brokers.AWS_SECRET, brokers.SESSION, "Signature=") if secret in text]


def fails(lane: LaneSpec, *said: str) -> None:
    """With the condition that a running job has then."""
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 30))
    assert report.end is LaneEnd.FAILED, report
    [condition] = report.progress.conditions
    assert condition.code == "authentication_failed"
    assert [words for words in said if words not in condition.text] == [], condition
    assert without_secrets(condition.text)


def log_in_refused(client: dict[str, str]) -> str:
    """Of a cluster's facts; empty where it answers."""
    settings = dict(client)
    cluster = Cluster("east", (settings.pop("bootstrap.servers"),), client=settings)
    told = cluster_facts(cluster, Principal.PLAN).brokers
    return told.error if isinstance(told, Unknown) else ""


def read_by_librdkafka(client: dict[str, str], topic: str) -> int:
    """As ``verify`` reads."""
    with closing(partition_reader(endpoint("east", client), "read_committed")) as reader:
        reader.assign([TopicPartition(topic, 0, 0)])
        found, until = 0, time.monotonic() + 60
        while found < 50:
            assert time.monotonic() < until
            found += sum(message.error() is None for message in reader.consume(50, 1))
    return found


def of_issuer(east: ClusterHandle, issuer: Issuer, **more: str) -> dict[str, str]:
    return {**brokers.client(east, "OAUTHBEARER"), **issuer.client(**more)}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_oidc_is_taken_by_the_validator_of_kafka(
    east: ClusterHandle, issuer: Issuer, flow: Flow, way: str
) -> None:
    more = WAYS[way]
    if not more.get("client_secret", "by secret"):
        more = more | {"assertion_private_key_pem": pem(issuer.of_client)}
    client = of_issuer(east, issuer, **more)
    asked = issuer.asked
    assert log_in_refused(client) == ""
    assert read_by_librdkafka(client, flow.topic) == 50
    assert issuer.asked == asked + 1, "both clients share a token"
    report, _ = replace(flow, clients=(client, client)).run(batch_path)
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize("cloud", ["azure", "aws_sts"])
def test_the_jwt_of_a_clouds_identity_is_taken_by_the_validator_of_kafka(
    east: ClusterHandle, issuer: Issuer, flow: Flow, monkeypatch: pytest.MonkeyPatch, cloud: str
) -> None:
    """Of Azure's machine identity, and of GetWebIdentityToken."""

    def answers(_: IdentityRequest) -> IdentityAnswer:
        if cloud == "azure":
            return issuer.grant()
        return IdentityAnswer(f"<R><Result><WebIdentityToken>{issuer.token()}</WebIdentityToken></Result></R>")

    settings = {
        "azure": {"scope": "api://kafka/.default"},
        "aws_sts": {"audience": AUDIENCE, "aws.region": brokers.REGION},
    }[cloud]
    with identity_server(answers) as server:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        named = {f"sasl.oauthbearer.{name}": value for name, value in {"method": cloud, **settings}.items()}
        client = {**brokers.client(east, "OAUTHBEARER"), **named}
        assert log_in_refused(client) == ""
        report, _ = replace(flow, clients=(client, client)).run(batch_path)
        assert report.end is LaneEnd.STOPPED, report
        assert flow.target_content() == flow.source_content()
        assert len(server.asked) == 1, "both ask for one token, and share it"


@pytest.mark.parametrize("where", ["metadata", "service_account", "external_account"])
def test_googles_envelope_holds_a_token_that_the_validator_of_kafka_takes(
    east: ClusterHandle, issuer: Issuer, flow: Flow, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    flavor = {"Metadata-Flavor": "Google"}

    def answers(request: IdentityRequest) -> IdentityAnswer:
        if request.path.endswith("/email"):
            return IdentityAnswer(CLIENT, headers=flavor)
        if request.path.startswith("/v1/projects"):
            return IdentityAnswer({"accessToken": issuer.token(), "expireTime": "2026-11-28T12:00:00Z"})
        return issuer.grant()

    with identity_server(answers) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        client = brokers.client(east, "GCP")
        if where != "metadata":
            (tmp_path / "subject").write_text("ey.of.pod")
            federated = {
                "type": where,
                "audience": "//iam/pool",
                "token_url": f"{server.url}/token",
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "credential_source": {"file": str(tmp_path / "subject")},
                "service_account_impersonation_url": f"{server.url}/v1/projects/-/serviceAccounts/{CLIENT}:generate",
            }
            document = issuer.service_account() if where == "service_account" else federated
            place = tmp_path / "credentials.json"
            place.write_text(json.dumps(document))
            client["sasl.oauthbearer.gcp.credentials.location"] = str(place)
        assert log_in_refused(client) == ""
        assert read_by_librdkafka(client, flow.topic) == 50
        report, _ = replace(flow, clients=(client, client)).run(batch_path)
        assert report.end is LaneEnd.STOPPED, report
        assert flow.target_content() == flow.source_content()


def test_what_is_wrong_with_googles_envelope_is_reported_with_its_holder(
    east: ClusterHandle, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "credentials.json"
    place.write_text(json.dumps({**issuer.service_account(), "client_email": "bob"}))
    client = {**brokers.client(east, "GCP"), "sasl.oauthbearer.gcp.credentials.location": str(place)}
    assert "Check that service account bob still has this key" in log_in_refused(client)
    monkeypatch.setattr(oauth, "_kept", {})
    place.write_text(json.dumps(issuer.service_account()))
    issuer.changed = {"sub": "bob"}
    told = log_in_refused(client)
    assert "another holder" in told, told
    assert f"sub '{CLIENT}'" in told, told
    assert ("expected" in told, "ey" in told) == (False, False), "brokers of Google compare nothing of that name"


@pytest.mark.parametrize("why", REFUSED)
def test_a_token_that_the_validator_refuses_is_reported_with_what_it_compares(
    east: ClusterHandle,
    issuer: Issuer,
    flow: Flow,
    told: Callable[..., None],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    issuer.changed, issuer.kid, said = REFUSED[why]
    client = of_issuer(east, issuer)
    told(client, 'refused OAUTHBEARER: {"status":"invalid_token"}', said, "sasl.oauthbearer.expected.*")
    lane = replace(flow, clients=(client, client)).lane()
    fails(lane, said)

    monkeypatch.setattr(oauth, "LONGEST_REFUSED", 0.1)
    assert log_in_refused(client) != ""
    issuer.changed, issuer.kid = {}, "k1"
    time.sleep(0.2)
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
    assert report.end is LaneEnd.STOPPED, "what was corrected at the issuer counts at once"
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize(
    ("more", "answer", "said"),
    [
        ({"scope": "admin"}, None, "400, invalid_scope: only kafka is granted. Check client ada for scope admin"),
        ({"client_secret": "another"}, None, "401, invalid_client: unknown client or secret. Check client ada"),
        ({}, IdentityAnswer("", 503), "it answered 503. It is asked again"),
    ],
)
def test_what_the_issuer_refuses_is_reported_by_commands_and_by_a_lane(
    east: ClusterHandle,
    issuer: Issuer,
    flow: Flow,
    told: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, str],
    answer: IdentityAnswer | None,
    said: str,
) -> None:
    """The lane copies once the issuer takes the client, or after a restart with another scope."""
    for name in ("FIRST_PAUSE", "LONGEST_REFUSED"):
        monkeypatch.setattr(oauth, name, 0.1)
    issuer.answer = answer
    client = of_issuer(east, issuer, **more)
    told(client, said)
    lane = replace(flow, clients=(client, client)).lane()
    fails(lane, said)
    issuer.answer, issuer.secret = None, more.get("client_secret", SECRET)
    if "scope" in more:
        right = of_issuer(east, issuer)
        lane = replace(flow, clients=(right, right)).lane()
    time.sleep(0.5)
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()


ROLE = "arn:aws:iam::123456789012:role/kafka"
STOPS = {
    "several identities": (
        IdentityAnswer({"error": "invalid_request", "error_description": "Multiple identities exist"}, 400),
        "Multiple identities exist. Assign a managed identity to this machine, with a role on api://kafka",
    ),
    "web page": (IdentityAnswer("<html>", headers={"Content-Type": "text/html"}), "text/html, not JSON"),
    "redirect": (IdentityAnswer("", 302, {"Location": "http://127.0.0.1:1/"}), "it answered 302, a redirect"),
    "no end": (IdentityAnswer("x" * (web.LARGEST + 100_000)), "its answer does not end"),
    "hangs": (None, "no whole answer within 0.3 s"),
    "role": (
        IdentityAnswer("<E><Code>AccessDenied</Code><Message>not authorized</Message></E>", 403),
        f"403, AccessDenied: not authorized. Let the identity of key {brokers.KEY} assume role {ROLE}",
    ),
    "empty file": (None, "AZURE_FEDERATED_TOKEN_FILE names {proof}, which is empty"),
    "missing file": (None, "AZURE_FEDERATED_TOKEN_FILE names {proof}, which cannot be read: No such file"),
    "proxy": (None, "127.0.0.1 through http_proxy 127.0.0.1:9: "),
}


def keys_of_role() -> IdentityAnswer:
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 300))
    keys = {"AccessKeyId": brokers.KEY, "SecretAccessKey": brokers.AWS_SECRET, "SessionToken": brokers.SESSION}
    inside = "".join(f"<{name}>{value}</{name}>" for name, value in {**keys, "Expiration": end}.items())
    return IdentityAnswer(f"<R><Credentials>{inside}</Credentials></R>")


@pytest.mark.parametrize("why", STOPS)
def test_what_stops_a_login_here_is_reported_and_ends_with_its_cause(
    east: ClusterHandle,
    issuer: Issuer,
    flow: Flow,
    told: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    why: str,
) -> None:
    bad, said = STOPS[why]
    proof, broken = tmp_path / "federated", True
    said = said.format(proof=proof)

    def answers(_: IdentityRequest) -> IdentityAnswer:
        if broken and why == "hangs":
            time.sleep(1)
        if broken and bad is not None:
            return bad
        return keys_of_role() if why == "role" else issuer.grant()

    with identity_server(answers) as server:
        variables = {"AZURE_POD_IDENTITY_AUTHORITY_HOST": server.url, "AWS_ENDPOINT_URL_STS": server.url}
        named = {"method": "azure", "scope": "api://kafka/.default"}
        if why.endswith("file"):
            variables |= {"AZURE_AUTHORITY_HOST": server.url, "AZURE_FEDERATED_TOKEN_FILE": str(proof)}
            named |= {"client.id": CLIENT, "azure.tenant_id": "tenant"}
        if why == "empty file":
            proof.write_text("\n")
        if why == "proxy":
            variables["http_proxy"] = f"http://{CLIENT}:{SECRET}@127.0.0.1:9"
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for name in ("FIRST_PAUSE", "LONGEST_REFUSED"):
            monkeypatch.setattr(oauth, name, 0.1)
        monkeypatch.setattr(web, "SECONDS", 0.3 if why == "hangs" else 10.0)
        azure = {f"sasl.oauthbearer.{name}": value for name, value in named.items()}
        client = {
            "role": brokers.client(east, "AWS_MSK_IAM") | {"sasl.oauthbearer.aws.role_arn": ROLE},
            "proxy": of_issuer(east, issuer),
        }.get(why, brokers.client(east, "OAUTHBEARER") | azure)

        told(client, said)
        lane = replace(flow, clients=(client, client)).lane()
        fails(lane, said)

        broken = False
        monkeypatch.setattr(web, "SECONDS", 10.0)
        proof.write_text("ey.of.pod")
        monkeypatch.delenv("http_proxy", raising=False)
        monkeypatch.setattr(web, "SECONDS", 10.0)
        time.sleep(1.5)
        report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
        assert report.end is LaneEnd.STOPPED, report
        assert flow.target_content() == flow.source_content()


def test_a_presigned_url_is_taken_by_anyone_who_makes_its_signature_again(east: ClusterHandle, flow: Flow) -> None:
    client = brokers.client(east, "AWS_MSK_IAM")
    assert log_in_refused(client) == ""
    assert read_by_librdkafka(client, flow.topic) == 50
    report, _ = replace(flow, clients=(client, client)).run(batch_path)
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize(
    ("variables", "region", "why", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another"}, brokers.REGION, "SignatureDoesNotMatch", f"credential '{brokers.KEY}/"),
        ({"AWS_ACCESS_KEY_ID": "AKIDOTHER"}, brokers.REGION, "UnrecognizedClient", "credential 'AKIDOTHER/"),
        ({"AWS_SESSION_TOKEN": "another"}, brokers.REGION, "InvalidClientTokenId", f"credential '{brokers.KEY}/"),
        ({}, "us-east-1", "wrong host or action", "/us-east-1/kafka-cluster/aws4_request'"),
    ],
)
def test_a_presigned_url_that_is_wrong_is_reported_with_what_it_says(
    east: ClusterHandle,
    flow: Flow,
    told: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    region: str,
    why: str,
    said: str,
) -> None:
    """Rotated keys, and a region that is not the brokers'. A lane has the condition, and copies once they are right."""
    monkeypatch.setattr(oauth, "_kept", {})
    for name in ("FIRST_PAUSE", "LONGEST_REFUSED"):
        monkeypatch.setattr(oauth, name, 0.1)
    right = brokers.client(east, "AWS_MSK_IAM")
    wrong = right | {"sasl.oauthbearer.aws.region": region}
    lane = replace(flow, clients=(wrong, wrong)).lane()
    with monkeypatch.context() as rotated:
        for name, value in variables.items():
            rotated.setenv(name, value)
        told(wrong, why, said)
        fails(lane, why, said)
    if wrong != right:
        lane = replace(flow, clients=(right, right)).lane()
    time.sleep(0.5)
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()


@pytest.mark.parametrize(("off", "why"), [(600, "token not yet current"), (-1200, "token expired")])
def test_a_clock_that_is_off_is_reported_with_both_times(
    east: ClusterHandle,
    flow: Flow,
    told: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    off: int,
    why: str,
) -> None:
    """Commands and a lane tell it, and the lane goes on once the clock is right."""
    monkeypatch.setattr(oauth, "_kept", {})
    for name in ("FIRST_PAUSE", "LONGEST_REFUSED"):
        monkeypatch.setattr(oauth, name, 0.1)
    client, now = brokers.client(east, "AWS_MSK_IAM"), time.time
    lane = replace(flow, clients=(client, client)).lane()
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: now() + off)
        said = (why, "the clock here says 20", "with the broker's clock")
        told(client, *said)
        fails(lane, *said)
    time.sleep(1.5)
    report = batch_path(lane, UntilControl(lane.partitions, caught_up, 60))
    assert report.end is LaneEnd.STOPPED, report
    assert flow.target_content() == flow.source_content()


def test_a_clock_that_is_behind_interrupts_no_lane(
    east: ClusterHandle, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS' signers have URLs live for 15 minutes, of which a broker grants 20 s here."""
    monkeypatch.setattr(oauth, "_kept", {})
    client, now = brokers.client(east, "AWS_MSK_IAM"), time.time
    lane = replace(flow, clients=(client, client)).lane()
    monkeypatch.setattr(time, "time", lambda: now() - 880)
    began = time.monotonic()
    control = UntilControl(lane.partitions, lambda _: False, 120)
    thread = threading.Thread(target=control.copy, args=(lane,))
    thread.start()
    while time.monotonic() < began + 50:
        fill(east, flow.topic, [(b"k", b"v", (), int(now() * 1000))])
        time.sleep(0.5)
    control.done = flow.at_end()
    thread.join(60)
    assert control.over is not None
    assert control.over.end is LaneEnd.STOPPED, control.over  # type: ignore[attr-defined]
    assert [report.conditions for report in control.reports if report.conditions] == []
    assert flow.target_content() == flow.source_content()


def test_a_clock_that_is_behind_interrupts_no_verify(
    east: ClusterHandle, flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a URL's 15 minutes the broker grants 60 s here. librdkafka knows this machine's clock alone."""
    monkeypatch.setattr(oauth, "_kept", {})

    def behind(keys: AwsKeys, url: str, query: Mapping[str, str], scope: tuple[str, str], at: float, life: int) -> str:
        return presigned(keys, url, query, scope, at - 840, life)

    monkeypatch.setattr(aws, "presigned", behind)
    span = OffsetSpan(endpoint("east", brokers.client(east, "AWS_MSK_IAM")), flow.topic, 0, "read_committed", 0, 0)
    with closing(Readers()) as readers:
        until, written = time.monotonic() + 90, 50
        while time.monotonic() < until:
            assert sum(1 for _ in records(span, readers, to_end=True)) == written
            fill(east, flow.topic, [(b"k", b"v", (), int(time.time() * 1000))])
            written += 1
            time.sleep(0.5)
        assert readers.one_client == {}
