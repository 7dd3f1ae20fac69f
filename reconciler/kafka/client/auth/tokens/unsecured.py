"""``default`` with ``enable.sasl.oauthbearer.unsecure.jwt``: a JWS without a signature (RFC 7515, appendix A.5)."""

import time
from collections.abc import Mapping

from reconciler.kafka.client.auth.tokens.assertions import encoded
from reconciler.kafka.client.auth.tokens.web import AccessToken
from reconciler.kafka.client.errors import SettingError

_UNSECURED = ("principalClaimName", "principal", "scopeClaimName", "scope", "lifeSeconds")


def token(config: Mapping[str, str]) -> AccessToken:
    """``config``: as librdkafka's ``sasl.oauthbearer.config`` says it, split."""
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
