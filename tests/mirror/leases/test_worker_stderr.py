"""The end of an application is no traceback on anybody's terminal, however late PySpark's daemon is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("heard", ["within", "always"])
def test_a_worker_says_nothing_about_the_end_of_its_jvm(tmp_path: Path, heard: str) -> None:
    said = tmp_path / "said"
    path = os.pathsep.join([str(ROOT), str(ROOT / "spark")])
    subprocess.run(
        [sys.executable, "-m", "tests.support.jobs.standalone.idle_worker", heard, str(said)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert said.read_text().count("at work") == 2
    assert ("Traceback" in said.read_text()) is (heard == "always"), "PySpark does print one"
