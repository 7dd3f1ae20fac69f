"""The tools that must be on the machine: Java and Maven. Standard library only: runs before anything is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sandbox.errors import SandboxError

JAVA_AT_LEAST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_INSTALL = {
    "java": {
        "apt-get": "apt-get install openjdk-17-jre-headless",
        "dnf": "dnf install java-17-openjdk-headless",
        "brew": "brew install openjdk@17",
    },
    "mvn": {"apt-get": "apt-get install maven", "dnf": "dnf install maven", "brew": "brew install maven"},
}


def _java_candidate(environ: Mapping[str, str]) -> str | None:
    home = environ.get("JAVA_HOME")
    if home and os.access(Path(home) / "bin" / "java", os.X_OK):
        return str(Path(home) / "bin" / "java")
    return shutil.which("java", path=environ.get("PATH"))


def java_version(java: str) -> int | None:
    """Feature version (17, 21) or None when the command does not run, as macOS' placeholder without a JDK."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(done.stderr + done.stdout)
    return int(found.group(1)) if done.returncode == 0 and found else None


def _how(tool: str, environ: Mapping[str, str]) -> str:
    ways = _INSTALL[tool]
    for installer, command in ways.items():
        if shutil.which(installer, path=environ.get("PATH")):
            return command
    return " | ".join(ways.values())


def java(environ: Mapping[str, str] | None = None) -> str:
    """Path of a Java of version 17 or newer. Raises SandboxError with the package to install."""
    environ = os.environ if environ is None else environ
    problem = _java_problem(environ)
    if problem is not None:
        raise SandboxError(problem[0], "Kafka's brokers and Spark run on it.", f"Install it: {problem[1]}")
    found = _java_candidate(environ)
    assert found is not None
    return found


def _java_problem(environ: Mapping[str, str]) -> tuple[str, str] | None:
    found = _java_candidate(environ)
    version = java_version(found) if found else None
    if found is None or version is None:
        return f"Java {JAVA_AT_LEAST} or newer is missing", _how("java", environ)
    if version < JAVA_AT_LEAST:
        what = f"Java is too old: {found} is version {version}, needed is {JAVA_AT_LEAST} or newer"
        return what, _how("java", environ) + " (and set JAVA_HOME if several are installed)"
    return None


def maven(environ: Mapping[str, str] | None = None) -> str:
    """Path of ``mvn``. Raises SandboxError with the package to install."""
    environ = os.environ if environ is None else environ
    found = shutil.which("mvn", path=environ.get("PATH"))
    if found is None:
        raise SandboxError("Maven is missing", "It fetches Kafka's jars.", f"Install it: {_how('mvn', environ)}")
    return found


def check(environ: Mapping[str, str] | None = None) -> None:
    """Java and Maven at once, so that one message names all that is missing. Raises SandboxError."""
    environ = os.environ if environ is None else environ
    problems: list[tuple[str, str]] = []
    java_problem = _java_problem(environ)
    if java_problem is not None:
        problems.append(java_problem)
    if shutil.which("mvn", path=environ.get("PATH")) is None:
        problems.append(("Maven is missing", _how("mvn", environ)))
    if problems:
        raise SandboxError(
            "; ".join(what for what, _ in problems),
            "Kafka's brokers and Spark run on Java; Maven fetches Kafka's jars.",
            "Install:\n" + "\n".join(f"  {how}" for _, how in problems),
        )


if __name__ == "__main__":
    try:
        check()
    except SandboxError as error:
        sys.exit(str(error))
