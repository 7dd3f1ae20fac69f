"""Where the sandbox keeps its files: all under one folder that git ignores."""

from __future__ import annotations

from pathlib import Path

KAFKA_VERSION = "4.3.0"

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".sandbox"
JARS = STATE / "jars" / f"kafka-{KAFKA_VERSION}"
POM = ROOT / "sandbox" / "pom.xml"
CHECKSUMS = ROOT / "sandbox" / "jars.sha256"


def home_of(profile: str) -> Path:
    """Folder of the lasting clusters of a profile; one folder per cluster inside."""
    return STATE / "clusters" / profile
