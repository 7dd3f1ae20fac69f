"""Client credentials in the header, in the form, and by an assertion; what an endpoint gets wrong is one sentence."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from reconciler.kafka.client.auth.tokens import oidc, web
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError
from tests.support.access.certificates import ShortLived
from tests.support.access.identity import IdentityAnswer, identity_server

SECRET = "s3cret/of:ada"
TOKEN = IdentityAnswer({"access_token": "t", "expires_in": 60})
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def settings(url: str, **more: str) -> dict[str, str]:
    named = {"method": "oidc", "token.endpoint.url": url, "client.id": "ada", **more}
    return {f"sasl.oauthbearer.{name}": value for name, value in named.items()}


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, passphrase: bytes = b"") -> str:
    how = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()


def parts(text: str) -> tuple[dict[str, object], dict[str, object], bytes, bytes]:
    head, body, signature = (base64.urlsafe_b64decode(part + "==") for part in text.split("."))
    return json.loads(head), json.loads(body), signature, text.rpartition(".")[0].encode()


@contextlib.contextmanager
def answering(*parts: bytes, certificate: Path | None = None) -> Iterator[str]:
    """The URL of a server that sends ``parts``, 0.1 s apart, to one client, whatever that says."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate is not None:
        context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with (
                contextlib.suppress(OSError),
                listening.accept()[0] as raw,
                raw if certificate is None else context.wrap_socket(raw, server_side=True) as client,
            ):
                client.recv(65_536)
                for number, part in enumerate(parts):
                    time.sleep(0.1 if number else 0)
                    client.sendall(part)
                # A close with unread bytes of the request resets the connection, and the answer can be lost.
                client.shutdown(socket.SHUT_WR)
                while client.recv(65_536):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        scheme = "http" if certificate is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/token"
        thread.join()


def test_the_secret_goes_quoted_into_the_header() -> None:
    with identity_server(lambda _: TOKEN) as server:
        oidc.token(settings(server.url, **{"client.secret": SECRET, "scope": "kafka", "audience": "mirror"}), {})
    [asked] = server.asked
    basic = base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode()
    assert basic == "ada:s3cret%2Fof%3Aada"
    assert asked.form == {"grant_type": "client_credentials", "scope": "kafka", "audience": "mirror"}


def test_the_secret_goes_into_the_form_where_it_is_wanted_there() -> None:
    with identity_server(lambda _: TOKEN) as server:
        post = {"client.secret": SECRET, "client.authentication": "client_secret_post"}
        oidc.token(settings(server.url, **post), {})
    [asked] = server.asked
    assert (asked.form["client_secret"], "authorization" in asked.headers) == (SECRET, False)


def test_private_key_jwt_is_signed_with_rs256(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    place = tmp_path / "key.pem"
    place.write_text(pem(key, b"of the key"))
    with identity_server(lambda _: TOKEN) as server:
        more = {"client.authentication": "private_key_jwt", "assertion.private.key.file": str(place)}
        oidc.token(settings(server.url, **more, **{"assertion.private.key.passphrase": "of the key"}), {})
    [asked] = server.asked
    head, body, signature, text = parts(asked.form["client_assertion"])
    key.public_key().verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
    assert head["alg"] == "RS256"
    assert (body["iss"], body["sub"], body["aud"]) == ("ada", "ada", server.url)


def test_the_grant_of_rfc_7523_is_signed_with_es256() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    with identity_server(lambda _: TOKEN) as server:
        of = "assertion."
        more = {
            "grant.type": GRANT,
            f"{of}private.key.pem": pem(key),
            f"{of}algorithm": "ES256",
            f"{of}claim.sub": "eve",
        }
        oidc.token(settings(server.url, **more), {})
    [asked] = server.asked
    _, body, signature, text = parts(asked.form["assertion"])
    r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
    key.public_key().verify(utils.encode_dss_signature(r, s), text, ec.ECDSA(hashes.SHA256()))
    assert (asked.form["grant_type"], body["sub"]) == (GRANT, "eve")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"assertion.private.key.file": "/no/such.pem"}, "/no/such.pem, which cannot be read: No such file"),
        ({"assertion.private.key.pem": "no key"}, "no PEM key"),
        ({}, "an assertion needs"),
    ],
)
def test_a_key_that_cannot_be_used_is_said(more: dict[str, str], said: str) -> None:
    with pytest.raises((SettingError, AuthenticationFailedError), match=said):
        oidc.token(settings("http://127.0.0.1:1", **{"client.authentication": "private_key_jwt"}, **more), {})


