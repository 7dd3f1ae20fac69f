"""The archive for executors: what tasks import comes from it, by an interpreter that has none of it."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from reconciler.backends.mirror_jobs.runner.command_line import bundle
from reconciler.backends.mirror_jobs.runner.python_archive import PACKAGES, PythonArchive, pack
from reconciler.errors import RunnerError

IMPORTS = """
import sys
import confluent_kafka, reconciler_mirror.leases.leases, reconciler_mirror.verify.tasks
import reconciler_mirror.cluster_mode.record_run
for name in ("confluent_kafka", "cramjam", "crc32c", "kafka.protocol", "prometheus_client", "re2", "structlog"):
    print(name, sys.modules[name].__file__)
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> PythonArchive:
    return pack(tmp_path_factory.mktemp("archive") / "python.tar.gz")


def test_a_task_imports_from_the_archive_alone(archive: PythonArchive, tmp_path: Path) -> None:
    assert [name for name, _ in archive.packages] == list(PACKAGES)
    with tarfile.open(archive.path) as opened:
        opened.extractall(tmp_path / "environment", filter="data")
    bundle(tmp_path / "bundle.zip")
    done = subprocess.run(
        ["./environment/bin/python", "-P", "-c", IMPORTS],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "bundle.zip")},
    )
    assert (done.returncode, done.stderr) == (0, "")
    places = [line.split()[1] for line in done.stdout.splitlines()]
    assert len(places) == len(PACKAGES)
    assert all(place.startswith(str(tmp_path / "environment" / "site-packages")) for place in places)


def test_the_same_packages_make_the_same_bytes(archive: PythonArchive, tmp_path: Path) -> None:
    assert pack(tmp_path / "again").path.read_bytes() == archive.path.read_bytes()


def test_a_host_without_that_python_is_named(archive: PythonArchive, tmp_path: Path) -> None:
    with tarfile.open(archive.path) as opened:
        script = opened.extractfile("bin/python")
        assert script is not None
        text = script.read().decode()
    launcher = tmp_path / "python"
    launcher.write_text(text.replace(str(Path(sys.executable).resolve()), "").replace("python3", "no-python"))
    launcher.chmod(0o755)
    done = subprocess.run([launcher, "-c", ""], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 127
    assert f"no Python {archive.python} on " in done.stderr


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunnerError, match="cannot be written: No such file"):
        pack(tmp_path / "missing" / "python.tar.gz")
