"""Profiles of sandbox clusters: brokers, their ports, and the ids of the clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HOST = "127.0.0.1"
KERBEROS_HOST = "localhost"
"""As brokers with Kerberos call themselves: a ticket is for a name."""
CLUSTERS = ("east", "west")
PORT_VARIABLE = "SANDBOX_PORT"

HUB = "hub"
_KDC = "kdc"

DEFAULT_BASES: Mapping[str, int] = MappingProxyType({"east": 19092, "west": 29092, HUB: 39092, _KDC: 49092})
# With a base of one's own all ports lie in one block, so that one number frees the sandbox of any neighbour.
BLOCK = 100
_FIRST_PORT: Mapping[str, int] = MappingProxyType({"east": 0, "west": 50, HUB: 80, _KDC: 90})  # the hub has one broker
_BROKER_STRIDE = 10

# C1 only, and soon, since to interpret costs more: half the start-up CPU; no counters for jstat. Not for `plain`, which
# also carries the benchmarks.
QUICK_START = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:CompileThresholdScaling=0.2", "-XX:-UsePerfData",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """A shape of clusters. ``heap`` is Java's notation (``512m``); ``replication`` also holds for internal topics."""

    name: str
    brokers: int
    replication: int
    min_insync: int
    secure: bool
    heap: str
    jvm: tuple[str, ...]
    clusters: tuple[str, ...] = CLUSTERS
    kerberos: bool = False


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "plain": Profile("plain", 1, 1, 1, secure=False, heap="512m", jvm=("-XX:+UseSerialGC",)),
        "ha": Profile("ha", 3, 3, 2, secure=False, heap="256m", jvm=QUICK_START),
        "trio": Profile("trio", 1, 1, 1, secure=False, heap="256m", jvm=QUICK_START, clusters=(*CLUSTERS, HUB)),
        "secure": Profile("secure", 1, 1, 1, secure=True, heap="256m", jvm=QUICK_START),
        "kerberos": Profile("kerberos", 1, 1, 1, secure=True, heap="256m", jvm=QUICK_START, kerberos=True),
    }
)


@dataclass(frozen=True, slots=True)
class SandboxBroker:
    """A combined broker and controller. ``port`` is the main listener; ``mtls_port`` is 0 without security,
    ``kerberos_port``, of the listener without TLS, outside ``kerberos``."""

    node_id: int
    port: int
    controller_port: int
    mtls_port: int
    rack: str
    kerberos_port: int = 0

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(port for port in (self.port, self.controller_port, self.mtls_port, self.kerberos_port) if port)


def cluster_id_of(profile: str, cluster: str) -> str:
    """22 characters of URL-safe base64, as Kafka makes them; always the same, so that environments can declare it."""
    return f"sandbox-{profile}-{cluster}-"[:21].ljust(22, "A")


def layout(profile: Profile, base: int | None = None) -> dict[str, tuple[SandboxBroker, ...]]:
    """Brokers of each cluster. ``base`` None: the default ports; else one block of ``BLOCK`` ports from ``base``."""
    brokers = {}
    for cluster in profile.clusters:
        first = _first_port(cluster, base)
        ports = [first + node * _BROKER_STRIDE for node in range(profile.brokers)]
        brokers[cluster] = tuple(
            SandboxBroker(
                node,
                port,
                port + 1,
                port + 2 if profile.secure else 0,
                f"{cluster}-{'abc'[node - 1]}",
                port + 3 if profile.kerberos else 0,
            )
            for node, port in enumerate(ports, start=1)
        )
    return brokers


def kdc_port(base: int | None) -> int:
    return _first_port(_KDC, base)


def _first_port(part: str, base: int | None) -> int:
    return DEFAULT_BASES[part] if base is None else base + _FIRST_PORT[part]
