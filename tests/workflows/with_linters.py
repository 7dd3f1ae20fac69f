"""Workflows and actions by their own tools: ``make test-workflows``. Ours, and those of a written repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reconciler.operations.adopt.init import actions_of, write_repository
from tests.support.paths import ROOT

ACTIONLINT = ROOT / "build" / "bin" / "actionlint"
ZIZMOR = ROOT / "build" / "release-venv" / "bin" / "zizmor"
ACTIONS = f"example/kafka-topology-reconciler@{'0' * 40}"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    list(write_repository(tmp_path, tmp_path / "environments" / "prod", actions_of(ACTIONS)))
    return tmp_path


def judged(*words: str | Path, code: int = 0) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def workflows(root: Path) -> list[Path]:
    found = sorted((root / ".github" / "workflows").glob("*.yml"))
    assert len(found) > 2
    return found


def test_actionlint_finds_nothing(written: Path) -> None:
    for root in (ROOT, written):
        judged(ACTIONLINT, *workflows(root))


def test_zizmor_finds_nothing(written: Path) -> None:
    for root in (ROOT / ".github", written):
        judged(ZIZMOR, "--offline", "--no-progress", root)


def test_both_find_what_is_wrong(written: Path) -> None:
    plan = written / ".github" / "workflows" / "plan.yml"
    text = plan.read_text("utf-8")
    plan.write_text(text.replace('echo "touched, ', 'echo "${{ github.event.pull_request.title }}, '), "utf-8")
    assert plan.read_text("utf-8") != text
    assert "untrusted" in judged(ACTIONLINT, plan, code=1)
    assert "template-injection" in judged(ZIZMOR, "--offline", "--no-progress", plan, code=14)
