"""Kafka's classes as the JVM keeps them in memory (class data sharing): a broker starts with less than half the CPU.

Made once by a broker that starts and ends. Without it, or where Java or a jar is another by now, a broker loads its
classes from the jars; the JVM checks that itself.
"""

from __future__ import annotations

from pathlib import Path

from reconciler_sandbox.paths import JARS
from reconciler_sandbox.releases import NEWEST, Release

ARCHIVE: Path = JARS / "classes.jsa"
"""Made for the newest release only."""


def flags(release: Release = NEWEST) -> tuple[str, ...]:
    """What a JVM with the jars as its class path is started with."""
    return (f"-XX:SharedArchiveFile={ARCHIVE}",) if release == NEWEST and ARCHIVE.is_file() else ()


def flag_that_makes(archive: Path) -> str:
    """For a JVM that writes all classes it has loaded when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive}"
