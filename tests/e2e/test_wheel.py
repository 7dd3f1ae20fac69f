"""The built wheels, installed alone outside the repository, do all that a checkout does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.jobs.free_ports import free_ports

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RECORDS = 5_000
BUILD_SCRIPT = "requirements/index_readme.py"
SOURCES = ("reconciler", "schemas", "spark", "sandbox", "pyproject.toml", "LICENSE", "README.md", BUILD_SCRIPT)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program's and the sandbox's, built from a copy, so that nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "source" / name, ignore=ignored)
        else:
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    source = folder / "source"
    _pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(source), str(source / "sandbox"))
    sandbox, program = sorted(folder.glob("*.whl"), key=lambda path: "sandbox" not in path.name)
    return program, sandbox


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheels_install_three_names_with_their_data(wheels: tuple[Path, Path]) -> None:
    program, sandbox = map(_names_in, wheels)
    assert _tops(program) == {"reconciler", "reconciler_mirror"}
    assert _tops(sandbox) == {"reconciler_sandbox"}
    schemas = {path.relative_to(ROOT / "schemas") for path in (ROOT / "schemas").rglob("*.json")}
    assert {f"reconciler/schemas/{path}" for path in schemas} <= program
    jobs = {f"reconciler_mirror/jobs/{name}_job.py" for name in ("mirror", "verify")}
    assert jobs | {"reconciler/py.typed", "reconciler_mirror/py.typed"} <= program
    assert {f"reconciler_sandbox/install/{name}" for name in ("install.sh", "jars.sha256", "pom.xml")} <= sandbox


def _names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _tops(names: set[str]) -> set[str]:
    return {top for name in names if not (top := name.partition("/")[0]).endswith(".dist-info")}


@dataclass(frozen=True)
class Installed:
    """An empty environment with the wheels in it, and the packages that it depends on beside it."""

    folder: Path
    environ: dict[str, str]

    def run(self, *words: str, code: int = 0) -> str:
        command = [str(self.folder / "venv" / "bin" / "reconciler"), *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=False, cwd=self.folder, env=self.environ
        )
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def read(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--format", "json"))


@pytest.fixture(scope="module")
def installed(wheels: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("outside")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    _pip("--python", str(folder / "venv" / "bin" / "python"), "install", "--no-deps", *map(str, wheels))
    # Folders named in a .pth file are searched, but the .pth files in them (such as that of our checkout) are not read.
    (places,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (places / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environ["RECONCILER_SANDBOX"] = str(folder / "sandbox")
    program = Installed(folder, environ)
    yield program
    subprocess.run(
        [str(folder / "venv" / "bin" / "reconciler"), "sandbox", "down", "--clear"], env=environ, check=False
    )


@pytest.mark.long
def test_it_writes_a_repository_of_environments(installed: Installed) -> None:
    said = installed.run("init", "--repository", "topology", "--actions", "example/kafka-topology-reconciler@v1.2.0")
    assert said.endswith("next:\n  reconciler init topology/environments/prod\n")
    workflow = (installed.folder / "topology" / ".github" / "workflows" / "plan.yml").read_text()
    assert "example/kafka-topology-reconciler/.github/actions/plan@v1.2.0" in workflow


TOPOLOGY = """
clusters:
  east: {{bootstrap_servers: ["{east}"], defaults: {{replication_factor: 1}}}}
  west: {{bootstrap_servers: ["{west}"], defaults: {{replication_factor: 1}}}}
topics:
  orders: {{clusters: [east], partitions: 4}}
flows:
  east-to-west: {{source: east, target: west, topics: [orders], replication_factor: 1}}
mirrors:
  west: {{master: "local[1]", parallelism: 1}}
"""


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.spark
def test_it_mirrors_records_from_outside_the_repository(installed: Installed) -> None:
    origin = subprocess.run(
        [str(installed.folder / "venv" / "bin" / "python"), "-c", "import reconciler; print(reconciler.__file__)"],
        capture_output=True, text=True, cwd=installed.folder, env=installed.environ, check=True,
    ).stdout  # fmt: skip
    assert origin.startswith(str(installed.folder)), "the wheel is what runs, not the checkout"
    installed.run("sandbox", "up", "--port", str(free_ports()))
    clusters = installed.read("sandbox", "status")["clusters"]
    servers = {each["cluster"]: each["bootstrap_servers"] for each in clusters}
    environment = installed.folder / "production"
    environment.mkdir()
    (environment / "topology.yaml").write_text(TOPOLOGY.format(**servers))

    assert "mirror west: start" in installed.run("plan", "production", code=2)
    installed.run("apply", "production", "--yes", "--first-contact")
    try:
        producer = Producer({"bootstrap.servers": servers["east"]})
        for number in range(RECORDS):
            producer.produce("orders", b"%d" % number, key=b"%d" % number)
            producer.poll(0)
        assert producer.flush(30) == 0
        assert _read_from(servers["west"], "east.orders", RECORDS) == {b"%d" % number for number in range(RECORDS)}
        compared = installed.read("verify", "production")
        assert compared["exit_code"] == 0
        assert sum(each["source_records"] for each in compared["partitions"]) == RECORDS
        assert installed.read("plan", "production")["exit_code"] == 0
    finally:
        installed.run("mirror", "stop", "production")


def _read_from(servers: str, topic: str, count: int) -> set[bytes]:
    """The values of at least ``count`` records, once there are so many."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "outside", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 120
    while len(values) < count and time.monotonic() < deadline:
        values += [record.value() for record in consumer.consume(1_000, 1.0) if not record.error()]
    consumer.close()
    return set(values)
