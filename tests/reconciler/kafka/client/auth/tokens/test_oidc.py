"""Client credentials in the header, in the form, and by an assertion; what an endpoint gets wrong is one sentence."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from reconciler.kafka.client.auth.tokens import oidc, web
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError
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


def test_an_endpoint_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr(web, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(web.TokenRefusedError, match=r"no answer within 0\.3 s") as told:
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
