"""What `make package` built, installed by one command from a folder of wheels, on a machine without Spark and Java."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from requirements.locked import RUNTIME, packages
from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DIST = ROOT / "dist"
TOPOLOGY = """
clusters:
  east: {{bootstrap_servers: ["{east}"], defaults: {{replication_factor: 1}}}}
  west: {{bootstrap_servers: ["{west}"], defaults: {{replication_factor: 1}}}}
topics:
  {topic}: {{clusters: [east], partitions: 2, configs: {{retention.ms: 1d}}}}
"""
FLOW = """
flows:
  east-to-west: {{source: east, target: west, topics: [{topic}], replication_factor: 1}}
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked packages that the program needs without an extra, by their hashes, and our own wheel beside them."""
    folder = tmp_path_factory.mktemp("wheels")
    lines = RUNTIME.read_text("utf-8").replace("\\\n", " ").splitlines()
    wanted = folder / "wanted.txt"
    wanted.write_text("\n".join(line for line in lines if not line.startswith(("pyspark==", "py4j=="))) + "\n")
    _run(sys.executable, "-m", "pip", "download", "-q", "--require-hashes", "--no-deps", "-d", folder, "-r", wanted)
    for wheel in DIST.glob("kafka_topology_reconciler-*.whl"):
        (folder / wheel.name).write_bytes(wheel.read_bytes())
    return folder


def _run(*command: str | Path, code: int = 0, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout + done.stderr)


@pytest.fixture(scope="module")
def machine(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the package in its ``venv``."""
    home = tmp_path_factory.mktemp("machine")
    _run(sys.executable, "-m", "venv", home / "venv")
    pip = (home / "venv" / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    _run(*pip, "--no-index", "--find-links", wheels, "kafka-topology-reconciler")
    return home


@pytest.fixture(scope="module")
def reconciler(machine: Path) -> Callable[..., str]:
    """The command, where nothing but its own environment is on the PATH."""
    home = machine
    environ = {"PATH": str(home / "venv" / "bin"), "HOME": str(home), "LANG": "C.UTF-8"}

    def run(*words: str | Path, code: int = 0) -> str:
        return _run(home / "venv" / "bin" / "reconciler", *words, code=code, cwd=home, env=environ)

    return run


def test_two_builds_of_one_commit_are_the_same_bytes(tmp_path: Path) -> None:
    epoch = _run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    environ = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", epoch)}
    for folder in (ROOT, ROOT / "sandbox"):
        _run(sys.executable, "-m", "hatchling", "build", "-d", tmp_path, cwd=folder, env=environ)
    again = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert again == {name: hashlib.sha256((DIST / name).read_bytes()).hexdigest() for name in again}
    assert len(again) == 4


def test_every_dependency_is_a_wheel_that_the_lock_names(wheels: Path) -> None:
    """So the install below builds nothing."""
    names = {path.name.split("-")[0].lower().replace("_", "-") for path in wheels.glob("*.whl")}
    runtime = {package.name for package in packages() if package.runtime and not package.marker}
    assert runtime - {"pyspark", "py4j"} <= names | {"kafka-topology-reconciler"}
    assert list(wheels.glob("*.tar.gz")) == []


def test_version_says_what_is_missing_for_a_mirror(reconciler: Callable[..., str]) -> None:
    said = reconciler("version")
    spark, java = (next(line for line in said.splitlines() if line.startswith(name)) for name in ("spark", "java"))
    assert "unknown: spark-submit was not found" in spark
    assert "pip install 'kafka-topology-reconciler[mirror]'" in spark
    assert "unknown: Java was not found" in java


@pytest.mark.kafka
def test_topics_are_planned_and_applied_without_spark_and_java(
    reconciler: Callable[..., str], plain: Sandbox, unique: str, tmp_path: Path
) -> None:
    environment = tmp_path / "prod"
    environment.mkdir()
    servers = {name: plain[name].bootstrap_servers for name in ("east", "west")}
    (environment / "topology.yaml").write_text(TOPOLOGY.format(topic=unique, **servers))
    reconciler("validate", environment)
    assert f"+ {unique}: create, 2 partitions" in reconciler("plan", environment, code=2)
    reconciler("apply", environment, "--yes", "--first-contact")
    reconciler("plan", environment)
    reconciler("drift", environment)
    (environment / "topology.yaml").write_text((TOPOLOGY + FLOW).format(topic=unique, **servers))
    said = reconciler("plan", environment, code=2)
    assert "mirror west: start" in said
    assert "Java was not found" in reconciler("apply", environment, "--yes", code=1)


@pytest.mark.kafka
def test_from_nothing_to_the_first_plan_takes_less_than_five_minutes(
    wheels: Path, plain: Sandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As README has it: install, init, plan; all that a machine does, and no time for reading."""
    began = time.monotonic()
    _run(sys.executable, "-m", "venv", tmp_path / "venv")
    pip = (tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    _run(*pip, "--no-index", "--find-links", wheels, "kafka-topology-reconciler")
    clusters = [f"--cluster={name}={plain[name].bootstrap_servers}" for name in ("east", "west")]
    words = (*clusters, "--security-protocol", "PLAINTEXT", "--flow", r"east:west=first-plan(\..*)?")
    said = _run(tmp_path / "venv/bin/reconciler", "init", "environments/prod", *words, cwd=tmp_path)
    assert "reconciler plan environments/prod" in said
    planned = _run(tmp_path / "venv/bin/reconciler", "plan", "environments/prod", code=2, cwd=tmp_path)
    took = time.monotonic() - began
    assert "mirror west: start" in planned
    with capsys.disabled():
        sys.stdout.write(f"\nfrom nothing to the first plan: {took:.0f} s\n")
    assert took < 5 * 60


@pytest.mark.kafka
def test_workflows_of_a_written_repository_plan_apply_and_watch_with_the_package(machine: Path) -> None:
    """The repository is what the package's ``init --repository`` writes: pull requests, also of forks and hostile ones,
    applies and drift."""
    of_workflows = [ROOT / "tests" / "workflows" / f"test_{name}.py" for name in ("workflows", "unlisted")]
    environ = {**os.environ, "WORKFLOWS_VENV": str(machine / "venv")}
    said = _run(sys.executable, "-m", "pytest", "-q", *of_workflows, cwd=ROOT, env=environ)
    assert "passed" in said
    assert "skipped" not in said
