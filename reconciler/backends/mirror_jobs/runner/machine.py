"""Facts about this machine for the mirror job: Java, Spark, free disk space."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
from pathlib import Path

from reconciler.backends.mirror_jobs.runner.command_line import require_java, spark_submit
from reconciler.errors import RunnerError, Unknown, or_unknown
from reconciler.model.reports.doctor import Machine

_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')


def machine(folder: Path) -> Machine:
    """``folder``: where runs are kept; what is above it is looked at while it is not there."""
    return Machine(_java(), _spark(), _free(folder), str(folder))


def _java() -> int | Unknown:
    if missing := or_unknown("java", require_java, RunnerError):
        return missing
    home = os.environ.get("JAVA_HOME", "")
    inside = Path(home) / "bin" / "java"
    command = str(inside) if home and inside.exists() else "java"
    try:
        stderr = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Unknown("java", f"{command} cannot be run: {error}", "Set JAVA_HOME to Java 17 or newer")
    match = _VERSION.search(stderr)
    return int(match[1]) if match else Unknown("java", f"{command} does not report its version", "Set JAVA_HOME")


def _spark() -> str | Unknown:
    place = or_unknown("spark", spark_submit, RunnerError)
    if isinstance(place, Unknown):
        return place
    if os.environ.get("SPARK_HOME"):
        return f"spark-submit of SPARK_HOME: {place}"
    return f"pyspark {importlib.metadata.version('pyspark')}"


def _free(folder: Path) -> int | Unknown:
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        return shutil.disk_usage(place).free
    except OSError as error:
        return Unknown("disk", f"{place}: {error.strerror}")
