"""SASL mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802), OAUTHBEARER (RFC 7628), GSSAPI (RFC 4752).

A mechanism is a generator: it yields what to send and is sent what the broker answered.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator, Mapping

from reconciler.kafka.address import url_address
from reconciler.kafka.client.auth.settings import SaslSettings
from reconciler.kafka.client.auth.tls import trusting
from reconciler.kafka.client.errors import AuthenticationFailedError, SettingError

Exchange = Generator[bytes, bytes, None]


def exchange(settings: SaslSettings, host: str = "") -> Exchange:
    """The client's side; ``host``: the broker's, as it was dialled, for GSSAPI. Only the first step blocks.

    Raises AuthenticationFailedError when the broker cannot prove itself (SCRAM, GSSAPI) or refuses us, or there is no
    token or ticket to show.
    """
    match settings.mechanism:
        case "PLAIN":
            yield f"\0{settings.username}\0{settings.password}".encode()
        case "SCRAM-SHA-256" | "SCRAM-SHA-512" as mechanism:
            yield from _scram(settings, mechanism.removeprefix("SCRAM-").replace("-", "").lower())
        case "GSSAPI":
            from reconciler.kafka.client.auth import gssapi  # loads a library that others need not have

            yield from gssapi.exchange(settings.kerberos, host)
        case _:
            text, extensions = token(settings.oauth)
            extra = "".join(f"\x01{name}={value}" for name, value in extensions.items())
            answer = yield f"n,,\x01auth=Bearer {text}{extra}\x01\x01".encode()
            if answer:
                # A broker answers with its reason, and only ends the exchange once it has got an empty message.
                yield b"\x01"
                raise AuthenticationFailedError(
                    f"the broker refused the OAUTHBEARER token: {answer[:200].decode(errors='replace')}"
                )


def _scram(settings: SaslSettings, digest: str) -> Exchange:
    nonce = secrets.token_urlsafe(24)
    user = settings.username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={user},r={nonce}"
    server_first = (yield f"n,,{first_bare}".encode()).decode()
    fields = _fields(server_first)
    try:
        salt, rounds = base64.b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError, binascii.Error):
        raise AuthenticationFailedError("the broker's SCRAM challenge cannot be read") from None
    if not fields.get("r", "").startswith(nonce) or rounds < 4096:
        raise AuthenticationFailedError("the broker's SCRAM challenge has a foreign nonce or fewer than 4096 rounds")
    salted = hashlib.pbkdf2_hmac(digest, settings.password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={fields['r']}"
    message = f"{first_bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    server_final = (yield f"{without_proof},p={proof}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
    try:
        proved = base64.b64decode(_fields(server_final).get("v", ""), validate=True)
    except binascii.Error:
        proved = b""
    if not hmac.compare_digest(proved, expected):
        raise AuthenticationFailedError("the broker could not prove that it knows the SCRAM credentials")


def _fields(message: str) -> Mapping[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if len(part) > 1 and part[1] == "="}


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
