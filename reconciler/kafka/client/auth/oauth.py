"""OAUTHBEARER tokens: by client credentials (RFC 6749, 4.4), or unsigned ones for tests."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping

from reconciler.kafka.address import url_address
from reconciler.kafka.client.auth.tls import trusting
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError

_UNSECURED = ("principalClaimName", "principal", "scopeClaimName", "scope", "lifeSeconds")


def token(oauth: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """An access token and the extensions to send with it (KIP-342). Blocks for at most ten seconds.

    Raises SettingError or AuthenticationFailedError, without a secret in their text.
    """
    if oauth.get("sasl.oauthbearer.method", "").lower() == "oidc":
        return _by_client_credentials(oauth), _pairs(oauth.get("sasl.oauthbearer.extensions", "").split(","))
    return _unsecured(_pairs(oauth.get("sasl.oauthbearer.config", "").split()))


def _pairs(words: list[str]) -> dict[str, str]:
    named = (word.strip().partition("=") for word in words if word.strip())
    return {name: value for name, _, value in named}


def _unsecured(config: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """As librdkafka's ``sasl.oauthbearer.config`` says it: a JWS without a signature (RFC 7515, appendix A.5)."""
    extensions = {name.removeprefix("extension_"): v for name, v in config.items() if name.startswith("extension_")}
    unknown = [name for name in config if name not in _UNSECURED and not name.startswith("extension_")]
    life = config.get("lifeSeconds", "3600")
    if unknown or not config.get("principal") or not life.isdecimal():
        raise SettingError(
            "sasl.oauthbearer.config must hold principal=NAME, and may hold "
            f"{', '.join(name for name in _UNSECURED if name != 'principal')} and extension_NAME, each as name=value"
        )
    now = time.time()
    claims: dict[str, object] = {config.get("principalClaimName", "sub"): config["principal"]}
    claims |= {"iat": round(now, 3), "exp": round(now + int(life), 3)}
    if config.get("scope"):
        claims[config.get("scopeClaimName", "scope")] = config["scope"].split(",")
    return f"{_base64url({'alg': 'none'})}.{_base64url(claims)}.", extensions


def _base64url(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _by_client_credentials(oauth: Mapping[str, str]) -> str:
    names = ("token.endpoint.url", "client.id", "client.secret")
    missing = [f"sasl.oauthbearer.{name}" for name in names if not oauth.get(f"sasl.oauthbearer.{name}")]
    if missing:
        raise SettingError(f"OAUTHBEARER needs {', '.join(missing)}")
    url, identity, secret = (oauth[f"sasl.oauthbearer.{name}"] for name in names)
    try:
        where = url_address(url).host
    except ValueError as error:
        raise SettingError(f"sasl.oauthbearer.token.endpoint.url: {error}") from None
    form = {"grant_type": "client_credentials"}
    if oauth.get("sasl.oauthbearer.scope"):
        form["scope"] = oauth["sasl.oauthbearer.scope"]
    basic = base64.b64encode(f"{urllib.parse.quote(identity)}:{urllib.parse.quote(secret)}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        url, urllib.parse.urlencode(form).encode(), {"Authorization": f"Basic {basic}", "Accept": "application/json"}
    )
    try:
        context = trusting(oauth, "https.ca") if url.startswith("https") else None
    except OSError as error:
        raise SettingError(f"https.ca.location or https.ca.pem cannot be used: {error}") from None
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
            document = json.load(answer).get("access_token", "")
    except (OSError, ValueError, AttributeError) as error:
        reason = error.code if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        raise AuthenticationFailedError(f"no token from {where}: {reason}") from None
    if not isinstance(document, str) or not document:
        raise AuthenticationFailedError(f"the answer of {where} has no access_token")
    return document
