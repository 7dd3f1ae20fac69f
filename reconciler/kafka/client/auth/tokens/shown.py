"""Parts of a token for output: claims that a broker compares, never the proof of identity."""

import base64
import json
import time
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

GOOGLE_ENVELOPE = "GOOG_OAUTH2_TOKEN"
_COMPARED = ("iss", "aud", "sub", "scope")


def claims(text: str) -> Mapping[str, object]:
    """Claims of a JWT, without checking its signature; empty for an opaque token."""
    return _part(text, 1)


def compared(text: str) -> str:
    """Claims to append to a broker's refusal, since brokers log the reason but do not send it. Empty for an opaque
    token."""
    of_token = claims(text)
    named = [f"{name} {of_token[name]!r}" for name in _COMPARED if name in of_token]
    if kid := _part(text, 0).get("kid"):
        named.append(f"key {kid!r}")
    if isinstance(expires := of_token.get("exp"), (int, float)):
        named.append(f"an end at {stamp(expires)}")
    where = "sasl.oauthbearer.expected.* and the keys of sasl.oauthbearer.jwks.endpoint.url of the broker"
    if _part(text, 0).get("alg") == GOOGLE_ENVELOPE:
        where = "the account that has roles/managedkafka.client in the project of the cluster"
    if not named:
        named, where = _of_presigned_url(text), "the rights and the region of this key, and with the broker's clock"
    clock = f"the clock here says {stamp(time.time())}"
    return f". The token has {', '.join(named)}, and {clock}; compare it with {where}" if named else ""


def _of_presigned_url(text: str) -> list[str]:
    """Parts of AWS' presigned URL: access key id, scope, time and life, without the signature."""
    parts = urlsplit(_decoded(text).decode(errors="replace"))
    query = parse_qs(parts.query)
    names = {"X-Amz-Credential": "credential", "X-Amz-Date": "date", "X-Amz-Expires": "life"}
    return [f"{word} {query[name][0]!r}" for name, word in names.items() if name in query]


def _part(text: str, number: int) -> Mapping[str, object]:
    """Header (0) or claims (1) of a JWT, without checking its signature, for error messages. Empty for any other
    text."""
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        decoded = json.loads(_decoded(parts[number]))
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def stamp(seconds: float) -> str:
    """``2026-11-28T12:00:00Z``."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
    except (OverflowError, ValueError, OSError):
        return str(seconds)
