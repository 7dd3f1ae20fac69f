"""``oidc``: client credentials (RFC 6749, section 4.4), with a secret or a signed assertion, and RFC 7523's grant.

``sasl.oauthbearer.client.authentication`` has the names of OpenID Connect Core 1.0, section 9.
"""

import base64
import urllib.parse
from collections.abc import Mapping

from reconciler.kafka.client.auth.supported_settings import JWT_BEARER
from reconciler.kafka.client.auth.tokens.assertions import assertion
from reconciler.kafka.client.auth.tokens.web import AccessToken, IdentityEndpoint, access_token, ask_json
from reconciler.kafka.client.errors import SettingError

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_PREFIX = "sasl.oauthbearer."


def token(oauth: Mapping[str, str], extensions: Mapping[str, str]) -> AccessToken:
    """Raises SettingError for what is missing or cannot be read, TokenRefusedError for what the endpoint refuses."""
    grant = oauth.get(f"{_PREFIX}grant.type", "client_credentials")
    by = oauth.get(f"{_PREFIX}client.authentication", "client_secret_basic").lower()
    identity, secret = (oauth.get(f"{_PREFIX}client.{name}", "") for name in ("id", "secret"))
    signed = grant == JWT_BEARER or by == "private_key_jwt"
    needed: tuple[str, ...] = ("token.endpoint.url",) if grant == JWT_BEARER else ("token.endpoint.url", "client.id")
    if not signed:
        needed += ("client.secret",)
    if missing := [f"{_PREFIX}{name}" for name in needed if not oauth.get(f"{_PREFIX}{name}")]:
        raise SettingError(f"OAUTHBEARER needs {', '.join(missing)}")
    url = oauth[f"{_PREFIX}token.endpoint.url"]
    form = {"grant_type": grant}
    form |= {name: oauth[f"{_PREFIX}{name}"] for name in ("scope", "audience") if oauth.get(f"{_PREFIX}{name}")}
    headers: dict[str, str] = {}
    hidden = [secret]
    # By a signed assertion (RFC 7523) the secret never leaves this machine; else it goes in the body, or in a header as
    # RFC 6749, section 2.3.1, asks for by default.
    if signed:
        proof = assertion(oauth, identity, url)
        hidden.append(proof)
        form |= (
            {"assertion": proof}
            if grant == JWT_BEARER
            else {"client_id": identity, "client_assertion_type": _ASSERTION_TYPE, "client_assertion": proof}
        )
    elif by == "client_secret_post":
        form |= {"client_id": identity, "client_secret": secret}
    else:
        quoted = f"{urllib.parse.quote(identity, safe='')}:{urllib.parse.quote(secret, safe='')}"
        hidden.append(base64.b64encode(quoted.encode()).decode())
        headers["Authorization"] = f"Basic {hidden[-1]}"
    proof_of = "its key" if signed else "its secret"
    asked = f" for scope {form['scope']}" if "scope" in form else ""
    todo = f"Check client {identity or 'of the assertion'}{asked} and {proof_of} at {url.partition('?')[0]}"
    endpoint = IdentityEndpoint(url, oauth, todo, hidden)
    return access_token(ask_json(endpoint, headers, form), endpoint, extensions)
