"""``azure``: Microsoft Entra ID, as Event Hubs and others take it.

In this order: a client secret or certificate, workload identity (a token in a file), managed identity of App Service
and of a machine (IMDS). Addresses come from the variables that Azure's own clients read, never from a topology.
"""

import base64
import hashlib
import os
import ssl
import time
import urllib.parse
import uuid
from collections.abc import Mapping

from reconciler.kafka.client.auth.tokens.assertions import signed
from reconciler.kafka.client.auth.tokens.web import AccessToken, IdentityEndpoint, access_token, ask_json, text_of_file
from reconciler.kafka.client.errors import SettingError

_PREFIX = "sasl.oauthbearer."
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def token(oauth: Mapping[str, str], extensions: Mapping[str, str]) -> AccessToken:
    """OAuth 2.0 of Microsoft Entra ID: by a secret, a certificate, or a federated token (workload identity of AKS), in
    this order; else by the managed identity of the machine. Settings win over the variables that Azure's own SDKs
    read."""
    scope = oauth.get(f"{_PREFIX}scope", "")
    if not scope.endswith("/.default"):
        example = "https://NAMESPACE.servicebus.windows.net/.default"
        raise SettingError(f'{_PREFIX}scope is "{scope}", and azure needs RESOURCE/.default, for Event Hubs {example}')
    env = os.environ
    tenant = oauth.get(f"{_PREFIX}azure.tenant_id") or env.get("AZURE_TENANT_ID", "")
    client = oauth.get(f"{_PREFIX}client.id") or env.get("AZURE_CLIENT_ID", "")
    secret = oauth.get(f"{_PREFIX}client.secret") or env.get("AZURE_CLIENT_SECRET", "")
    certificate = oauth.get(f"{_PREFIX}azure.certificate.location") or env.get("AZURE_CLIENT_CERTIFICATE_PATH", "")
    federated = env.get("AZURE_FEDERATED_TOKEN_FILE", "")
    # Azure's own SDKs try these in the same order, so one set of variables serves both.
    if not (secret or certificate or federated):
        return _managed(oauth, scope.removesuffix("/.default"), client, extensions)
    if not (tenant and client):
        raise SettingError(
            f"azure needs {_PREFIX}azure.tenant_id and {_PREFIX}client.id beside a secret or certificate"
        )
    authority = env.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com").rstrip("/")
    url = f"{authority}/{urllib.parse.quote(tenant, safe='')}/oauth2/v2.0/token"
    form = {"grant_type": "client_credentials", "client_id": client, "scope": scope}
    if secret:
        form["client_secret"] = secret
    else:
        form["client_assertion_type"] = _ASSERTION_TYPE
        form["client_assertion"] = (
            _by_certificate(certificate, client, url)
            if certificate
            else text_of_file(federated, "AZURE_FEDERATED_TOKEN_FILE")
        )
    todo = f"Check client {client} of tenant {tenant}, its credentials, and scope {scope}"
    hidden = [form.get(name, "") for name in ("client_secret", "client_assertion")]
    endpoint = IdentityEndpoint(url, oauth, todo, hidden)
    return access_token(ask_json(endpoint, {}, form), endpoint, extensions)


def _managed(oauth: Mapping[str, str], resource: str, client: str, extensions: Mapping[str, str]) -> AccessToken:
    """The identity endpoint of App Service, Functions or Container Apps where its two variables are set, else the
    instance metadata service of virtual machines. Neither is reached over a proxy (``local``)."""
    env = os.environ
    whose = f"managed identity {client}" if client else "a managed identity"
    which = "" if client else f"; of several, name one as {_PREFIX}client.id or AZURE_CLIENT_ID"
    todo = f"Assign {whose} to this machine, with a role on {resource}{which}"
    if env.get("IDENTITY_ENDPOINT") and env.get("IDENTITY_HEADER"):
        base, version = env["IDENTITY_ENDPOINT"], "2019-08-01"
        headers = {"X-IDENTITY-HEADER": env["IDENTITY_HEADER"]}
    else:
        host = env.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254").rstrip("/")
        base, version, headers = f"{host}/metadata/identity/oauth2/token", "2018-02-01", {"Metadata": "true"}
    query = {"api-version": version, "resource": resource} | ({"client_id": client} if client else {})
    endpoint = IdentityEndpoint(
        f"{base}?{urllib.parse.urlencode(query)}", oauth, todo, [env.get("IDENTITY_HEADER", "")], local=True
    )
    return access_token(ask_json(endpoint, headers), endpoint, extensions)


def _by_certificate(path: str, client: str, audience: str) -> str:
    """``path``: PEM with certificate and key. Entra ID finds the certificate by its SHA-256 thumbprint."""
    pem = text_of_file(path)
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    first = pem[pem.find(begin) : pem.find(end) + len(end)]
    try:
        thumbprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).digest()
    except ValueError:
        raise SettingError(f"{path} holds no certificate in PEM; it has to hold the certificate and its key") from None
    header = {"alg": "RS256", "typ": "JWT", "x5t#S256": base64.urlsafe_b64encode(thumbprint).decode().rstrip("=")}
    now = int(time.time())
    claims = {"iss": client, "sub": client, "aud": audience, "jti": str(uuid.uuid4()), "nbf": now, "exp": now + 300}
    return signed(header, claims, pem)
