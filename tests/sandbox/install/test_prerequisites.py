"""A missing or old tool is one clear message with the package to install."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reconciler_sandbox.errors import SandboxError
from reconciler_sandbox.install import prerequisites
from reconciler_sandbox.paths import ROOT


def tool(folder: Path, name: str, script: str = "exit 0") -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def java_that_says(folder: Path, version: str) -> None:
    tool(folder, "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def test_everything_missing_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as missing:
        prerequisites.check({"PATH": str(tmp_path)})
    words = str(missing.value)
    assert "Java 17 or newer is missing" in words
    assert "Maven is missing" in words
    assert "openjdk-17-jre-headless" in words
    assert "apt-get install maven" in words
    assert missing.value.exit_code == 1


@pytest.mark.parametrize("version", ["1.8.0_302", "11.0.2", "16"])
def test_an_old_java_is_refused_with_both_versions(tmp_path: Path, version: str) -> None:
    java_that_says(tmp_path, version)
    with pytest.raises(SandboxError) as old:
        prerequisites.java({"PATH": str(tmp_path)})
    number = version.removeprefix("1.").split(".")[0]
    assert f"version {number}, needed is 17" in str(old.value)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    java_that_says(tmp_path, version)
    assert prerequisites.java({"PATH": str(tmp_path)}) == str(tmp_path / "java")


def test_java_home_wins_over_the_path(tmp_path: Path) -> None:
    java_that_says(tmp_path, "11")
    home = tmp_path / "jdk" / "bin"
    home.mkdir(parents=True)
    java_that_says(home, "21")
    assert prerequisites.java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "jdk")}) == str(home / "java")


def test_a_placeholder_that_only_fails_counts_as_missing(tmp_path: Path) -> None:
    tool(tmp_path, "java", "echo 'Unable to locate a Java Runtime' >&2; exit 1")
    with pytest.raises(SandboxError, match="missing"):
        prerequisites.java({"PATH": str(tmp_path)})


def test_the_command_offered_is_for_the_installer_at_hand(tmp_path: Path) -> None:
    tool(tmp_path, "brew")
    with pytest.raises(SandboxError) as missing:
        prerequisites.check({"PATH": str(tmp_path)})
    assert "brew install openjdk@17" in str(missing.value)
    assert "apt-get" not in str(missing.value)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the installer reads before it installs anything."""
    for name in ("reconciler", "sandbox"):
        shutil.copytree(ROOT / name, tmp_path / "project" / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "project"


def install(checkout: Path, path: Path) -> subprocess.CompletedProcess[str]:
    for name in ("dirname", "cat", "grep", "head", "rm", "cksum"):
        found = shutil.which(name)
        assert found is not None
        (path / name).symlink_to(found)
    shell = shutil.which("sh")
    assert shell is not None
    command = [shell, str(checkout / "sandbox" / "reconciler_sandbox" / "install" / "install.sh")]
    return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True, check=False)


def test_the_installer_stops_without_java_before_it_makes_anything(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    tool(path, "python3", f'exec "{sys.executable}" "$@"')
    ended = install(checkout, path)
    assert ended.returncode == 1
    assert "openjdk-17-jre-headless" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (checkout / ".venv").exists()


def test_the_installer_names_an_old_python(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    tool(path, "python3", '[ "$1" = -V ] && echo "Python 3.9.2"; exit 1')
    ended = install(checkout, path)
    assert ended.returncode == 1
    assert "Python 3.11 to 3.14 is missing; python3 is Python 3.9.2" in ended.stderr
    assert not (checkout / ".venv").exists()
