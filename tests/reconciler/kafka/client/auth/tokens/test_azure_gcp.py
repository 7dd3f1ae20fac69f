"""Identities of Azure and Google, from servers that answer as their documentation says."""

from __future__ import annotations

import base64
import json
import os
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from reconciler.kafka.client.auth.tokens import azure, gcp
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError
from tests.support.access.certificates import self_signed
from tests.support.access.identity import IdentityAnswer, IdentityRequest, identity_server

SCOPE = "https://ns.servicebus.windows.net/.default"
EVENT_HUBS = {"sasl.oauthbearer.method": "azure", "sasl.oauthbearer.scope": SCOPE}
TOKEN = IdentityAnswer({"access_token": "ya29.t", "expires_in": "3599", "token_type": "Bearer"})


@pytest.fixture(autouse=True)
def no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AZURE_", "IDENTITY_", "GOOGLE_", "GCE_"))]:
        monkeypatch.delenv(name)


def private_key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def settings(**more: str) -> dict[str, str]:
    return {**EVENT_HUBS, **{f"sasl.oauthbearer.{name}": value for name, value in more.items()}}


def test_azure_managed_identity_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(request: IdentityRequest) -> IdentityAnswer:
        return TOKEN if request.headers.get("metadata") == "true" else IdentityAnswer({"error": "bad_request"}, 400)

    with identity_server(answers) as server:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
        assert azure.token(settings(**{"client.id": "of-user"}), {}).text == "ya29.t"
    [asked] = server.asked
    assert asked.path == "/metadata/identity/oauth2/token"
    assert asked.query == {
        "api-version": "2018-02-01",
        "resource": "https://ns.servicebus.windows.net",
        "client_id": "of-user",
    }


def test_azure_managed_identity_of_app_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with identity_server(lambda _: TOKEN) as server:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{server.url}/msi/token")
        monkeypatch.setenv("IDENTITY_HEADER", "of-app")
        azure.token(settings(), {})
    assert (server.asked[0].headers["x-identity-header"], server.asked[0].query["api-version"]) == (
        "of-app",
        "2019-08-01",
    )


def test_azure_client_secret_workload_identity_and_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "federated").write_text("ey.of.pod\n")
    (tmp_path / "both.pem").write_text(private_key() + ssl.DER_cert_to_PEM_cert(self_signed()[1]))
    app = {"client.id": "app", "azure.tenant_id": "tenant"}
    with identity_server(lambda _: TOKEN) as server:
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.url)
        azure.token(settings(**app, **{"client.secret": "s3cret"}), {})
        azure.token(settings(**app, **{"azure.certificate.location": str(tmp_path / "both.pem")}), {})
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "federated"))
        azure.token(settings(**app), {})
    secret, certificate, workload = server.asked
    assert {asked.path for asked in server.asked} == {"/tenant/oauth2/v2.0/token"}
    assert {asked.form["scope"] for asked in server.asked} == {SCOPE}
    assert (secret.form["client_secret"], workload.form["client_assertion"]) == ("s3cret", "ey.of.pod")
    head, body, _ = (part + "==" for part in certificate.form["client_assertion"].split("."))
    assert "x5t#S256" in json.loads(base64.urlsafe_b64decode(head))
    assert json.loads(base64.urlsafe_b64decode(body))["aud"].startswith(server.url)


def test_azure_says_what_is_missing_and_what_it_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match=r"RESOURCE/\.default"):
        azure.token(settings(scope="kafka"), {})
    with pytest.raises(SettingError, match="tenant_id"):
        azure.token(settings(**{"client.secret": "s3cret"}), {})
    refused = IdentityAnswer({"error": "invalid_request", "error_description": "Identity not found"}, 400)
    with identity_server(lambda _: refused) as server:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
        with pytest.raises(AuthenticationFailedError, match=r"Identity not found\. Assign a managed identity"):
            azure.token(settings(), {})


def test_azure_of_several_identities_one_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    several = "Multiple user assigned identities exist, please specify the clientId / resourceId of the identity"
    refused = IdentityAnswer({"error": "invalid_request", "error_description": several}, 400)
    with identity_server(lambda asked: TOKEN if "client_id" in asked.query else refused) as server:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
        with pytest.raises(AuthenticationFailedError, match=r"sasl\.oauthbearer\.client\.id or AZURE_CLIENT_ID"):
            azure.token(settings(), {})
        monkeypatch.setenv("AZURE_CLIENT_ID", "of-user")
        assert azure.token(settings(), {}).text == "ya29.t"


