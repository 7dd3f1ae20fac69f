"""Paths of the sandbox's files: in a checkout one folder that git ignores, else the user's state folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

KAFKA_VERSION = "4.4.0"

ROOT = Path(__file__).resolve().parents[2]
"""The checkout; of a program that was installed from a wheel, its ``site-packages``."""
POM = Path(__file__).parent / "install" / "pom.xml"
CHECKSUMS = Path(__file__).parent / "install" / "jars.sha256"


def state_folder(environ: Mapping[str, str], root: Path = ROOT) -> Path:
    """``$RECONCILER_SANDBOX``; else ``.sandbox`` of the checkout; else a folder below ``$XDG_STATE_HOME``, which is the
    same from wherever the program is called."""
    if chosen := environ.get("RECONCILER_SANDBOX"):
        return Path(chosen).expanduser().resolve()
    if (root / "pyproject.toml").is_file():
        return root / ".sandbox"
    states = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(states) / "kafka-topology-reconciler" / "sandbox"


STATE = state_folder(os.environ)
JARS = STATE / "jars" / f"kafka-{KAFKA_VERSION}"


def home_of(profile: str) -> Path:
    """Folder of the lasting clusters of a profile; one folder per cluster inside."""
    return STATE / "clusters" / profile
