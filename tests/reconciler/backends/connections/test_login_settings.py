"""Each security setting on each path that opens a connection: it arrives there, or it is refused with its name."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from reconciler_mirror.clients.own import cluster_of as cluster_of_job
from reconciler_mirror.verify import second_client
from reconciler_sandbox.brokers import certificates

from reconciler.backends.clusters import mirrormaker, permissions
from reconciler.backends.clusters.acls_and_quotas import AccessControl, QuotaControl
from reconciler.backends.clusters.cluster import KafkaCluster
from reconciler.backends.clusters.groups import Side
from reconciler.backends.clusters.impact import read_nature, read_stakes
from reconciler.backends.clusters.replicas import ReplicaRequests
from reconciler.backends.clusters.users import UserControl
from reconciler.backends.connections import dial
from reconciler.backends.mirror_jobs.status.records import StatusRecords, write_records
from reconciler.backends.state.audit import read_copy
from reconciler.backends.state.records import LockLog, RecordLog
from reconciler.errors import ReconcilerError
from reconciler.kafka.client import connections as wire_cluster
from reconciler.kafka.client import connections as wire_dial
from reconciler.kafka.client.auth.sasl import exchange
from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.errors import ConnectionLostError, SettingError, WireError
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.plan import ImpactQuery
from reconciler.replication.handover import Endpoint
from tests.support.access.security_settings import VERDICTS

HONOURED, REFUSED = VERDICTS["honoured"], (*VERDICTS["refused"], *VERDICTS["forbidden"])
PLAN = Principal.PLAN
KEY_PASSWORD = "s3cret-of-the-key"
AUTHORITY = "sandbox east authority"

Client = dict[str, str]


# settings and how it shows that each arrived


@dataclass(frozen=True)
class Files:
    """Of one authority: ``broker.pem`` of localhost, ``client.pem`` with ``client.key``, ``locked.key`` under
    KEY_PASSWORD, and a list of revoked certificates."""

    folder: Path

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def server(self, curve: str = "") -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("broker.pem"))
        context.load_verify_locations(self.path("ca.pem"))
        context.verify_mode = ssl.CERT_OPTIONAL
        if curve:
            context.set_ecdh_curve(curve)
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("certificates")
    certificates.make(folder, "east", ["client"])
    key = serialization.load_pem_private_key((folder / "client.key").read_bytes(), None)
    locked = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    (folder / "locked.key").write_bytes(pem)
    signer, now = certificates.authority("east"), datetime.datetime.now(datetime.UTC)
    revoked = x509.CertificateRevocationListBuilder().issuer_name(signer.certificate.subject)
    revoked = revoked.last_update(now).next_update(now + datetime.timedelta(days=1))
    signed = revoked.sign(signer.key, hashes.SHA256())
    (folder / "revoked.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return Files(folder)


_METHODS = {"aws": "aws_msk_iam", "azure": "azure", "gcp": "gcp"}
_OF_METHODS = {
    "sasl.oauthbearer.client.authentication": "client_secret_post",
    "sasl.oauthbearer.assertion.algorithm": "ES256",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "60",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "60",
    "sasl.oauthbearer.assertion.claim.jti.include": "false",
    "sasl.oauthbearer.aws.region": "eu-west-1",
    "sasl.oauthbearer.aws.role_arn": "arn:aws:iam::123456789012:role/mirror",
    "sasl.oauthbearer.aws.role_session_name": "mirror",
    "sasl.oauthbearer.aws.role_external_id": "external",
    "sasl.oauthbearer.aws.profile": "mirror",
    "sasl.oauthbearer.azure.tenant_id": "tenant",
    "sasl.oauthbearer.azure.certificate.location": "/etc/app.pem",
    "sasl.oauthbearer.gcp.credentials.location": "/etc/key.json",
}


def client_with(setting: str, files: Files) -> Client:
    """Settings that name ``setting`` and what it needs beside it."""
    tls = {"security.protocol": "SSL", "ssl.ca.location": files.path("ca.pem")}
    certificate = {"ssl.certificate.location": files.path("client.pem")}
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "ada"}
    plain |= {"sasl.password": "s3cret-of-ada"}
    oidc = tls | {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}
    unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=ada"}
    match setting:
        case "security.protocol":
            return tls | plain | {setting: "SASL_SSL"}
        case "sasl.mechanisms":
            return {**{key: value for key, value in plain.items() if key != "sasl.mechanism"}, setting: "SCRAM-SHA-256"}
        case "sasl.mechanism" | "sasl.username" | "sasl.password":
            return plain
        case "sasl.oauthbearer.config" | "enable.sasl.oauthbearer.unsecure.jwt":
            return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **unsecured}
        case "sasl.oauthbearer.method":
            return oidc
        case "sasl.oauthbearer.grant.type":
            return oidc | {setting: "client_credentials"}
        case "sasl.oauthbearer.extensions":
            return oidc | {setting: "logicalCluster=lkc-1"}
        case "sasl.oauthbearer.metadata.authentication.type":
            return oidc | {setting: "none"}
        case "https.ca.location" | "https.ca.pem":
            value = files.path("ca.pem") if setting.endswith("location") else files.text("ca.pem")
            return oidc | {setting: value}
        case "sasl.oauthbearer.token.endpoint.url":
            return oidc | {setting: f"https://127.0.0.1:1/{setting}"}
        case _ if setting.startswith("sasl.kerberos."):
            return tls | {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "GSSAPI",
                setting: "kafka" if setting.endswith("service.name") else files.path("locked.key"),
            }
        case _ if setting in _OF_METHODS:
            return oidc | {
                "sasl.oauthbearer.method": _METHODS.get(setting.split(".")[2], "oidc"),
                setting: _OF_METHODS[setting],
            }
        case _ if setting.startswith("sasl."):
            return oidc | {setting: f"value of {setting}"}
        case "ssl.ca.pem":
            return {"security.protocol": "SSL", setting: files.text("ca.pem")}
        case "ssl.certificate.pem":
            return tls | {setting: files.text("client.pem"), "ssl.key.location": files.path("client.key")}
        case "ssl.key.pem":
            return tls | certificate | {setting: files.text("client.key")}
        case "ssl.key.password":
            return tls | certificate | {"ssl.key.location": files.path("locked.key"), setting: KEY_PASSWORD}
        case "ssl.certificate.location" | "ssl.key.location":
            return tls | certificate | {"ssl.key.location": files.path("client.key")}
        case _:
            values = {
                "ssl.ca.location": files.path("ca.pem"),
                "ssl.crl.location": files.path("revoked.pem"),
                "ssl.cipher.suites": "ECDHE-ECDSA-AES256-GCM-SHA384",
                "ssl.curves.list": "P-384",
                "ssl.endpoint.identification.algorithm": "none",
                "enable.ssl.certificate.verification": "false",
            }
            return tls | {setting: values[setting]}


def arrived(setting: str, client: Client, made: ConnectionSettings, files: Files) -> bool:
    """Whether the connection that is about to be opened keeps to the setting."""
    match setting:
        case "security.protocol":
            return made.tls is not None and made.sasl is not None
        case "enable.sasl.oauthbearer.unsecure.jwt" | "sasl.oauthbearer.config":
            assert made.sasl is not None
            return b"auth=Bearer " in next(exchange(made.sasl))
        case "sasl.mechanism" | "sasl.mechanisms" | "sasl.username" | "sasl.password":
            assert made.sasl is not None
            return client[setting] == getattr(made.sasl, setting.removeprefix("sasl.").removesuffix("s"))
        case _ if setting.startswith("sasl.kerberos."):
            assert made.sasl is not None
            return client[setting] == getattr(made.sasl.kerberos, setting.split(".")[2])
        case _ if setting.startswith(("sasl.", "https.")):
            assert made.sasl is not None
            return made.sasl.oauth[setting.replace("client.credentials.", "")] == client[setting]
    assert made.tls is not None
    context = made.tls.context()
    match setting:
        case "ssl.crl.location":
            held = context.cert_store_stats()["crl"] == 1
            return held and bool(context.verify_flags & ssl.VERIFY_CRL_CHECK_LEAF)
        case "ssl.cipher.suites":
            return {one["name"] for one in context.get_ciphers() if one["protocol"] == "TLSv1.2"} == {client[setting]}
        case "ssl.endpoint.identification.algorithm":
            return not context.check_hostname
        case "enable.ssl.certificate.verification":
            return context.verify_mode is ssl.CERT_NONE
        case "ssl.curves.list":
            handshake(files.server("secp384r1"), context)
            with pytest.raises(ssl.SSLError):
                handshake(files.server("prime256v1"), context)
            return True
        case "ssl.ca.location" | "ssl.ca.pem":
            return [one["subject"] for one in context.get_ca_certs()] == [((("commonName", AUTHORITY),),)]
        case _:  # the client's certificate and key
            shown = handshake(files.server(), context).getpeercert() or {}
            return (("commonName", "client"),) in shown.get("subject", ())


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The server's side. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return theirs


# connections of our own


def _replicas(cluster: Cluster) -> object:
    with ReplicaRequests(cluster, PLAN) as requests:
        return requests.moves()


def _whole_cluster(cluster: Cluster) -> object:
    with KafkaCluster(cluster, PLAN) as reader:
        return reader.read()


def _of_the_job(cluster: Cluster) -> object:
    async def connected() -> None:
        await cluster_of_job(Endpoint(cluster.name, cluster.bootstrap_servers, cluster.client)).refresh(())

    return asyncio.run(connected())


OWN: Mapping[str, Callable[[Cluster], object]] = {
    "quotas": lambda cluster: QuotaControl(cluster, PLAN, "env").read(),
    "users": lambda cluster: UserControl(cluster, PLAN, "env").read(),
    "access rules": lambda cluster: AccessControl(cluster, PLAN, "env").read(),
    "reassignments": _replicas,
    "facts of doctor": lambda cluster: replace(permissions.cluster_facts(cluster, PLAN), addresses=()),
    "markers of doctor": lambda cluster: permissions.may_write_markers(cluster, PLAN),
    "permissions of doctor": lambda cluster: permissions.tried(cluster, PLAN, "groups", permissions.heartbeat, ["g"]),
    "positions of Connect": lambda cluster: mirrormaker.read_records(Side(cluster), "connect-offsets"),
    "groups": lambda cluster: Side(cluster).offsets(["g"]),
    "what is at stake": lambda cluster: read_stakes(cluster, PLAN, [ImpactQuery("orders", 1)]),
    "job": _of_the_job,
    "status": lambda cluster: StatusRecords(cluster, "env").read_all(0),
    "pauses": lambda cluster: write_records(cluster, PLAN, {"key": b"value"}),
    "records read": lambda cluster: RecordLog(cluster, PLAN).read("x"),
    "records written": lambda cluster: RecordLog(cluster, PLAN).write({"key": b"value"}),
    "lock read": lambda cluster: LockLog(cluster, "topic", "key", "id", PLAN).read(),
    "lock written": lambda cluster: LockLog(cluster, "topic", "key", "id", PLAN).fence(),
    "audit": lambda cluster: read_copy(cluster, PLAN, "topic", "env"),
    "whole clusters": _whole_cluster,
    "nature of a cluster": lambda cluster: read_nature(cluster, PLAN),
}
FALL_BACK = ("nature of a cluster",)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ConnectionSettings]:
    """With which settings connections were about to be opened; none is."""
    found: list[ConnectionSettings] = []

    async def connect(_address: object, settings: ConnectionSettings, pool: object) -> None:
        found.append(settings)
        raise ConnectionLostError("no further")

    monkeypatch.setattr(wire_dial, "connect", connect)
    monkeypatch.setattr(wire_cluster, "BACKOFF_FIRST", 0.0)
    return found


def told(path: str, client: Mapping[str, str]) -> str:
    """What is said about it, as an answer or as an error."""
    try:
        return str(OWN[path](Cluster("east", ("localhost:9093",), client=dict(client))))
    except (ReconcilerError, WireError) as error:
        return str(error)


@pytest.mark.parametrize("path", OWN)
def test_what_we_honour_arrives_on_each_connection_of_our_own(
    path: str, opened: list[ConnectionSettings], files: Files
) -> None:
    for setting in HONOURED:
        client = client_with(setting, files)
        opened.clear()
        words = told(path, client)
        assert opened, f"{setting}: {words}"
        assert arrived(setting, client, opened[0], files), setting


@pytest.mark.parametrize("path", OWN)
def test_what_we_do_not_honour_is_refused_with_its_name_and_nothing_is_opened(
    path: str, opened: list[ConnectionSettings], files: Files
) -> None:
    for setting in REFUSED:
        words = told(path, {"security.protocol": "SSL", "ssl.ca.location": files.path("ca.pem"), setting: "s3cret"})
        assert not opened, setting
        assert setting in words or path in FALL_BACK
        assert "s3cret" not in words


def test_a_wrong_password_of_a_key_is_reported_without_it(opened: list[ConnectionSettings], files: Files) -> None:
    client = client_with("ssl.key.password", files) | {"ssl.key.password": "s3cret-but-wrong"}
    for path in OWN:
        words = told(path, client)
        assert not opened
        assert "s3cret" not in words


def test_doctor_shakes_no_hands_with_settings_it_does_not_know(files: Files) -> None:
    for setting in REFUSED:
        found = dial.dial("localhost:1", {"security.protocol": "SSL", setting: "x"}, {})
        assert setting in found.error or not setting.startswith("ssl.")


# librdkafka


class CaughtError(Exception):
    """A client was about to be made with these settings."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = settings


