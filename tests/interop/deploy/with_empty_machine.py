"""A Debian with Python and git alone: install, repository, plan, apply, CI, upgrade. `make test-machine`.

The machine shares this one's network, on which the brokers are, and nothing of its files but the built wheels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from reconciler_sandbox.handles import Sandbox

from requirements.locked import RUNTIME
from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.timeout(3600)]

PACKAGES = "python3-venv,python-is-python3,git,ca-certificates"
"""Git and `python`, as the runners of CI have them."""
NEXT = "99.0.0"
"""The version of the second build."""


def ran(*command: str | Path, code: int = 0, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout + done.stderr)


@dataclass(frozen=True)
class Machine:
    root: Path

    def run(self, *words: str, code: int = 0) -> str:
        plain = ("env", "-i", "PATH=/opt/tool/bin:/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8")
        return ran("chroot", self.root, *plain, *words, code=code)

    def install(self, wheels: str) -> None:
        pip = ("/opt/tool/bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--upgrade")
        self.run(*pip, "--find-links", wheels, "kafka-topology-reconciler")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("machine") / "root"
    ran("mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", root)
    yield Machine(root)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def wheels(machine: Machine) -> str:
    """What the program needs without an extra, and what ``make package`` built, in a folder of the machine."""
    folder = machine.root / "wheels"
    folder.mkdir()
    lines = RUNTIME.read_text("utf-8").replace("\\\n", " ").splitlines()
    wanted = folder / "wanted.txt"
    wanted.write_text("\n".join(line for line in lines if not line.startswith(("pyspark==", "py4j=="))) + "\n")
    ran(sys.executable, "-m", "pip", "download", "-q", "--require-hashes", "--no-deps", "-d", folder, "-r", wanted)
    for wheel in (ROOT / "dist").glob("kafka_topology_reconciler-*.whl"):
        shutil.copy(wheel, folder)
    return "/wheels"


def second_build(folder: Path) -> None:
    """The same sources as version ``NEXT``."""
    source = folder / "source"
    for name in ("reconciler", "schemas", "spark"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, source)
    (source / "requirements").mkdir()
    shutil.copy(ROOT / "requirements" / "index_readme.py", source / "requirements")
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    first = next(line for line in text.splitlines() if line.startswith("version = "))
    (source / "pyproject.toml").write_text(text.replace(first, f'version = "{NEXT}"'), "utf-8")
    ran(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source)
    shutil.rmtree(source)


def test_install_repository_plan_apply_ci_and_upgrade(
    machine: Machine, wheels: str, plain: Sandbox, unique: str, tmp_path: Path
) -> None:
    machine.run("python3", "-m", "venv", "/opt/tool")
    machine.install(wheels)
    assert "unknown: Java was not found" in machine.run("reconciler", "version")

    env = "/topology/environments/prod"
    clusters = [f"--cluster={name}={plain[name].bootstrap_servers}" for name in ("east", "west")]
    given = (*clusters, "--security-protocol", "PLAINTEXT", "--flow", "none", "--exclude", ".*")
    said = machine.run("reconciler", "init", "--repository", "/topology", *given)
    assert f"reconciler plan {env}" in said
    written = {path.name for path in (machine.root / "topology" / ".github" / "workflows").iterdir()}
    assert written == {"apply.yml", "drift.yml", "plan.yml"}
    own = machine.root / env[1:] / "own.yaml"
    own.write_text(f"topics:\n  {unique}: {{clusters: [east, west], partitions: 2, replication_factor: 1}}\n")
    machine.run("reconciler", "validate", env)
    assert f"+ {unique}: create, 2 partitions" in machine.run("reconciler", "plan", env, code=2)
    machine.run("reconciler", "apply", env, "--yes", "--first-contact")
    machine.run("reconciler", "plan", env)

    # The repository's CI: pull request, apply, drift, forks and hostile edits, its steps on this machine.
    cases = [ROOT / "tests" / "workflows" / f"test_{name}.py" for name in ("workflows", "unlisted")]
    shared = f"""
for each in {tmp_path} {ROOT / ".github"}; do
    mkdir -p {machine.root}/$each
    mount --bind $each {machine.root}/$each
done
mount -t proc proc {machine.root}/proc
mount --rbind /dev {machine.root}/dev
exec {sys.executable} -m pytest -q -x --basetemp {tmp_path}/runs {" ".join(map(str, cases))}
"""
    environ = {"WORKFLOWS_ROOT": str(machine.root), "WORKFLOWS_VENV": "/opt/tool", "TMPDIR": str(tmp_path)}
    isolated = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", shared)
    assert "passed" in ran(*isolated, cwd=ROOT, env={**os.environ, **environ})

    # The next release finds what this one left.
    second_build(machine.root / "wheels")
    machine.install(wheels)
    assert NEXT in machine.run("reconciler", "--version")
    machine.run("reconciler", "plan", env)
    own.write_text(own.read_text().replace("partitions: 2", "partitions: 3"))
    machine.run("reconciler", "apply", env, "--yes")
    machine.run("reconciler", "drift", env)