def test_a_key_of_another_kind_is_said() -> None:
    more = {
        "client.authentication": "private_key_jwt",
        "assertion.private.key.pem": pem(rsa.generate_private_key(65537, 2048)),
    }
    with pytest.raises(SettingError, match="does not sign ES256"):
        oidc.token(settings("http://127.0.0.1:1", **more, **{"assertion.algorithm": "ES256"}), {})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (IdentityAnswer("<html>log in</html>", headers={"Content-Type": "text/html"}), "text/html, not JSON"),
        (IdentityAnswer({"token_type": "bearer"}), "no access_token"),
        (
            IdentityAnswer({"error": "invalid_client", "error_description": f"{SECRET} is wrong"}, 401),
            "401, invalid_client",
        ),
        (IdentityAnswer("", 302, {"Location": "http://127.0.0.1:1/"}), "302, a redirect"),
        (IdentityAnswer("<html>down</html>", 503), "503"),
        (IdentityAnswer("[" * 200_000), "not JSON"),
        (IdentityAnswer("x" * (web.LARGEST + 100_000)), "its answer does not end"),
        (IdentityAnswer("", 407), "407. Its proxy requires a login"),
        (IdentityAnswer({"access_token": "a\x01auth=Bearer b"}), "characters that no token has"),
        (IdentityAnswer({"access_token": "a\r\nb"}), "characters that no token has"),
    ],
)
def test_what_an_endpoint_gets_wrong_is_one_sentence(answer: IdentityAnswer, said: str) -> None:
    with identity_server(lambda _: answer) as server, pytest.raises(AuthenticationFailedError, match=said) as told:
        oidc.token(settings(server.url, **{"client.secret": SECRET}), {})
    text = str(told.value)
    assert (SECRET in text, "\n" in text, len(server.asked)) == (False, False, 1)


_JSON = b"Content-Type: application/json\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n10\r\nabc"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what answers is no HTTP. Check scheme and port of {url}"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "what answers is no HTTP. Check scheme and port of {url}"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 200, "what answers is no HTTP. Check scheme and port of {url}"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000, "what answers is no HTTP. Check scheme and port of {url}"),
        (b"", "its answer is cut off. Check that {url} runs, and that this machine reaches it"),
        (b"HTTP/1.1 200 OK\r\n" + _CHUNKED, "its answer is cut off. Check that {url} runs"),
        (b"HTTP/1.1 500 Oh\r\n" + _CHUNKED, "its answer is cut off. Check that {url} runs"),
        (
            b"HTTP/1.1 200 OK\r\n" + _JSON + b"Content-Length: 9\r\n\r\n{",
            "JSON that is cut off or no object. Check client",
        ),
        (b"HTTP/1.1 200 OK\r\n" + _JSON + b"\r\n[1]", "JSON that is cut off or no object. Check client"),
        (b"HTTP/1.1 200 OK\r\n" + _JSON + b'\r\n{"error": "locked"}', "has no access_token: locked. Check client"),
    ],
)
def test_what_does_not_answer_as_an_endpoint_does_is_one_sentence(sent: bytes, said: str) -> None:
    with answering(sent) as url, pytest.raises(web.TokenRefusedError) as told:
        oidc.token(settings(url, **{"client.secret": SECRET}), {})
    assert said.format(url=url) in str(told.value)


