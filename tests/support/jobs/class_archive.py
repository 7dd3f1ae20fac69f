"""Spark's classes in an archive of the JVM: a start of spark-submit costs about half. Made once, by ``tests/run.sh``.

python -m tests.support.jobs.class_archive
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from reconciler.backends.mirror_jobs.runner.command_line import QUICK_START, spark_submit
from tests.support.paths import ROOT

ARCHIVE = ROOT / ".sandbox" / f"spark-{pyspark.__version__}.jsa"
PASSED = "SPARK_SUBMIT_OPTS"
_APPLICATION = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert session.sparkContext.parallelize(range(4), 2).map(lambda number: number + 1).sum() == 10
session.stop()
"""


def use() -> None:
    """For every spark-submit that this process starts. One that the JVM finds unfit is left aside by it, silently."""
    if ARCHIVE.is_file():
        os.environ.setdefault(PASSED, f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off")


def make() -> None:
    fresh = ARCHIVE.with_suffix(f".{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "application.py"
        script.write_text(_APPLICATION)
        flags = f"{QUICK_START} -XX:ArchiveClassesAtExit={fresh} -Xlog:cds=off -Xlog:cds+dynamic=off"
        environment = {**os.environ, PASSED: flags, "PYSPARK_PYTHON": sys.executable}
        ended = subprocess.run([spark_submit(), str(script)], env=environment, capture_output=True, text=True)
    if ended.returncode or not fresh.is_file():
        sys.stderr.write(f"no archive of Spark's classes, its starts cost more: {ended.stderr[-500:]}\n")
        return
    fresh.replace(ARCHIVE)


if __name__ == "__main__" and not ARCHIVE.is_file():
    make()
