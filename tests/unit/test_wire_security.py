"""Settings are honoured or refused; SCRAM proves both sides; no secret shows."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
from collections.abc import Iterator

import pytest

from wire.errors import AuthenticationFailedError, SettingError
from wire.sasl import exchange
from wire.settings import SaslSettings, connection_settings

SECRET = "s3cret=,pass"


def test_tuning_of_librdkafka_is_left_aside() -> None:
    made = connection_settings({"queued.min.messages": "5", "client.id": "me", "client.rack": "a"})
    assert (made.client_id, made.rack, made.tls, made.sasl) == ("me", "a", None, None)


@pytest.mark.parametrize(
    ("client", "named"),
    [
        ({"ssl.keystore.location": "x"}, "ssl.keystore.location"),
        ({"ssl.crl.location": "x"}, "ssl.crl.location"),
        ({"sasl.kerberos.keytab": "x"}, "sasl.kerberos.keytab"),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "unsecure"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}, "GSSAPI"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "sasl.password"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}, "oidc"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/no/such/file"}, "ssl"),
        ({"security.protocol": "SSL", "ssl.key.location": "key.pem"}, "ssl.certificate.location"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"}, "true or false"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "dns"}, "https or none"),
        ({"security.protocol": "quic"}, "quic"),
        ({"socket.timeout.ms": "soon"}, "socket.timeout.ms"),
    ],
)
def test_what_cannot_be_honoured_is_an_error(client: dict[str, str], named: str) -> None:
    with pytest.raises(SettingError, match=named.replace(".", r"\.")):
        connection_settings(client)


def test_tls_verifies_by_default() -> None:
    context = connection_settings({"security.protocol": "ssl"}).tls
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


def test_a_refused_client_secret_is_told_and_not_printed(token_url: str) -> None:
    with pytest.raises(AuthenticationFailedError, match="401") as error:
        next(exchange(_oauth(token_url, "wrong secret")))
    assert "wrong secret" not in str(error.value)
