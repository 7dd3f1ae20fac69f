"""What answers in the place of a broker or of a token endpoint keeps nothing waiting, and has no secret repeated."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from reconciler.kafka.client import dial
from reconciler.kafka.client.auth.sasl import exchange
from reconciler.kafka.client.auth.settings import SaslSettings
from reconciler.kafka.client.auth.tokens import oidc, web
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import AuthenticationFailedError
from tests.support.access.identity import IdentityAnswer, identity_server

SECRET = "s3cret/of:ada"


@pytest.mark.parametrize(
    "challenge",
    [
        b"r={n},s=c2FsdA==,i=2000000000",
        b"r={n},s=c2FsdA==,i=" + b"9" * 30,
        b"r={n},s=c2FsdA==,i=" + b"9" * 5000,
        b"r={n},s=\xff\xfe,i=4096",
        b"\xff\xfe",
        b"r={n},s=\xc3\xa4,i=4096",
        b"",
    ],
)
def test_no_scram_challenge_costs_more_than_a_second(challenge: bytes) -> None:
    steps = exchange(SaslSettings("SCRAM-SHA-512", "user", SECRET))
    nonce = next(steps).partition(b",r=")[2]
    began = time.process_time()
    with pytest.raises(AuthenticationFailedError):
        steps.send(challenge.replace(b"{n}", nonce + b"x"))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("final", [b"\xff", b"v=\xc3\xa4", b"v=" + b"A" * 10_000, b"e=other-error", b""])
def test_a_broker_that_ends_scram_with_anything_else_has_proved_nothing(final: bytes) -> None:
    steps = exchange(SaslSettings("SCRAM-SHA-256", "user", SECRET))
    nonce = next(steps).partition(b",r=")[2]
    steps.send(b"r=" + nonce + b"x,s=c2FsdA==,i=4096")
    with pytest.raises(AuthenticationFailedError):
        steps.send(final)


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER"])
def test_what_a_broker_repeats_of_a_login_is_not_told(mechanism: str) -> None:
    """Its text is shown and logged: a hostile one, or a proxy that explains too much, repeats what it was sent."""
    oauth = {"sasl.oauthbearer.unsecured.jws": "true", "sasl.oauthbearer.config": "principal=ada"}
    settings = SaslSettings(mechanism, "ada", SECRET, oauth)
    sent: list[bytes] = []

    async def call(request: object) -> SimpleNamespace:
        if (message := getattr(request, "auth_bytes", None)) is None:
            return SimpleNamespace(error_code=0, mechanisms=[mechanism])
        sent.append(message)
        text = message.decode("utf-8", "replace")
        return SimpleNamespace(error_code=58, error_message=f"no login by {text} " + "x" * 100_000)

    connection = SimpleNamespace(
        where="b:1", settings=SimpleNamespace(connect_timeout=5.0), call=call, version=lambda _: 1
    )
    with pytest.raises(AuthenticationFailedError, match="no login by") as refused:
        asyncio.run(dial._authenticate(cast("Connection", connection), settings, "b"))
    text = str(refused.value)
    [message] = sent
    token = message.partition(b"auth=Bearer ")[2].partition(b"\x01")[0].decode()
    assert SECRET not in text
    assert not token or token not in text
    assert "***" in text
    assert len(text) < 1_000


@contextmanager
def raw_server(answer: bytes) -> Iterator[str]:
    """Says ``answer`` to who connects, whatever is asked, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(10)


def settings(url: str) -> dict[str, str]:
    named = {"method": "oidc", "token.endpoint.url": url, "client.id": "ada", "client.secret": SECRET}
    return {f"sasl.oauthbearer.{name}": value for name, value in named.items()}


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 401 No\r\nContent-Length: 1000\r\n\r\n{",
        b"HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
)
def test_what_speaks_no_http_gives_no_token_and_one_sentence(answer: bytes) -> None:
    with raw_server(answer) as url, pytest.raises(AuthenticationFailedError) as refused:
        oidc.token(settings(url), {})
    assert "no token from" in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("body", ["[" * 200_000, '{"access_token":' + "[" * 200_000, "9" * 10_000, "NaN"])
def test_json_that_cannot_be_read_gives_no_token(status: int, body: str) -> None:
    with identity_server(lambda _: IdentityAnswer(body, status)) as server, pytest.raises(AuthenticationFailedError):
        oidc.token(settings(server.url), {})


def jwt(claims: str) -> str:
    return ".".join(base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") for each in ("{}", claims, "x"))


@pytest.mark.parametrize(
    ("expires_in", "claims"),
    [
        ("1" + "0" * 400, "{}"), ("NaN", '{"exp": NaN}'), ("-1", '{"exp": 1' + "0" * 400 + "}"), ("Infinity", "{}"),
        ("null", "[" * 100_000), ("null", '{"exp": -Infinity}'), ("null", '{"exp": 1e999}'),
    ],
)  # fmt: skip
def test_a_token_whose_end_is_no_time_lives_for_a_little(expires_in: str, claims: str) -> None:
    body = f'{{"access_token": {json.dumps(jwt(claims))}, "expires_in": {expires_in}}}'
    with identity_server(lambda _: IdentityAnswer(body)) as server:
        token = oidc.token(settings(server.url), {})
    assert 0 <= token.expires_at - time.time() <= web.UNKNOWN_LIFE
