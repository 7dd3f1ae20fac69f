"""Brokers that prove tokens for real: Kafka's own validator with the keys of an issuer, and one that does as MSK does.

On ports further than any of the sandbox, listener SASL takes PLAIN, SCRAM-SHA-256 and the tokens of an issuer; IAM
presigned URLs of AWS; GOOGLE tokens in Google's envelope; TLS certificates of an authority of the test; SECURE
SCRAM-SHA-512 over TLS.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import ports
from reconciler_sandbox.brokers import server_properties as properties
from reconciler_sandbox.brokers.up_down import Launch, bring_up
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.profiles import HOST, QUICK_START, Profile, SandboxBroker

from tests.support.access.certificates import ShortLived
from tests.support.access.issuer import AUDIENCE, CLIENT, ISSUER, Issuer
from tests.support.fakes.java_agent import agent

PASSWORD = "s3cret-of-ada"
KEY, AWS_SECRET, SESSION, REGION = (
    "ASIATESTTESTTEST",
    "wJalrXUtnFEMI/K7MDENG+of-tests",
    "ses/sion+of=tests",
    "eu-west-1",
)
_PORTS = {"SASL": 5, "IAM": 6, "GOOGLE": 7, "TLS": 8, "SECURE": 9}
_LISTENERS = {"AWS_MSK_IAM": "IAM", "GCP": "GOOGLE", "SCRAM-SHA-512": "SECURE"}
_SECURITY = "org.apache.kafka.common.security"
_OURS = ("MskIamValidator", "GoogleValidator", "PasswordsOfFile")
_PASSWORDS = "password-of-ada"
_VALIDATORS = {
    "SASL": f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "IAM": _OURS[0],
    "GOOGLE": _OURS[1],
}


def client(cluster: ClusterHandle, mechanism: str) -> dict[str, str]:
    """``mechanism``: of listener SASL or SECURE, or AWS_MSK_IAM for listener IAM, or GCP for listener GOOGLE."""
    listener = _LISTENERS.get(mechanism, "SASL")
    made = {
        "bootstrap.servers": address(cluster, listener),
        "security.protocol": "SASL_SSL" if listener == "SECURE" else "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER" if listener in ("IAM", "GOOGLE") else mechanism,
    }
    if listener == "IAM":
        return {**made, "sasl.oauthbearer.method": "aws_msk_iam", "sasl.oauthbearer.aws.region": REGION}
    if listener == "GOOGLE":
        return {**made, "sasl.oauthbearer.method": "gcp"}
    return made | ({} if mechanism == "OAUTHBEARER" else {"sasl.username": CLIENT, "sasl.password": PASSWORD})


def address(cluster: ClusterHandle, listener: str) -> str:
    return f"{HOST}:{cluster.brokers[0].port + _PORTS[listener]}"


@contextlib.contextmanager
def token_brokers(
    issuer: Issuer,
    clusters: tuple[str, ...] = ("east",),
    session_ms: int = 60_000,
    authority: ShortLived | None = None,
) -> Iterator[Sandbox]:
    """One broker each; sessions end after ``session_ms`` (KIP-368), and with their token."""
    with pytest.MonkeyPatch.context() as patch, guardian.guarded_home() as home:
        signer = authority or ShortLived(home)
        signer.issue(home / "broker.pem", "broker", 86_400)
        same = {
            **_of_issuer(issuer),
            **_of_passwords(),
            **_of_tls(home, signer),
            "connections.max.reauth.ms": str(session_ms),
        }

        def listeners(broker: SandboxBroker) -> dict[str, str]:
            return {**_of_listeners(broker), **same}

        patch.setattr(properties, "_plain_listeners", listeners)
        told = {"key": KEY, "secret": AWS_SECRET, "session": SESSION, "region": REGION}
        sources = [Path(__file__).parent / "validators" / f"{name}.java" for name in _OURS]
        jvm = (
            *QUICK_START,
            f"-javaagent:{agent(home, *sources)}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/keys",
            *(f"-Dmsk.{name}={value}" for name, value in told.items()),
            f"-Dpasswords.of.file={home / _PASSWORDS}",
        )
        profile = Profile("tokens", 1, 1, 1, secure=False, heap="256m", jvm=jvm, clusters=clusters)
        base, reserved = ports.reserve_block()
        with reserved:
            sandbox = bring_up(Launch(profile, home, base))
        set_password(sandbox, PASSWORD)
        yield sandbox


def _of_listeners(broker: SandboxBroker) -> dict[str, str]:
    at = {"PLAINTEXT": broker.port, **{name: broker.port + further for name, further in _PORTS.items()}}
    at["CONTROLLER"] = broker.controller_port
    return {
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in at.items()),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,IAM:SASL_PLAINTEXT,"
        "GOOGLE:SASL_PLAINTEXT,TLS:SSL,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
    }


def _of_issuer(issuer: Issuer) -> dict[str, str]:
    made = {
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    for listener, handler in _VALIDATORS.items():
        name = f"listener.name.{listener.lower()}"
        made.setdefault(f"{name}.sasl.enabled.mechanisms", "OAUTHBEARER")
        made[f"{name}.oauthbearer.sasl.jaas.config"] = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
        made[f"{name}.oauthbearer.sasl.server.callback.handler.class"] = handler
    return made


def _of_passwords() -> dict[str, str]:
    plain, scram = "listener.name.sasl.plain.sasl", f"{_SECURITY}.scram.ScramLoginModule required;"
    return {
        f"{plain}.jaas.config": f"{_SECURITY}.plain.PlainLoginModule required;",
        f"{plain}.server.callback.handler.class": _OURS[2],
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.secure.scram-sha-512.sasl.jaas.config": scram,
    }


def _of_tls(home: Path, authority: ShortLived) -> dict[str, str]:
    made = {"keystore.type": "PEM", "keystore.location": str(home / "broker.pem")}
    made |= {"truststore.type": "PEM", "truststore.location": str(authority.ca)}
    named = {f"listener.name.{of}.ssl.{name}": value for of in ("tls", "secure") for name, value in made.items()}
    return {**named, "listener.name.tls.ssl.client.auth": "required"}


def set_password(sandbox: Sandbox, password: str) -> None:
    """By SCRAM and PLAIN."""
    (sandbox.home / _PASSWORDS).write_text(password)
    for cluster in sandbox.clusters.values():
        admin = AdminClient(cluster.super_client())  # one that is collected ends its requests
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            credential = UserScramCredentialUpsertion(CLIENT, info, password.encode())
            admin.alter_user_scram_credentials([credential])[CLIENT].result(60)
