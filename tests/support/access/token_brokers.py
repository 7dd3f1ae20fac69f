"""Brokers that prove tokens for real: Kafka's own validator with the keys of an issuer, and one that does as MSK does.

One port further than any of the sandbox, listener SASL takes PLAIN, SCRAM-SHA-256 and the tokens of an issuer; the one
after it, IAM, presigned URLs of AWS.
"""

from __future__ import annotations

import contextlib
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from reconciler_sandbox.brokers import cleanup as guardian
from reconciler_sandbox.brokers import ports
from reconciler_sandbox.brokers import server_properties as properties
from reconciler_sandbox.brokers.up_down import Launch, bring_up
from reconciler_sandbox.handles import ClusterHandle, Sandbox
from reconciler_sandbox.install import jars
from reconciler_sandbox.profiles import HOST, Profile, SandboxBroker

from tests.support.access.issuer import AUDIENCE, CLIENT, ISSUER, Issuer

PASSWORD = "s3cret-of-ada"
KEY, AWS_SECRET, SESSION, REGION = (
    "ASIATESTTESTTEST",
    "wJalrXUtnFEMI/K7MDENG+of-tests",
    "ses/sion+of=tests",
    "eu-west-1",
)
_SASL, _IAM = 5, 6
_SECURITY = "org.apache.kafka.common.security"
_VALIDATOR = "MskIamValidator"


def client(cluster: ClusterHandle, mechanism: str) -> dict[str, str]:
    """``mechanism``: of listener SASL, or AWS_MSK_IAM for listener IAM."""
    iam = mechanism == "AWS_MSK_IAM"
    made = {
        "bootstrap.servers": f"{HOST}:{cluster.brokers[0].port + (_IAM if iam else _SASL)}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER" if iam else mechanism,
    }
    if iam:
        return {**made, "sasl.oauthbearer.method": "aws_msk_iam", "sasl.oauthbearer.aws.region": REGION}
    return made | ({} if mechanism == "OAUTHBEARER" else {"sasl.username": CLIENT, "sasl.password": PASSWORD})


@contextlib.contextmanager
def token_brokers(issuer: Issuer, clusters: tuple[str, ...] = ("east",), session_ms: int = 60_000) -> Iterator[Sandbox]:
    """One broker each; sessions end after ``session_ms`` (KIP-368), and with their token."""

    def listeners(broker: SandboxBroker) -> dict[str, str]:
        at = {"PLAINTEXT": broker.port, "SASL": broker.port + _SASL, "IAM": broker.port + _IAM}
        at["CONTROLLER"] = broker.controller_port
        sasl, iam = "listener.name.sasl", "listener.name.iam"
        bearer = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required;"
        return {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in at.items()),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,IAM:SASL_PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "connections.max.reauth.ms": str(session_ms),
            f"{sasl}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            f"{iam}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{sasl}.plain.sasl.jaas.config": f'{_SECURITY}.plain.PlainLoginModule required user_ada="{PASSWORD}";',
            f"{sasl}.scram-sha-256.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            f"{sasl}.oauthbearer.sasl.jaas.config": bearer,
            f"{sasl}.oauthbearer.sasl.server.callback.handler.class": f"{_SECURITY}.oauthbearer."
            "OAuthBearerValidatorCallbackHandler",
            "sasl.oauthbearer.jwks.endpoint.url": f"{issuer.url}/keys",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            f"{iam}.oauthbearer.sasl.jaas.config": bearer,
            f"{iam}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
        }

    with pytest.MonkeyPatch.context() as patch, guardian.guarded_home() as home:
        patch.setattr(properties, "_plain_listeners", listeners)
        told = {"key": KEY, "secret": AWS_SECRET, "session": SESSION, "region": REGION}
        jvm = (
            f"-javaagent:{_compiled(home)}",
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.url}/keys",
            *(f"-Dmsk.{name}={value}" for name, value in told.items()),
        )
        profile = Profile("tokens", 1, 1, 1, secure=False, heap="256m", jvm=jvm, clusters=clusters)
        base, reserved = ports.reserve_block()
        with reserved:
            sandbox = bring_up(Launch(profile, home, base))
        for cluster in sandbox.clusters.values():
            set_password(cluster, PASSWORD)
        yield sandbox


def set_password(cluster: ClusterHandle, password: str) -> None:
    """By SCRAM."""
    of = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    credential = UserScramCredentialUpsertion(CLIENT, of, password.encode())
    admin = AdminClient(cluster.super_client())  # one that is collected ends its requests
    admin.alter_user_scram_credentials([credential])[CLIENT].result(60)


def take_password(cluster: ClusterHandle) -> None:
    """The user can log in by SCRAM no more."""
    admin = AdminClient(cluster.super_client())
    deletion = UserScramCredentialDeletion(CLIENT, ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])[CLIENT].result(60)


def _compiled(folder: Path) -> Path:
    """The validator as a jar that a JVM takes as an agent."""
    source = Path(__file__).parent / f"{_VALIDATOR}.java"
    classes = folder / "classes"
    words = ["javac", "-Xlint:all,-processing,-classfile", "-cp", f"{jars.ensure()}/*", "-d", str(classes), str(source)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    jar = folder / "validator.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nPremain-Class: {_VALIDATOR}\n")
        for file in sorted(classes.glob("*.class")):
            archive.write(file, file.name)
    return jar