def google(text: str) -> tuple[dict[str, object], str]:
    """Claims and access token of what travels to Google's brokers."""
    head, body, access = (base64.urlsafe_b64decode(part + "==") for part in text.split("."))
    assert json.loads(head) == {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    return json.loads(body), access.decode()


def test_google_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(request: IdentityRequest) -> IdentityAnswer:
        if request.headers.get("metadata-flavor") != "Google":
            return IdentityAnswer("", 403)
        flavor = {"Metadata-Flavor": "Google"}
        return IdentityAnswer(TOKEN.body if request.path.endswith("/token") else "m@p.iam", headers=flavor)

    with identity_server(answers) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        claims, access = google(gcp.token({}).text)
    assert (claims["sub"], claims["scope"], claims["iss"], access) == ("m@p.iam", "kafka", "Google", "ya29.t")


def test_what_is_no_metadata_server_of_google_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with identity_server(lambda _: IdentityAnswer("<html>")) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        with pytest.raises(AuthenticationFailedError, match="no metadata server of Google"):
            gcp.token({})


def test_google_key_of_a_service_account(tmp_path: Path) -> None:
    with identity_server(lambda _: TOKEN) as server:
        document = {"type": "service_account", "client_email": "m@p.iam", "token_uri": server.url}
        place = tmp_path / "key.json"
        place.write_text(json.dumps({**document, "private_key": private_key(), "private_key_id": "k1"}))
        claims, _ = google(gcp.token({gcp.FILE: str(place)}).text)
    assert (claims["sub"], server.asked[0].form["grant_type"]) == (
        "m@p.iam",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
    )


def test_google_workload_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def answers(request: IdentityRequest) -> IdentityAnswer:
        if request.path.startswith("/v1/projects"):
            return IdentityAnswer({"accessToken": f"for-{request.headers['authorization']}", "expireTime": "x"})
        return TOKEN

    (tmp_path / "subject").write_text("ey.of.pod")
    with identity_server(answers) as server:
        place = tmp_path / "wif.json"
        document = {
            "type": "external_account",
            "audience": "//iam/pool",
            "token_url": f"{server.url}/v1/token",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "credential_source": {"file": str(tmp_path / "subject")},
            "service_account_impersonation_url": f"{server.url}/v1/projects/-/serviceAccounts/m@p.iam:generate",
        }
        place.write_text(json.dumps(document))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(place))
        claims, access = google(gcp.token({}).text)
    assert (claims["sub"], access) == ("m@p.iam", "for-Bearer ya29.t")
    assert server.asked[0].form["subject_token"] == "ey.of.pod"


@pytest.mark.parametrize("content", [None, ""])
def test_google_workload_identity_names_the_token_file_that_is_missing_or_empty(
    tmp_path: Path, content: str | None
) -> None:
    subject, place = tmp_path / "subject", tmp_path / "wif.json"
    if content is not None:
        subject.write_text(content)
    document = {"type": "external_account", "audience": "//iam/pool", "token_url": "http://127.0.0.1:1/"}
    place.write_text(json.dumps({**document, "subject_token_type": "jwt", "credential_source": {"file": str(subject)}}))
    with pytest.raises(AuthenticationFailedError, match=f"names {subject}, which (cannot be read|is empty)"):
        gcp.token({gcp.FILE: str(place)})


def test_google_key_that_windows_wrote(tmp_path: Path) -> None:
    """A byte order mark, and line ends of two characters, within the key, too."""
    with identity_server(lambda _: TOKEN) as server:
        document = {"type": "service_account", "client_email": "m@p.iam", "token_uri": server.url}
        text = json.dumps({**document, "private_key": private_key().replace("\n", "\r\n")}, indent=2)
        place = tmp_path / "key.json"
        place.write_bytes(f"\ufeff{text}".replace("\n", "\r\n").encode())
        assert google(gcp.token({gcp.FILE: str(place)}).text)[1] == "ya29.t"


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"type": "service_account"}'])
def test_a_file_that_holds_no_credentials_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.json").write_text(text)
    with pytest.raises(AuthenticationFailedError, match=r"key\.json holds no credentials of Google"):
        gcp.token({gcp.FILE: str(tmp_path / "key.json")})
