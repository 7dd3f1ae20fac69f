"""The only source of access tokens for our own connections and librdkafka, for every method.

This process caches a token for each group of settings until 80 % of its life; one thread at a time asks for a new one.
If renewal fails, the old token is used while it is valid. After a refusal the endpoint is not asked for a while,
because identity providers limit requests and lock clients. A token that a broker refused is renewed soon, because the
provider's configuration may have been corrected.
"""

import importlib
import math
import random
import threading
import time
from collections.abc import Callable, Mapping

from reconciler.kafka.client.auth.tokens.assertions import encoded
from reconciler.kafka.client.auth.tokens.web import AccessToken, TokenRefusedError, proper_token
from reconciler.kafka.client.errors import SettingError

RENEWED_AT = 0.8
"""Part of a token's life after which a new one is requested, while the old one is still valid."""
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_REFUSED = 1.0, 30.0, 5.0
"""Seconds between questions: doubled where the endpoint is busy; after a refusal for good at most the last."""
LIBRDKAFKA_ASKS = 10.0
"""Seconds after which librdkafka takes a token for one that ended."""
_APART = 2.0
"""Seconds between the starts of two sessions whose ends are compared: more than a busy machine takes to log in."""
_SPARE = 1.0
"""Seconds before its end from which on a token is not used: it has to arrive at the broker."""
_METHOD = "sasl.oauthbearer.method"
_UNSECURED = ("principalClaimName", "principal", "scopeClaimName", "scope", "lifeSeconds")
_ALIASES = {
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}


class _Kept:
    """The cache entry of one group of settings. ``lock``: held while the endpoint is asked. Times are monotonic, so
    that an adjusted clock does not shift them. ``life``: of the token, as the last session of a broker lets it be, from
    ``given_at`` to that session's end; ``proven_life``: where sessions end with the token, before its end here."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.token: AccessToken | None = None
        self.refused = False  # by a broker
        self.given_at = 0.0
        self.renew_at = 0.0
        self.ask_at = 0.0
        self.granted_at = math.inf
        self.life = self.proven_life = math.inf
        self.failures = 0
        self.error: TokenRefusedError | None = None

    def valid(self) -> AccessToken | None:
        return self.token if self.token is not None and time.time() < self.token.expires_at - _SPARE else None


_kept: dict[tuple[tuple[str, str], ...], _Kept] = {}
_lock = threading.Lock()


def oauth_settings(client: Mapping[str, str]) -> dict[str, str]:
    """Settings of ``client`` that affect tokens."""
    of_oauth = ("sasl.oauth", "https.", "enable.sasl.oauth")
    return {_ALIASES.get(name, name): value for name, value in client.items() if name.startswith(of_oauth)}


def token(oauth: Mapping[str, str]) -> AccessToken:
    """A valid token. ``oauth``: ``oauth_settings`` of a client, secrets resolved. Blocks while an endpoint is asked.

    Raises SettingError or AuthenticationFailedError, without a secret in their text.
    """
    kept = _of(oauth)
    stale, valid = kept.refused, kept.valid()  # in the reverse of the order in which another thread sets them
    if valid is not None and time.monotonic() < kept.renew_at:
        return valid
    # With a valid token no caller waits for another thread's request, unless a broker refused the token.
    if not kept.lock.acquire(blocking=valid is None or stale):
        assert valid is not None
        return valid
    try:
        return _renewed(kept, oauth)
    finally:
        kept.lock.release()


def refused(oauth: Mapping[str, str], given: AccessToken) -> bool:
    """Notes that a broker refused ``given``; the next token is requested ``LONGEST_REFUSED`` seconds after it. True
    from then on."""
    kept = _of(oauth)
    if kept.token is not given:
        return kept.token is not None
    kept.refused = True
    kept.renew_at = min(kept.renew_at, kept.given_at + LONGEST_REFUSED)
    return time.monotonic() >= kept.renew_at


def granted(oauth: Mapping[str, str], asked_at: float, seconds: float) -> None:
    """A broker, asked at ``asked_at``, gave a session of ``seconds`` (KIP-368). It ends with its token, by that
    broker's clock, or after ``connections.max.reauth.ms``.

    Sessions that began apart and end together end with the token. If the clock here is behind, the connection that
    takes over at 80 % of such a session needs another token: with this one its session would be a fifth as long, the
    next one a twenty-fifth. Sessions as long as that setting need none, and identity providers limit requests.
    """
    kept = _of(oauth)
    life = asked_at + seconds - kept.given_at
    if asked_at > kept.granted_at + _APART and abs(life - kept.life) < _APART / 2:
        kept.proven_life = life
        kept.renew_at = min(kept.renew_at, kept.given_at + life * RENEWED_AT)
    elif life > kept.proven_life + _APART:  # a clock was corrected
        kept.proven_life = math.inf
    kept.granted_at, kept.life = asked_at, life


def _of(oauth: Mapping[str, str]) -> _Kept:
    with _lock:
        return _kept.setdefault(tuple(sorted(oauth.items())), _Kept())


def _renewed(kept: _Kept, oauth: Mapping[str, str]) -> AccessToken:
    """A valid token: the present one until it is due for renewal, or until its endpoint answers. A refusal is an error
    only once the present token has ended."""
    began, now = time.monotonic(), time.time()
    valid = kept.valid()
    if valid is not None and began < kept.renew_at:
        return valid
    if began >= kept.ask_at:
        try:
            fresh = _source(oauth)(oauth)
            kept.token, kept.refused, kept.error, kept.failures = fresh, False, None, 0
            kept.given_at, kept.granted_at = began, math.inf
            kept.renew_at = began + min(fresh.expires_at - now, kept.proven_life) * RENEWED_AT
            return fresh
        except TokenRefusedError as error:
            longest = LONGEST_PAUSE if error.busy else LONGEST_REFUSED
            pause = min(FIRST_PAUSE * 2**kept.failures, longest) * random.uniform(0.8, 1)  # noqa: S311 - no secret
            kept.ask_at = time.monotonic() + min(max(pause, error.retry_after or 0.0), 10 * LONGEST_PAUSE)
            kept.failures = min(kept.failures + 1, 10)
            kept.error = error
    if (valid := kept.valid()) is not None:
        return valid
    assert kept.error is not None
    raise kept.error


def _source(oauth: Mapping[str, str]) -> Callable[[Mapping[str, str]], AccessToken]:
    """What gets a token by the method; modules are imported for the method that is used."""
    method = oauth.get(_METHOD, "default")
    extensions = pairs(oauth.get("sasl.oauthbearer.extensions", "").split(","))
    match method.lower():
        case "default":
            config = pairs(oauth.get("sasl.oauthbearer.config", "").split())
            return lambda _: unsecured(config)
        case "oidc":
            from reconciler.kafka.client.auth.tokens import oidc

            return lambda settings: oidc.token(settings, extensions)
        case "aws_msk_iam":
            from reconciler.kafka.client.auth.tokens import aws

            return aws.of_msk_iam
        case "aws_sts":
            from reconciler.kafka.client.auth.tokens import aws

            return lambda settings: aws.of_sts(settings, extensions)
        case "azure":
            from reconciler.kafka.client.auth.tokens import azure

            return lambda settings: azure.token(settings, extensions)
        case "gcp":
            from reconciler.kafka.client.auth.tokens import gcp

            return gcp.token
    return lambda settings: _provided(method, settings)


def unsecured(config: Mapping[str, str]) -> AccessToken:
    """``default`` with ``enable.sasl.oauthbearer.unsecure.jwt``: a JWS without a signature (RFC 7515, appendix A.5).
    ``config``: as librdkafka's ``sasl.oauthbearer.config`` says it, split."""
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
    return AccessToken(f"{encoded({'alg': 'none'})}.{encoded(claims)}.", now + int(life), extensions)


