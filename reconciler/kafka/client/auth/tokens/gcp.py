"""``gcp``: Google's Managed Service for Apache Kafka, by application default credentials.

A file (GOOGLE_APPLICATION_CREDENTIALS: a service account's key or workload identity federation), else the metadata
server. The access token travels as the third part of what looks like a JWT, as Google's own handlers send it.
"""

import json
import os
import time
import urllib.parse
from collections.abc import Mapping

from reconciler.kafka.client.auth.login_file import content_of
from reconciler.kafka.client.auth.supported_settings import JWT_BEARER
from reconciler.kafka.client.auth.tokens import web
from reconciler.kafka.client.auth.tokens.assertions import encoded, signed
from reconciler.kafka.client.auth.tokens.shown import GOOGLE_ENVELOPE
from reconciler.kafka.client.errors import SettingError

FILE = "sasl.oauthbearer.gcp.credentials.location"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS = "urn:ietf:params:oauth:token-type:access_token"


def token(oauth: Mapping[str, str]) -> web.AccessToken:
    path = oauth.get(FILE) or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "")
    given, email = _of_file(oauth, path) if path else _of_metadata(oauth)
    claims = {"exp": given.expires_at, "iss": "Google", "iat": time.time(), "scope": "kafka", "sub": email}
    head = encoded({"typ": "JWT", "alg": GOOGLE_ENVELOPE})
    return web.AccessToken(f"{head}.{encoded(claims)}.{encoded(given.text)}", given.expires_at)


def _of_metadata(oauth: Mapping[str, str]) -> tuple[web.AccessToken, str]:
    """The token and e-mail of the service account that the machine, pod or function runs as. The answer must have
    Google's own header: any web server behind that name could answer otherwise."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    base = f"http://{host}/computeMetadata/v1/instance/service-accounts/default"
    todo = "Give this machine or pod a service account, or set GOOGLE_APPLICATION_CREDENTIALS"
    flavor = {"Metadata-Flavor": "Google"}
    endpoint = web.IdentityEndpoint(f"{base}/token", oauth, todo, local=True)
    answered, email = web.ask(web.IdentityEndpoint(f"{base}/email", oauth, todo, local=True), flavor)
    if answered.get("Metadata-Flavor") != "Google":
        raise web.TokenRefusedError(f"no token from {endpoint.where}: it is no metadata server of Google. {todo}")
    return web.access_token(web.ask_json(endpoint, flavor), endpoint, {}), email.decode(errors="replace").strip()


def _of_file(oauth: Mapping[str, str], path: str) -> tuple[web.AccessToken, str]:
    """Google's application default credentials: a service account's key, or a federated identity. (token, e-mail)"""
    try:
        document = json.loads(content_of(path).decode("utf-8-sig"))
        kind = document["type"]
        if kind == "service_account":
            return _of_key(oauth, document), document["client_email"]
        if kind == "external_account":
            return _federated(oauth, document)
    except OSError as error:
        raise web.TokenRefusedError(f"{path}, Google's credentials, cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        words = f"{path} holds no credentials of Google: JSON with type, and what its type needs"
        raise web.TokenRefusedError(words) from None
    raise SettingError(f"{path} holds credentials of type {kind!r}. Use service_account or external_account")


def _of_key(oauth: Mapping[str, str], document: Mapping[str, str]) -> web.AccessToken:
    """RFC 7523 by the service account's key."""
    now = int(time.time())
    url, email = document["token_uri"], document["client_email"]
    claims = {"iss": email, "scope": _SCOPE, "aud": url, "iat": now, "exp": now + 3600}
    header = {"alg": "RS256", "typ": "JWT", "kid": document.get("private_key_id", "")}
    proof = signed(header, claims, document["private_key"])
    endpoint = web.IdentityEndpoint(url, oauth, f"Check that service account {email} still has this key", [proof])
    return web.access_token(web.ask_json(endpoint, {}, {"grant_type": JWT_BEARER, "assertion": proof}), endpoint, {})


def _federated(oauth: Mapping[str, str], document: Mapping[str, object]) -> tuple[web.AccessToken, str]:
    """Workload identity federation (RFC 8693) with a token in a file, then the service account's access token."""
    source = document["credential_source"]
    if not isinstance(source, dict) or "file" not in source:
        raise SettingError("Google's external_account credentials get their token from no file; only a file is read")
    subject = web.text_of_file(source["file"], "credential_source of Google's external_account")
    if isinstance(form := source.get("format"), dict) and form.get("type") == "json":
        subject = json.loads(subject)[form["subject_token_field_name"]]
    audience, url = str(document["audience"]), str(document["token_url"])
    todo = f"Let the workload identity pool {audience} accept the token in {source['file']}"
    endpoint = web.IdentityEndpoint(url, oauth, todo, [subject])
    form = {
        "grant_type": _EXCHANGE,
        "audience": audience,
        "scope": _SCOPE,
        "requested_token_type": _ACCESS,
        "subject_token_type": str(document["subject_token_type"]),
        "subject_token": subject,
    }
    federated = web.access_token(web.ask_json(endpoint, {}, form), endpoint, {})
    # The federated token by itself names no account. With an impersonation URL it is exchanged once more, for one of
    # the service account that has the rights.
    if not (impersonation := document.get("service_account_impersonation_url")):
        return federated, audience
    email = urllib.parse.unquote(str(impersonation).rpartition("/")[2].partition(":")[0])
    as_account = web.IdentityEndpoint(str(impersonation), oauth, f"Let it impersonate {email}", [federated.text])
    bearer = {"Authorization": f"Bearer {federated.text}"}
    answer = web.ask_json(as_account, bearer, {"scope": _SCOPE, "lifetime": "3600s"})
    return web.AccessToken(web.text_of(answer, "accessToken", as_account), federated.expires_at), email
