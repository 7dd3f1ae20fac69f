"""Releases of Kafka that the sandbox can start, and which of them a cluster gets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.paths import CHECKSUMS, JARS, KAFKA_VERSION, POM

VARIABLE = "SANDBOX_KAFKA"
_OLDER_POM = POM.parent / "older-brokers.xml"


@dataclass(frozen=True, slots=True)
class Release:
    """``jars``: the folder of its jars. ``checksums``: their digests. ``zookeeper``: its brokers keep their metadata
    there, so each cluster gets a process more; else KRaft. ``scram``: users with SCRAM can be made (KRaft: since 3.5,
    KIP-900). ``product``: what its jars are of; tests have another one."""

    version: str
    jars: Path
    checksums: Path
    pom: Path
    zookeeper: bool = False
    scram: bool = True
    product: str = "Kafka"

    @property
    def features(self) -> Path:
        """What its storage tool writes for every KRaft cluster alike: feature levels. Kept by the first run."""
        return self.jars / "bootstrap.checkpoint"

    @property
    def features_of_data(self) -> Path:
        """Where that file is, below a data folder: since 4.4 the first snapshot of the metadata log (KIP-1170)."""
        if self.number < (4, 4):
            return Path("bootstrap.checkpoint")
        return Path("__cluster_metadata-0") / "00000000000000000000-0000000000.checkpoint"

    @property
    def number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    @property
    def logs_with_log4j_1(self) -> bool:
        return self.number < (4,)


def _older(version: str, *, pom: Path = _OLDER_POM, zookeeper: bool = False, scram: bool = True) -> Release:
    checksums = CHECKSUMS.with_name(f"jars-{version}.sha256")
    return Release(version, JARS.with_name(f"kafka-{version}"), checksums, pom, zookeeper, scram)


NEWEST = Release(KAFKA_VERSION, JARS, CHECKSUMS, POM)
MIRRORMAKER = _older("4.3.0", pom=POM)
"""The newest release whose MirrorMaker 2 is among Maven's jars: the peer of benchmarks and interop tests."""
RELEASES: Mapping[str, Release] = MappingProxyType(
    {
        release.version: release
        for release in (
            NEWEST,
            MIRRORMAKER,
            _older("3.9.1"),
            _older("3.3.2", scram=False),
            _older("2.8.2", zookeeper=True),
        )
    }
)


def release_named(version: str) -> Release:
    """Raises SandboxError for one that has no list of jars."""
    if version not in RELEASES:
        why = "Its jars are not in any list, so nobody looked at what would run."
        raise SandboxError(f"there is no sandbox of Kafka {version!r}", why, f"Choose one of: {', '.join(RELEASES)}.")
    return RELEASES[version]


def release_of(cluster: str, environ: Mapping[str, str] = os.environ) -> Release:
    """By SANDBOX_KAFKA: ``3.9.1`` for all clusters, or ``east=2.8.2,west=3.9.1`` for these. Raises SandboxError."""
    chosen = NEWEST
    for word in filter(None, environ.get(VARIABLE, "").split(",")):
        name, named, version = word.rpartition("=")
        if not named or name == cluster:
            chosen = release_named(version)
    return chosen
