"""SASL mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802), OAUTHBEARER (RFC 7628), GSSAPI (RFC 4752).

A mechanism is a generator: it yields what to send and is sent what the broker answered.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator, Mapping

from reconciler.kafka.client.auth.oauth import token
from reconciler.kafka.client.auth.settings import SaslSettings
from reconciler.kafka.client.auth.tokens.web import claims
from reconciler.kafka.client.errors import AuthenticationFailedError

Exchange = Generator[bytes, bytes, None]
_MOST_ROUNDS = 1_000_000
"""Half a second. Kafka's own tools set 16,384 at most; what answers in a broker's place could ask for hours."""
_SHOWN = 300


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
            given = token(settings.oauth)
            extra = "".join(f"\x01{name}={value}" for name, value in given.extensions.items())
            answer = yield f"n,,\x01auth=Bearer {given.text}{extra}\x01\x01".encode()
            if answer:
                # A broker answers with its reason, and only ends the exchange once it has got an empty message.
                yield b"\x01"
                why = said_of(answer.decode(errors="replace"), given.text)
                raise AuthenticationFailedError(f"the broker refused the OAUTHBEARER token: {why}{_says(given.text)}")


def said_of(answer: str, *secrets: str) -> str:
    """What a broker says of a refused login, without what it was sent: else one could have it written into our logs."""
    for secret in filter(None, secrets):
        answer = answer.replace(secret, "***")
    return answer[:_SHOWN]


def sent_secrets(settings: SaslSettings, message: bytes) -> tuple[str, ...]:
    """What must not come back of a message: the password of PLAIN, the token of OAUTHBEARER."""
    token_text = message.decode(errors="replace").partition("auth=Bearer ")[2].partition("\x01")[0]
    return settings.password, token_text


def _says(text: str) -> str:
    """What a broker compares of a token, none of which is secret."""
    of_token = claims(text)
    named = ", ".join(
        f"{name} {of_token[name]!r}" for name in ("iss", "aud", "sub", "scope", "exp") if name in of_token
    )
    return f". The token has {named}; compare it with sasl.oauthbearer.expected.* of the broker" if named else ""


def _scram(settings: SaslSettings, digest: str) -> Exchange:
    nonce = secrets.token_urlsafe(24)
    user = settings.username.replace("=", "=3D").replace(",", "=2C")
    first_bare = f"n={user},r={nonce}"
    server_first = _text((yield f"n,,{first_bare}".encode()))
    fields = _fields(server_first)
    try:
        salt, rounds = base64.b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError):
        raise AuthenticationFailedError("the broker's SCRAM challenge cannot be read") from None
    if not fields.get("r", "").startswith(nonce) or not 4096 <= rounds <= _MOST_ROUNDS:
        raise AuthenticationFailedError(
            f"the broker's SCRAM challenge has a foreign nonce, or not 4096 to {_MOST_ROUNDS} rounds"
        )
    salted = hashlib.pbkdf2_hmac(digest, settings.password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={fields['r']}"
    message = f"{first_bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    server_final = _text((yield f"{without_proof},p={proof}".encode()))
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
    try:
        proved = base64.b64decode(_fields(server_final).get("v", ""), validate=True)
    except ValueError:
        proved = b""
    if not hmac.compare_digest(proved, expected):
        raise AuthenticationFailedError("the broker could not prove that it knows the SCRAM credentials")


def _text(answer: bytes) -> str:
    try:
        return answer.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailedError("the broker's SCRAM answer is not UTF-8") from None


def _fields(message: str) -> Mapping[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if len(part) > 1 and part[1] == "="}
