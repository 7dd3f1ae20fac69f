"""Manifests, judged by the model of Kubernetes that Spark's client has."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
from reconciler_sandbox.install import prerequisites

from tests.support.paths import ROOT

_MODEL = ROOT / "tests" / "interop" / "KubernetesModel.java"
_JARS = Path(pyspark.__file__).parent / "jars"


def judged(*files: Path) -> list[str]:
    """By the model of Kubernetes that Spark's client has, which is generated from the API's own description."""
    command = [prerequisites.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{_JARS}/*", str(_MODEL)]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
