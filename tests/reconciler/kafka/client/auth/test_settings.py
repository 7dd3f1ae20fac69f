"""Settings are honoured or refused; SCRAM proves both sides; no secret shows."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from reconciler.kafka.client.auth.sasl import exchange
from reconciler.kafka.client.auth.settings import SaslSettings, connection_settings
from reconciler.kafka.client.auth.supported_settings import (
    DECIDES,
    HONOURED,
    TUNING,
    forbidden,
    not_by_librdkafka,
    refusals,
)
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError
from tests.support.access.security_settings import VERDICTS

SECRET = "s3cret=,pass"


def test_tuning_of_librdkafka_is_left_aside() -> None:
    made = connection_settings({"queued.min.messages": "5", "client.id": "me", "client.rack": "a"})
    assert (made.client_id, made.rack, made.tls, made.sasl) == ("me", "a", None, None)


@pytest.mark.parametrize(
    ("client", "named"),
    [
        ({"ssl.keystore.location": "x"}, "ssl.keystore.location"),
        ({"security.protocol": "SSL", "ssl.crl.location": "/no/such/file"}, "ssl"),
        ({"security.protocol": "SSL", "ssl.curves.list": "no-such-curve"}, "ssl"),
        ({"broker.address.family": "v5"}, "any, v4 or v6"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "EXTERNAL"}, "EXTERNAL"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}, "oidc"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"}, "ssl"),
        ({"security.protocol": "SSL", "ssl.key.pem": "key"}, "ssl.certificate.location"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"}, "true or false"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "dns"}, "https or none"),
        ({"security.protocol": "quic"}, "quic"),
        ({"socket.timeout.ms": "soon"}, "socket.timeout.ms"),
    ],
)
def test_what_cannot_be_honoured_is_an_error(client: dict[str, str], named: str) -> None:
    with pytest.raises(SettingError, match=named.replace(".", r"\.")):
        connection_settings(client)


@pytest.mark.parametrize(
    ("setting", "verdict"), [(name, verdict) for verdict, names in VERDICTS.items() for name in names]
)
def test_every_security_setting_is_honoured_harmless_or_refused(setting: str, verdict: str) -> None:
    found = refusals({setting: None})
    assert [one.setting for one in found] == ([setting] if verdict in ("refused", "forbidden") else [])
    assert (setting in HONOURED) == (verdict == "honoured")
    assert (forbidden([setting]) != ()) == (verdict == "forbidden")


def test_what_tunes_librdkafka_is_known_to_it_and_decides_nothing_about_security() -> None:
    """Or a setting that nobody meant would be on the list."""
    assert not [name for name in TUNING if name.startswith(DECIDES)]
    assert [name for name in TUNING if "No such configuration property" in _said_by_librdkafka(name)] == []


def _said_by_librdkafka(name: str) -> str:
    try:
        confluent_kafka.Producer({name: "1"}, logger=logging.getLogger("silent"))
    except confluent_kafka.KafkaException as error:
        return str(error)
    return ""


def test_no_security_setting_of_librdkafka_is_forgotten() -> None:
    """A new release of it may bring new ones: then somebody decides."""
    shipped = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka*/**/*")
    native = [path for path in shipped if path.suffix in {".so", ".dylib"} or ".so." in path.name]
    pattern = rb"\0((?:ssl|sasl|https|security|enable\.ssl|enable\.sasl)\.[a-z_.]+)(?=\0)"
    names = {name for path in native for name in re.findall(pattern, path.read_bytes())}
    known = {name for names in VERDICTS.values() for name in names}
    assert {name.decode() for name in names} <= known
    assert b"ssl.crl.location" in names


@pytest.mark.parametrize(
    ("setting", "value", "todo"),
    [
        ("ssl.keystore.location", "client.p12", "openssl pkcs12 -in client.p12 -clcerts -out client.pem"),
        ("ssl.sigalgs.list", "RSA+SHA512", "OPENSSL_CONF"),
        ("sasl.mechanism", "EXTERNAL", "Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI"),
        ("sasl.oauthbearer.grant.type", "password", "Use client_credentials or urn:ietf:params:oauth:grant-type:jwt"),
        ("sasl.oauthbearer.metadata.authentication.type", "azure_imds", "Use none"),
        ("sasl.oauthbearer.aws.region", "evil.example.net", "eu-west-1"),
        ("sasl.oauthbearer.method", "kerberos", "Use oidc, aws_msk_iam, aws_sts, azure, gcp or default"),
        ("ssl.curves.list", "X25519:P-256", "Name one curve"),
    ],
)
def test_a_refusal_says_what_to_use_instead(setting: str, value: str, todo: str) -> None:
    [found] = refusals({setting: value})
    assert (found.setting, todo in found.todo) == (setting, True)


def test_a_value_that_is_not_known_yet_is_not_judged() -> None:
    assert refusals({"security.protocol": None, "sasl.mechanism": None, "ssl.curves.list": None}) == ()


def test_kerberos_is_reported_even_if_it_is_only_the_default() -> None:
    [found] = refusals({"security.protocol": "sasl_ssl", "sasl.kerberos.service.name": "kafka"})
    assert "GSSAPI" in found.why


def test_one_curve_and_one_address_family_are_kept_to() -> None:
    client = {"security.protocol": "SSL", "ssl.curves.list": "P-256", "broker.address.family": "v4"}
    made = connection_settings(client)
    assert made.tls is not None
    assert made.family is socket.AF_INET


def test_tls_verifies_by_default() -> None:
    made = connection_settings({"security.protocol": "ssl"}).tls
    assert made is not None
    context = made.context()
    assert context is not None
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"


def test_secrets_do_not_show() -> None:
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    made = connection_settings({**client, "sasl.username": "u", "sasl.password": SECRET})
    assert SECRET not in repr(made)


def test_plain_is_rfc_4616() -> None:
    assert next(exchange(SaslSettings("PLAIN", "user", SECRET))) == f"\0user\0{SECRET}".encode()


class ScramServer:
    """The other side of RFC 5802, written from the RFC."""

    def __init__(self, digest: str, password: str, rounds: int = 4096) -> None:
        self.digest, self.rounds, self.salt = digest, rounds, b"salty salt"
        self.salted = hashlib.pbkdf2_hmac(digest, password.encode(), self.salt, rounds)
        self.transcript = ""
        self.nonce = ""

    def first(self, message: str) -> bytes:
        assert message.startswith("n,,n=us=3D=2Cer,r=")
        self.nonce = message.partition(",r=")[2] + "server"
        answer = f"r={self.nonce},s={base64.b64encode(self.salt).decode()},i={self.rounds}"
        self.transcript = f"{message[3:]},{answer}"
        return answer.encode()

    def final(self, message: str) -> bytes:
        without_proof, _, proof = message.rpartition(",p=")
        assert without_proof == f"c=biws,r={self.nonce}"
        whole = f"{self.transcript},{without_proof}".encode()
        client_key = hmac.digest(self.salted, b"Client Key", self.digest)
        stored = hashlib.new(self.digest, client_key).digest()
        signature = hmac.digest(stored, whole, self.digest)
        shown = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.digest, shown).digest() != stored:
            return b"e=invalid-proof"
        server_key = hmac.digest(self.salted, b"Server Key", self.digest)
        return b"v=" + base64.b64encode(hmac.digest(server_key, whole, self.digest))


@pytest.mark.parametrize(("mechanism", "digest"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
def test_scram_proves_both_sides(mechanism: str, digest: str) -> None:
    server = ScramServer(digest, SECRET)
    steps = exchange(SaslSettings(mechanism, "us=,er", SECRET))
    second = steps.send(server.first(next(steps).decode()))
    with pytest.raises(StopIteration):
        steps.send(server.final(second.decode()))


def test_a_server_without_the_password_is_refused() -> None:
    server, impostor = ScramServer("sha256", SECRET), ScramServer("sha256", "something else")
    steps = exchange(SaslSettings("SCRAM-SHA-256", "us=,er", SECRET))
    first = next(steps).decode()
    server.first(first)
    second = steps.send(impostor.first(first)).decode()
    with pytest.raises(AuthenticationFailedError, match="could not prove"):
        steps.send(impostor.final(second))


@pytest.mark.parametrize("challenge", [b"r=foreign,s=c2FsdA==,i=4096", b"rubbish", b"r={n},s=c2FsdA==,i=1"])
def test_a_weak_or_foreign_challenge_is_refused(challenge: bytes) -> None:
    steps = exchange(SaslSettings("SCRAM-SHA-256", "us=,er", SECRET))
    nonce = next(steps).partition(b",r=")[2]
    with pytest.raises(AuthenticationFailedError):
        steps.send(challenge.replace(b"{n}", nonce + b"x"))


class TokenServer(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        basic = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        good = basic == "id:secret" and "grant_type=client_credentials" in body and "scope=kafka" in body
        answer = json.dumps({"access_token": "token-1"} if good else {"error": "invalid_client"}).encode()
        self.send_response(200 if good else 401)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def token_url() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), TokenServer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    thread.join()
    server.server_close()


def _oauth(url: str, secret: str) -> SaslSettings:
    made = connection_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "id",
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.token.endpoint.url": url,
        }
    ).sasl
    assert made is not None
    return made


def test_oauthbearer_by_client_credentials(token_url: str) -> None:
    assert next(exchange(_oauth(token_url, "secret"))) == b"n,,\x01auth=Bearer token-1\x01\x01"


def test_a_refused_client_secret_is_reported_and_not_printed(token_url: str) -> None:
    with pytest.raises(AuthenticationFailedError, match="401") as error:
        next(exchange(_oauth(token_url, "wrong secret")))
    assert "wrong secret" not in str(error.value)


def test_a_token_server_may_be_named_by_the_longer_names(token_url: str) -> None:
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.client.credentials.client.id": "id",
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool=2",
        "sasl.oauthbearer.token.endpoint.url": token_url,
    }
    sasl = connection_settings(client).sasl
    assert sasl is not None
    said = b"n,,\x01auth=Bearer token-1\x01logicalCluster=lkc-1\x01identityPoolId=pool=2\x01\x01"
    assert next(exchange(sasl)) == said


def _unsecured(config: str) -> SaslSettings:
    made = connection_settings(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": config,
        }
    ).sasl
    assert made is not None
    return made


def test_an_unsecured_token_says_what_its_config_says() -> None:
    config = "principal=ada principalClaimName=azp scopeClaimName=roles scope=a,b lifeSeconds=600 extension_traceId=123"
    said = next(exchange(_unsecured(config)))
    bearer, extension = said.removeprefix(b"n,,\x01auth=Bearer ").removesuffix(b"\x01\x01").split(b"\x01")
    header, claims, signature = bearer.split(b".")
    assert json.loads(base64.urlsafe_b64decode(header + b"==")) == {"alg": "none"}
    found = json.loads(base64.urlsafe_b64decode(claims + b"=="))
    assert (found["azp"], found["roles"], extension, signature) == ("ada", ["a", "b"], b"traceId=123", b"")
    assert found["exp"] - found["iat"] == pytest.approx(600, abs=0.01)
    assert found["iat"] == pytest.approx(time.time(), abs=30)


@pytest.mark.parametrize("config", ["", "scope=a", "principal=ada lifeSeconds=soon", "principal=ada principle=bob"])
def test_a_config_that_makes_no_token_is_reported(config: str) -> None:
    with pytest.raises(SettingError, match="principal=NAME"):
        next(exchange(_unsecured(config)))


def test_librdkafka_is_given_no_kerberos_login(tmp_path: Path) -> None:
    """It would write keytab and principal into a command of a shell."""
    evil = f"x; touch {tmp_path}/owned"
    client = {"sasl.kerberos.keytab": evil, "sasl.kerberos.principal": evil, "security.protocol": "SASL_PLAINTEXT"}
    assert refusals(client | {"sasl.mechanism": "GSSAPI"}) == ()
    for name in ("sasl.mechanism", "sasl.mechanisms"):
        assert "librdkafka gets none of it" in not_by_librdkafka(client | {name: "gssapi"})
    assert not_by_librdkafka({"sasl.mechanism": "PLAIN"}) == ""
