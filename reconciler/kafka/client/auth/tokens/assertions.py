"""Signed assertions (RFC 7523) by a private key: RS256 and ES256 (RFC 7518). Needs the package cryptography."""

import base64
import json
import time
import uuid
from collections.abc import Mapping

from reconciler.kafka.client.auth.tokens.web import text_of_file
from reconciler.kafka.client.errors import SettingError

_PREFIX = "sasl.oauthbearer.assertion."


def assertion(oauth: Mapping[str, str], client: str, audience: str) -> str:
    """The assertion of the ``assertion.*`` settings, from a file or signed by a key. Raises SettingError, without a
    secret in its text."""
    if path := oauth.get(f"{_PREFIX}file"):
        return text_of_file(path, f"{_PREFIX}file")
    key = oauth.get(f"{_PREFIX}private.key.pem", "")
    if not key and (path := oauth.get(f"{_PREFIX}private.key.file", "")):
        key = text_of_file(path, f"{_PREFIX}private.key.file")
    if not key:
        raise SettingError(f"an assertion needs {_PREFIX}private.key.file, {_PREFIX}private.key.pem or {_PREFIX}file")
    # Valid from a minute ago, because an identity provider whose clock is behind refuses what is not valid yet.
    now = int(time.time())
    claims: dict[str, object] = {
        "iss": oauth.get(f"{_PREFIX}claim.iss") or client,
        "sub": oauth.get(f"{_PREFIX}claim.sub") or client,
        "aud": oauth.get(f"{_PREFIX}claim.aud") or audience,
        "iat": now,
        "nbf": now - int(oauth.get(f"{_PREFIX}claim.nbf.seconds", "60")),
        "exp": now + int(oauth.get(f"{_PREFIX}claim.exp.seconds", "300")),
    }
    if oauth.get(f"{_PREFIX}claim.jti.include", "true").lower() == "true":
        claims["jti"] = str(uuid.uuid4())
    algorithm = oauth.get(f"{_PREFIX}algorithm", "RS256")
    return signed({"alg": algorithm, "typ": "JWT"}, claims, key, oauth.get(f"{_PREFIX}private.key.passphrase", ""))


def signed(header: Mapping[str, object], claims: Mapping[str, object], key: str, passphrase: str = "") -> str:
    """A JWS in compact form. ``header``: with ``alg``, RS256 or ES256. ``key``: PEM. Raises SettingError."""
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError:
        raise SettingError(
            "the package cryptography signs assertions and is missing. Install kafka-topology-reconciler[oauth] where "
            "this program runs, and on executors"
        ) from None
    algorithm = header["alg"]
    try:
        private = load_pem_private_key(key.encode(), passphrase.encode() or None)
    except (ValueError, TypeError):
        raise SettingError(
            "the private key of the assertion cannot be used: no PEM key, or its passphrase is another"
        ) from None
    text = f"{encoded(header)}.{encoded(claims)}"
    if isinstance(private, rsa.RSAPrivateKey) and algorithm == "RS256":
        signature = private.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    elif isinstance(private, ec.EllipticCurvePrivateKey) and algorithm == "ES256" and private.key_size == 256:
        # A JWS has r and s side by side (RFC 7518, section 3.4), not in DER.
        r, s = utils.decode_dss_signature(private.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    else:
        kind = type(private).__name__.strip("_")
        raise SettingError(f"the private key of the assertion is {kind}, which does not sign {algorithm}")
    return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def encoded(part: Mapping[str, object] | str) -> str:
    """Base64url of a JWT's part (RFC 7515), or of a text, without padding."""
    text = part if isinstance(part, str) else json.dumps(part)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
