"""Which of librdkafka's settings our own connections honour or refuse, and what to use instead.

Pure, and nothing is opened: an environment can be judged before anybody connects. Names and meaning: librdkafka 2.16,
CONFIGURATION.md. A setting that decides about security is honoured, harmless or refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_DECIDES = ("ssl.", "ssl_", "sasl.", "security.", "https.", "enable.ssl", "enable.sasl", "oauthbearer_")
HONOURED = frozenset(
    {
        "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.config",
        "enable.sasl.oauthbearer.unsecure.jwt",
        "https.ca.location", "https.ca.pem", "ssl.ca.location", "ssl.ca.pem", "ssl.crl.location",
        "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password",
        "ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification", "ssl.cipher.suites",
        "ssl.curves.list",
    }
)  # fmt: skip
HARMLESS = ("sasl.kerberos.", "sasl.oauthbearer.sub.claim.name")
"""They mean something with the mechanism GSSAPI only, which is refused by its name; or in librdkafka's own log."""

_OWN = "The mirror, and requests that librdkafka has no call for, go over connections of our own"
_CONFIGURATION = "remove it, and set {} in the OpenSSL configuration (OPENSSL_CONF) of the machines that run the mirror"
_PKCS12 = (
    "convert the keystore once, openssl pkcs12 -in client.p12 -clcerts -out client.pem, and name client.pem as "
    "ssl.certificate.location, with its passphrase as ssl.key.password"
)
_INSTEAD: Mapping[str, tuple[str, str]] = {
    "ssl.keystore.": (f"{_OWN}, which read certificates as PEM and not as PKCS#12", _PKCS12),
    "ssl.sigalgs.list": (f"{_OWN}, which cannot set it", _CONFIGURATION.format("SignatureAlgorithms")),
    "ssl.providers": (f"{_OWN}, which cannot set it", _CONFIGURATION.format("the providers")),
    "ssl.engine.": (f"{_OWN}, which use no OpenSSL engine", "name the key as a file, ssl.key.location"),
    "ssl.ca.certificate.stores": ("It is for Windows only", "name the certificates as a file, ssl.ca.location"),
    "sasl.oauthbearer.assertion.": (
        f"{_OWN}, which sign no assertions",
        "use client credentials: sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret",
    ),
    "sasl.jaas.config": ("It is a setting of the Java clients", "use sasl.mechanism, sasl.username and sasl.password"),
}
_WORDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "security.protocol": (PROTOCOLS, ""),
    "sasl.mechanism": (tuple(map(str.lower, MECHANISMS)), "The mirror does not speak Kerberos (GSSAPI)"),
    "sasl.mechanisms": (tuple(map(str.lower, MECHANISMS)), "The mirror does not speak Kerberos (GSSAPI)"),
    "sasl.oauthbearer.method": (("oidc", "default"), ""),
    "sasl.oauthbearer.grant.type": (("client_credentials",), f"{_OWN}, which sign no assertions"),
    "sasl.oauthbearer.metadata.authentication.type": (("none",), f"{_OWN}, which ask no cloud for its identity"),
    "ssl.endpoint.identification.algorithm": (("https", "none", ""), ""),
    "enable.ssl.certificate.verification": (("true", "false"), ""),
    "enable.sasl.oauthbearer.unsecure.jwt": (("true", "false"), ""),
    "broker.address.family": (("any", "v4", "v6"), ""),
}
"""Settings of few values, in lower case, and why there are no more where it is not plain."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """``setting`` is the one to edit. The texts are sentences without a full stop; none holds a secret."""

    setting: str
    what: str
    why: str
    todo: str

    def __str__(self) -> str:
        return f"{self.what}. {self.why}. {self.todo}"


def refusals(client: Mapping[str, str | None]) -> tuple[Refusal, ...]:
    """``client``: librdkafka settings; None for a value that is not known yet (a secret)."""
    return (*_unknown(client), *_values(client), *_together(client))


def _unknown(client: Mapping[str, str | None]) -> Iterator[Refusal]:
    for setting in sorted(client):
        if not setting.startswith(_DECIDES) or setting in HONOURED or setting.startswith(HARMLESS):
            continue
        why, todo = next(
            (words for name, words in _INSTEAD.items() if setting.startswith(name)),
            (f"{_OWN}, which do not know it; ignoring it could weaken or break security", "remove it"),
        )
        yield Refusal(setting, f"the setting {setting} is not supported", why, _sentence(todo))


def _values(client: Mapping[str, str | None]) -> Iterator[Refusal]:
    for setting, (words, why) in _WORDS.items():
        value = client.get(setting)
        if value is not None and value.lower() not in words:
            shown = [word.upper() if setting.startswith("sasl.mechanism") else word for word in words if word]
            todo = f"Use {_any_of(shown)}"
            yield Refusal(setting, f'{setting} is "{value}"', why or f"It must be {_any_of(shown)}", todo)
    curves = client.get("ssl.curves.list")
    if curves and len([name for name in curves.replace(",", ":").split(":") if name]) > 1:
        problem, why = f'ssl.curves.list is "{curves}"', f"{_OWN}, which can be held to one curve and not to a list"
        yield Refusal("ssl.curves.list", problem, why, "Name one curve, or remove it")


def _together(client: Mapping[str, str | None]) -> Iterator[Refusal]:
    """What is wrong only beside other settings."""
    protocol = (client.get("security.protocol", "plaintext") or "").lower()
    if not protocol.startswith("sasl"):
        return
    named = [client[name] for name in ("sasl.mechanisms", "sasl.mechanism") if name in client]
    if not named:
        why = "Without one librdkafka takes GSSAPI (Kerberos), which the mirror does not speak"
        problem = f"security.protocol is {protocol} and sasl.mechanism is missing"
        yield Refusal("security.protocol", problem, why, f"Set sasl.mechanism to {_any_of(MECHANISMS)}")
        return
    if named[0] is None or named[0].upper() != "OAUTHBEARER":
        return
    method = client.get("sasl.oauthbearer.method", "default")
    unsecured = client.get("enable.sasl.oauthbearer.unsecure.jwt", "false")
    if method is not None and method.lower() == "default" and unsecured is not None and unsecured.lower() == "false":
        setting = "sasl.mechanisms" if "sasl.mechanisms" in client else "sasl.mechanism"
        problem = f"{setting} is OAUTHBEARER and sasl.oauthbearer.method is not oidc"
        yield Refusal(setting, problem, "Nothing says where a token comes from", "Set sasl.oauthbearer.method to oidc")


def _any_of(words: tuple[str, ...] | list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
