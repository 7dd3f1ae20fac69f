"""SASL mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256 and -512 (RFC 5802), OAUTHBEARER (RFC 7628), GSSAPI (RFC 4752).

A mechanism is a generator: it yields what to send, is sent what the broker answered, and is thrown its refusal.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Generator, Mapping

from reconciler.kafka.client.auth.oauth import refused, token
from reconciler.kafka.client.auth.settings import SaslSettings
from reconciler.kafka.client.auth.tokens.shown import compared
from reconciler.kafka.client.errors import AuthenticationFailedError, StaleTokenError

Exchange = Generator[bytes, bytes, None]


def exchange(settings: SaslSettings, host: str = "") -> Exchange:
    """The client's side of an exchange; ``host``: the dialled host of the broker, for GSSAPI. Only the first step
    blocks.

    Raises AuthenticationFailedError if the broker cannot prove itself (SCRAM, GSSAPI) or refuses us, or without a token
    or ticket.
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
            try:
                answer = yield f"n,,\x01auth=Bearer {given.text}{extra}\x01\x01".encode()
                if answer:
                    # A broker answers with its reason, and only ends the exchange once it has got an empty message.
                    yield b"\x01"
                    why = answer[:200].decode(errors="replace")
                    raise AuthenticationFailedError(f"the broker refused the OAUTHBEARER token: {why}")
            except AuthenticationFailedError as error:
                kind = StaleTokenError if refused(settings.oauth, given) else AuthenticationFailedError
                raise kind(f"{error}{compared(given.text)}") from None


def _scram(settings: SaslSettings, digest: str) -> Exchange:
    """SCRAM-SHA-256 and -512 (RFC 5802): yields messages, and is sent the broker's. No channel binding (``biws`` is
    "n,,"). Refuses fewer than 4096 iterations, like Kafka's client (KIP-84). The broker must prove that it knows the
    password, too, or another server could impersonate it."""
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
    # SaltedPassword, ClientKey, StoredKey and the proof of RFC 5802, section 3.
    salted = hashlib.pbkdf2_hmac(digest, settings.password.encode(), salt, rounds)
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={fields['r']}"
    message = f"{first_bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    server_final = (yield f"{without_proof},p={proof}".encode()).decode()
    # The broker's signature is by a key that only one who knows the password, or its verifier, can make.
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
    try:
        proved = base64.b64decode(_fields(server_final).get("v", ""), validate=True)
    except binascii.Error:
        proved = b""
    if not hmac.compare_digest(proved, expected):
        raise AuthenticationFailedError("the broker could not prove that it knows the SCRAM credentials")


def _fields(message: str) -> Mapping[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if len(part) > 1 and part[1] == "="}
