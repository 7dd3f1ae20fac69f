"""Checks the tools that must be installed: Java and Maven. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from reconciler_sandbox.errors import SandboxError

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
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match.group(1)) if done.returncode == 0 and match else None


def _how(tool: str, environ: Mapping[str, str]) -> str:
    ways = _INSTALL[tool]
    for installer, command in ways.items():
        if shutil.which(installer, path=environ.get("PATH")):
            return command
    return " | ".join(ways.values())


def java(environ: Mapping[str, str] = os.environ) -> str:
    """Path of a Java of version 17 or newer. Raises SandboxError with the package to install."""
    problem = _java_problem(environ)
    if problem is not None:
        raise SandboxError(problem[0], "Kafka's brokers and Spark run on it.", f"Install it: {problem[1]}")
    this_java = _java_candidate(environ)
    assert this_java is not None
    return this_java


def _java_problem(environ: Mapping[str, str]) -> tuple[str, str] | None:
    java_problem = _java_candidate(environ)
    version = java_version(java_problem) if java_problem else None
    if java_problem is None or version is None:
        return f"Java {JAVA_AT_LEAST} or newer is missing", _how("java", environ)
    if version < JAVA_AT_LEAST:
        description = f"Java is too old: {java_problem} is version {version}, needed is {JAVA_AT_LEAST} or newer"
        return description, _how("java", environ) + " (and set JAVA_HOME if several are installed)"
    return None


def maven(environ: Mapping[str, str] = os.environ) -> str:
    """Path of ``mvn``. Raises SandboxError with the package to install."""
    this_maven = shutil.which("mvn", path=environ.get("PATH"))
    if this_maven is None:
        raise SandboxError("Maven is missing", "It fetches Kafka's jars.", f"Install it: {_how('mvn', environ)}")
    return this_maven


def check(environ: Mapping[str, str] = os.environ) -> None:
    """Java and Maven at once, so that one message names all that is missing. Raises SandboxError."""
    java_problem = _java_problem(environ)
    problems = [java_problem] if java_problem is not None else []
    if shutil.which("mvn", path=environ.get("PATH")) is None:
        problems.append(("Maven is missing", _how("mvn", environ)))
    if problems:
        why = "Kafka's brokers and Spark run on Java; Maven fetches Kafka's jars."
        todo = "Install:\n" + "\n".join(f"  {how}" for _, how in problems)
        raise SandboxError("; ".join(description for description, _ in problems), why, todo)


if __name__ == "__main__":
    try:
        check()
    except SandboxError as error:
        sys.exit(str(error))
