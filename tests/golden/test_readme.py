"""The plan that a page shows is the plan of the environment that it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.backends.files import read_environment
from reconciler.environment.load import load
from reconciler.render.plan.text import plan_text
from reconciler.render.style import Style
from tests.support.builders import World
from tests.support.fakes.cluster import FakeCluster
from tests.support.paths import ROOT


def test_the_plan_on_the_page_of_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sandbox = Path("environments/sandbox")
    declared = load(read_environment(sandbox), sandbox.name)
    clusters = {name: FakeCluster(name, cluster_id=cluster.cluster_id) for name, cluster in declared.clusters.items()}
    made = plan_text(World(clusters).plan(declared), Style()).splitlines()
    page = (ROOT / "docs/begin/commands.md").read_text()
    shown = page.partition("## What `plan` prints\n\n```\n")[2].partition("```")[0]
    lines = [line for line in shown.splitlines() if line.strip(" .")]
    at = 0
    for line in lines:
        begin = line.replace(", commit bef001536805", "").partition(", ...")[0].partition(", 1 broker,")[0]
        found = next((n for n, one in enumerate(made[at:], at) if one.startswith(begin)), None)
        assert found is not None, f"not there, or not in this order: {line}"
        at = found + 1
    assert len(lines) > 10
