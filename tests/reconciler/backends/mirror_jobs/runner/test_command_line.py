"""The zip that executors are given imports alone: they have no other copy of ours."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from reconciler.backends.mirror_jobs.runner.command_line import bundle, job_script


def modules_in(archive: Path) -> list[str]:
    with zipfile.ZipFile(archive) as opened:
        names = [name.removesuffix(".py").removesuffix("/__init__") for name in opened.namelist()]
    return [name.replace("/", ".") for name in names]


def test_every_module_of_the_bundle_imports_from_the_bundle_alone(tmp_path: Path) -> None:
    bundle(tmp_path / "bundle.zip")
    modules = modules_in(tmp_path / "bundle.zip")
    assert {name.partition(".")[0] for name in modules} == {"reconciler", "reconciler_mirror"}
    assert {"reconciler.kafka.records.batches", "reconciler_mirror.lane.run"} <= set(modules)
    program = f"""
import importlib, sys
sys.path.insert(0, {str(tmp_path / "bundle.zip")!r})
for name in {modules!r}:
    found = importlib.import_module(name).__spec__.origin
    assert "bundle.zip" in found, (name, found)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_scripts_that_spark_submit_is_given_exist() -> None:
    assert job_script("mirror_job.py").is_file()
    assert job_script("verify_job.py").is_file()