@pytest.mark.parametrize(
    "before", [b"", b"HTTP/1.1 200 OK\r\n", *(b"HTTP/1.1 %d A\r\n\r\n" % i for i in (200, 400, 503))]
)
@pytest.mark.parametrize("tls", [False, True])
def test_an_answer_that_comes_byte_by_byte_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: bytes, tls: bool
) -> None:
    """Each byte comes within the timeout of a socket, whether of the status, of a header or of the body."""
    monkeypatch.setattr(web, "SECONDS", 0.5)
    authority, certificate = ShortLived(tmp_path), tmp_path / "issuer.pem"
    authority.issue(certificate, "issuer", 60)
    trusted = {"https.ca.location": str(authority.ca)} if tls else {}
    began = time.monotonic()
    with (
        answering(before, *[b"x"] * 50, certificate=certificate if tls else None) as url,
        pytest.raises(web.TokenRefusedError, match=r"no whole answer within 0\.5 s") as told,
    ):
        oidc.token({**settings(url, **{"client.secret": SECRET}), **trusted}, {})
    assert told.value.busy
    assert time.monotonic() < began + 3


def test_nothing_listens() -> None:
    url = "http://127.0.0.1:1/token"
    with pytest.raises(web.TokenRefusedError, match=f"Connection refused. Check that {url} runs"):
        oidc.token(settings(url, **{"client.secret": SECRET}), {})


def test_no_spelling_of_a_secret_is_repeated() -> None:
    """As it is, and as it travels: in a form, and in a header."""
    secret = "p+w/d of=ada"
    basic = base64.b64encode(f"ada:{urllib.parse.quote(secret, safe='')}".encode()).decode()
    spellings = (secret, urllib.parse.quote_plus(secret), urllib.parse.quote(secret, safe=""), basic)
    answer = IdentityAnswer({"error": "invalid_client", "error_description": " ".join(spellings)}, 401)
    with identity_server(lambda _: answer) as server, pytest.raises(web.TokenRefusedError) as told:
        oidc.token(settings(server.url, **{"client.secret": secret}), {})
    assert "invalid_client: *** *** *** ***. Check" in str(told.value)


def test_a_certificate_of_an_endpoint_that_is_not_accepted_names_the_setting(tmp_path: Path) -> None:
    authority, certificate = ShortLived(tmp_path), tmp_path / "issuer.pem"
    authority.issue(certificate, "issuer", 60)
    with answering(certificate=certificate) as url, pytest.raises(web.TokenRefusedError) as told:
        oidc.token(settings(url, **{"client.secret": SECRET}), {})
    assert "its certificate is not accepted: unable to get local issuer certificate. Name its CA in" in str(told.value)
    trusted = {"https.ca.location": str(authority.ca)}
    with answering(certificate=certificate) as url, pytest.raises(web.TokenRefusedError, match="is cut off"):
        oidc.token({**settings(url, **{"client.secret": SECRET}), **trusted}, {})
    with answering(certificate=certificate) as url, pytest.raises(web.TokenRefusedError, match="Hostname mismatch"):
        oidc.token({**settings(url.replace("127.0.0.1", "localhost"), **{"client.secret": SECRET}), **trusted}, {})
    with answering(b"HTTP/1.1 400 Bad\r\n\r\n") as url, pytest.raises(web.TokenRefusedError) as told:
        oidc.token(settings(url.replace("http:", "https:"), **{"client.secret": SECRET}), {})
    assert "no TLS: WRONG_VERSION_NUMBER. Check scheme and port of https://" in str(told.value)


def test_an_endpoint_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(web.TokenRefusedError, match=r"no whole answer within 0\.3 s") as told:
            oidc.token(settings(url, **{"client.secret": SECRET}), {})
    assert told.value.busy


def test_a_proxy_of_the_variables_is_reported_without_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://ada:s3cret@127.0.0.1:9/")
    with pytest.raises(web.TokenRefusedError, match=r"issuer\.test through http_proxy 127\.0\.0\.1:9: ") as told:
        oidc.token(settings("http://issuer.test/token", **{"client.secret": SECRET}), {})
    assert "ada:" not in str(told.value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with identity_server(lambda _: TOKEN) as server:
        oidc.token(settings(server.url, **{"client.secret": SECRET}), {})


def test_an_assertion_of_another_program_that_is_empty_is_reported(tmp_path: Path) -> None:
    (tmp_path / "assertion").write_text("\n")
    more = {"client.authentication": "private_key_jwt", "assertion.file": str(tmp_path / "assertion")}
    with pytest.raises(AuthenticationFailedError, match=r"assertion\.file names \S+, which is empty"):
        oidc.token(settings("http://127.0.0.1:1", **more), {})
