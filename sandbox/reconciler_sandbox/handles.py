"""Handles of running sandbox clusters: addresses, client settings, brokers to break on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from reconciler_sandbox.brokers import kerberos
from reconciler_sandbox.brokers import start_stop as control
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.paths import KAFKA_VERSION
from reconciler_sandbox.profiles import HOST, KERBEROS_HOST, SandboxBroker


@dataclass(frozen=True, slots=True)
class ClusterHandle:
    """One running cluster. ``folder`` holds its brokers' data and logs; ``passwords`` is empty outside ``secure``;
    ``kafka`` is the release that started it last."""

    name: str
    home: Path
    cluster_id: str
    brokers: tuple[SandboxBroker, ...]
    passwords: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    kafka: str = KAFKA_VERSION

    @property
    def folder(self) -> Path:
        return self.home / self.name

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    @property
    def mtls_bootstrap_servers(self) -> str:
        """Empty outside ``secure``."""
        return ",".join(f"{HOST}:{broker.mtls_port}" for broker in self.brokers if broker.mtls_port)

    @property
    def ca(self) -> Path:
        return self.folder / "certificates" / "ca.pem"

    def client(self, principal: str = "admin") -> dict[str, str]:
        """librdkafka settings, complete with ``bootstrap.servers``. On a secure cluster SASL_SSL as ``principal``."""
        if not self.passwords:
            return {"bootstrap.servers": self.bootstrap_servers, "security.protocol": "PLAINTEXT"}
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": principal,
            "sasl.password": self.passwords[self._known(principal)],
            "ssl.ca.location": str(self.ca),
        }

    def mtls_client(self, principal: str = "admin") -> dict[str, str]:
        """The same principal by client certificate. Raises SandboxError outside ``secure``."""
        self._known(principal)
        certificates = self.folder / "certificates"
        return {
            "bootstrap.servers": self.mtls_bootstrap_servers,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.certificate.location": str(certificates / f"{principal}.pem"),
            "ssl.key.location": str(certificates / f"{principal}.key"),
        }

    def kerberos_client(self, principal: str = "admin", *, tls: bool = False) -> dict[str, str]:
        """The same principal by its keytab, without TLS unless asked; KRB5_CONFIG has to be set, as ``Sandbox.secrets``
        has it. Raises SandboxError outside ``kerberos``."""
        self._known(principal)
        secured = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.ca)}
        return {
            "bootstrap.servers": self.bootstrap_servers if tls else self.kerberos_bootstrap_servers,
            **(secured if tls else {"security.protocol": "SASL_PLAINTEXT"}),
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.principal": f"{principal}@{kerberos.REALM}",
            "sasl.kerberos.keytab": str(kerberos.keytab(self.home, principal)),
        }

    @property
    def kerberos_bootstrap_servers(self) -> str:
        """Empty outside ``kerberos``."""
        return ",".join(f"{KERBEROS_HOST}:{broker.kerberos_port}" for broker in self.brokers if broker.kerberos_port)

    def secrets(self) -> dict[str, str]:
        """Environment variables for ``${env:...}``: ``SANDBOX_EAST_PLAN_PASSWORD`` and so on, and ``SANDBOX_EAST_CA``,
        the path of the certificate authority. Empty outside ``secure``."""
        if not self.passwords:
            return {}
        prefix = f"SANDBOX_{self.name.upper()}"
        named = {f"{prefix}_{principal.upper()}_PASSWORD": password for principal, password in self.passwords.items()}
        return {f"{prefix}_CA": str(self.ca), **named}

    def _known(self, principal: str) -> str:
        if principal not in self.passwords:
            known = ", ".join(self.passwords) or "none: the cluster is not secure"
            raise SandboxError(f"{self.name} has no principal {principal!r}", f"Known: {known}.")
        return principal

    def kill(self, node_id: int = 1) -> None:
        """SIGKILL; returns when the process is gone."""
        control.stop_broker(self.home, f"{self.name}/{node_id}", grace=0)

    def stop(self, node_id: int = 1) -> None:
        """SIGTERM, as an orderly shutdown; returns when the process is gone."""
        control.stop_broker(self.home, f"{self.name}/{node_id}")

    def start(self, node_id: int = 1) -> None:
        """Starts a stopped or killed broker on its data; returns when all brokers that run answer."""
        folder, node = self.folder / f"broker-{node_id}", f"{self.name}/{node_id}"
        control.start_broker(folder, node)
        control.wait_listening(folder, node, next(broker for broker in self.brokers if broker.node_id == node_id))
        running = control.running_brokers(self.home, self.name)
        watch = partial(control.keep_starting, folder, node)
        control.wait_answering(self.name, self.super_client(), running, self.home, watch)

    def restart(self, node_id: int = 1) -> None:
        self.stop(node_id)
        self.start(node_id)

    def super_client(self) -> dict[str, str]:
        """Settings of the super user that work even before any SCRAM credential exists."""
        return self.mtls_client() if self.passwords else self.client()


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The clusters of one profile, all running."""

    profile: str
    home: Path
    clusters: Mapping[str, ClusterHandle]

    def __getitem__(self, cluster: str) -> ClusterHandle:
        return self.clusters[cluster]

    def secrets(self) -> dict[str, str]:
        """Those of all clusters; with Kerberos also ``KRB5_CONFIG`` and keytabs, ``SANDBOX_PLAN_KEYTAB`` and so on."""
        own = {name: value for handle in self.clusters.values() for name, value in handle.secrets().items()}
        if not any(handle.kerberos_bootstrap_servers for handle in self.clusters.values()):
            return own
        principals = next(iter(self.clusters.values())).passwords
        keytabs = {f"SANDBOX_{name.upper()}_KEYTAB": str(kerberos.keytab(self.home, name)) for name in principals}
        return {**own, **keytabs, "KRB5_CONFIG": str(kerberos.configuration(self.home))}
