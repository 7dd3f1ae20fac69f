"""Where a command's output cannot go: no traceback, and nothing that looks like success."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENVIRONMENT = """\
clusters:
  east: {bootstrap_servers: ['127.0.0.1:1']}
topics:
  orders: {clusters: [east], partitions: 1}
"""
PLAN, VALIDATE = (sys.executable, "-m", "reconciler", "plan"), (sys.executable, "-m", "reconciler", "validate")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "env"
    made.mkdir()
    (made / "all.yaml").write_text(ENVIRONMENT)
    return made


@pytest.mark.slow
def test_a_plan_whose_reader_has_gone_ends_without_a_word(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*PLAN, folder], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize("words", [PLAN, VALIDATE])
def test_an_output_without_space_is_reported_and_is_no_success(words: tuple[str, ...], folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*words, folder], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("the output cannot be written: No space left on device\n")


@pytest.mark.slow
def test_who_closes_the_output_gets_the_exit_code_alone(folder: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" >&-', "sh"]
    for words, code in ((VALIDATE, 0), (PLAN, 1)):
        done = subprocess.run([*closed, *words, folder], stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (code, "")