def make(settings: Mapping[str, Any], **_: object) -> None:
    raise CaughtError(settings)


def _endpoint(cluster: Cluster) -> Endpoint:
    return Endpoint(cluster.name, cluster.bootstrap_servers, cluster.client)


LIBRDKAFKA: Mapping[str, Callable[[Cluster], object]] = {
    "verify": lambda cluster: second_client.partition_reader(_endpoint(cluster), "read_committed"),
}


@pytest.mark.parametrize("path", LIBRDKAFKA)
def test_every_setting_arrives_in_librdkafkas_configuration(
    path: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which refuses by name what it does not know."""
    monkeypatch.setattr(second_client, "Consumer", make)
    for names in VERDICTS.values():
        for setting in names:
            client = client_with(setting, files) if setting in HONOURED else {setting: "x"}
            declared = Cluster("east", ("localhost:9093",), client=client)
            if setting in VERDICTS["forbidden"]:
                with pytest.raises((ReconcilerError, SettingError), match=re.escape(setting)):
                    LIBRDKAFKA[path](declared)
                continue
            with pytest.raises(CaughtError) as caught:
                LIBRDKAFKA[path](declared)
            if setting.startswith(("sasl.oauth", "https.")) and client.get("sasl.oauthbearer.method"):
                assert callable(caught.value.settings["oauth_cb"])  # which has them from us
                assert setting not in caught.value.settings
            else:
                assert caught.value.settings[setting] == client[setting]
