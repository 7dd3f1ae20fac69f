"""An authorization server for tests: clients prove themselves as RFC 6749 and RFC 7523 say, and its keys are JWKS.

What a test changes of it counts from the next request on.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from reconciler.kafka.client.auth.tokens.assertions import signed
from reconciler.kafka.client.auth.tokens.shown import claims
from tests.support.access.identity import IdentityAnswer, IdentityRequest, identity_server

CLIENT, SECRET, AUDIENCE, ISSUER, SCOPE = "ada", "s3cret/of:ada", "kafka.example.net", "https://issuer.test", "kafka"
_BY_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def pem(key: rsa.RSAPrivateKey) -> str:
    how = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()


def _number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).decode().rstrip("=")


@dataclass
class Issuer:
    """``changed``: claims of later tokens; one that is None is left out. ``answer``: what is said instead of a token.
    ``life``: of a token, in seconds. ``asked``: how often a token was asked for."""

    url: str = ""
    secret: str = SECRET
    kid: str = "k1"
    life: float = 300.0
    changed: dict[str, object] = field(default_factory=dict)
    answer: IdentityAnswer | None = None
    asked: int = 0
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    of_client: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    def answers(self, request: IdentityRequest) -> IdentityAnswer:
        if request.path == "/keys":
            numbers = self.key.public_key().public_numbers()
            shown = {"kty": "RSA", "use": "sig", "alg": "RS256", "n": _number(numbers.n), "e": _number(numbers.e)}
            return IdentityAnswer({"keys": [{**shown, "kid": "k1"}]}, headers={"Content-Type": "application/json"})
        self.asked += 1
        if self.answer is not None:
            return self.answer
        if not self._proved(request):
            return IdentityAnswer({"error": "invalid_client", "error_description": "unknown client or secret"}, 401)
        if request.form.get("scope", SCOPE) != SCOPE:
            return IdentityAnswer({"error": "invalid_scope", "error_description": f"only {SCOPE} is granted"}, 400)
        return self.grant()

    def grant(self) -> IdentityAnswer:
        """Also of a cloud's service whose tokens are this issuer's."""
        made = {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.life}
        return IdentityAnswer(made) if self.answer is None else self.answer

    def service_account(self) -> dict[str, str]:
        """Google's credentials in a file: the holder of ``of_client``, to whom tokens are given here."""
        made = {"type": "service_account", "client_email": CLIENT, "token_uri": f"{self.url}/token"}
        return {**made, "private_key": pem(self.of_client), "private_key_id": "k1"}

    def token(self) -> str:
        now = time.time()
        told = {"iss": ISSUER, "aud": AUDIENCE, "sub": CLIENT, "scope": SCOPE, "iat": now, "exp": now + self.life}
        told = {name: value for name, value in (told | self.changed).items() if value is not None}
        return signed({"alg": "RS256", "typ": "JWT", "kid": self.kid}, told, pem(self.key))

    def _proved(self, request: IdentityRequest) -> bool:
        form = request.form
        if form.get("grant_type") == GRANT:
            return self._by_client(form.get("assertion", ""))
        if form.get("client_assertion_type") == _BY_ASSERTION:
            return self._by_client(form.get("client_assertion", ""))
        if "client_secret" in form:
            return (form.get("client_id"), form["client_secret"]) == (CLIENT, self.secret)
        wanted = base64.b64encode(f"{CLIENT}:{quote(self.secret, safe='')}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {wanted}"

    def _by_client(self, proof: str) -> bool:
        text, _, signature = proof.rpartition(".")
        try:
            of = base64.urlsafe_b64decode(signature + "==")
            self.of_client.public_key().verify(of, text.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            return False
        told = claims(proof)
        subject = told.get("sub", told.get("iss"))  # Google's clients leave sub out
        return (subject, told.get("aud")) == (CLIENT, f"{self.url}/token") and isinstance(told.get("exp"), int)

    def client(self, **more: str) -> dict[str, str]:
        """Settings of a client that gets its tokens here; ``more`` without the prefix, ``_`` for ``.``."""
        named = {"method": "oidc", "token.endpoint.url": f"{self.url}/token", "client.id": CLIENT}
        named |= {"client.secret": self.secret} | {name.replace("_", "."): value for name, value in more.items()}
        return {f"sasl.oauthbearer.{name}": value for name, value in named.items() if value}


@contextlib.contextmanager
def running_issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    with identity_server(issuer.answers) as server:
        issuer.url = server.url
        yield issuer