def _provided(method: str, settings: Mapping[str, str]) -> AccessToken:
    """``method``: package.module:function. It is called with the settings and returns token, end of its life (seconds
    since 1970), and extensions if there are any (KIP-342). That it may be imported was asked before
    (``backends.connections.credentials``), as of naming policies. Whatever comes out of it is one sentence."""
    module, colon, name = method.partition(":")
    if not colon:
        raise SettingError(f"sasl.oauthbearer.method is {method}, which is no method and no package.module:function")
    try:
        answer = getattr(importlib.import_module(module), name)(dict(settings))
        text, expires_at, *rest = answer
        given = AccessToken(str(text), float(expires_at), dict(rest[0]) if rest else {})
    except Exception as error:  # noqa: BLE001 - user code; its text may hold a secret
        raise TokenRefusedError(f"no token from the provider {method}: {type(error).__name__}. See its log") from None
    proper_token(given.text, f"the provider {method}")
    return given


def pairs(words: list[str]) -> dict[str, str]:
    named = (word.strip().partition("=") for word in words if word.strip())
    return {name: value for name, _, value in named}


def librdkafka_settings(client: Mapping[str, str]) -> dict[str, object]:
    """``client`` for librdkafka, with tokens from this module by ``oauth_cb``. Secrets are resolved."""
    mechanism = client.get("sasl.mechanisms", client.get("sasl.mechanism", "")).upper()
    if mechanism != "OAUTHBEARER" or client.get(_METHOD, "default").lower() == "default":
        return dict(client)
    oauth = oauth_settings(client)

    def given(_: str) -> tuple[str, float, str, dict[str, str]]:
        """librdkafka fails on a refused token, and requests the next one at 80 % of its life; a shortened life makes it
        renew before the broker's clock ends the token."""
        kept = _of(oauth)
        kept.renew_at = min(kept.renew_at, kept.given_at + kept.life * RENEWED_AT)
        held = token(oauth)
        return held.text, min(held.expires_at, time.time() + LIBRDKAFKA_ASKS), "", dict(held.extensions)

    rest = {
        name: value for name, value in client.items() if not name.startswith(("sasl.oauth", "https.", "enable.sasl."))
    }
    return {**rest, "oauth_cb": given}
