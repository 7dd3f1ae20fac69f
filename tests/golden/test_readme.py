"""The plan that a page shows is the plan of the environment that it comes from."""

from __future__ import annotations

from reconciler.environment.load import load
from reconciler.render.markup import Style
from reconciler.render.plan.text import plan_text
from tests.support.builders import World
from tests.support.fakes.cluster import FakeCluster
from tests.support.paths import ROOT


def test_the_plan_on_the_page_of_the_tutorial() -> None:
    page = (ROOT / "docs/begin/tutorial.md").read_text()
    topology = page.partition("<<'YAML'\n")[2].partition("YAML\n")[0]
    declared = load({"environments/tutorial/topology.yaml": topology}, "tutorial")
    clusters = {name: FakeCluster(name) for name in declared.clusters}
    made = plan_text(World(clusters).plan(declared), Style()).splitlines()
    shown = page.partition("## 3. The plan")[2].partition("\n```\n")[2].partition("\n```\n")[2].partition("```")[0]
    lines = [line for line in shown.splitlines() if line.strip(" .")]
    at = 0
    for line in lines:
        found = next((n for n, one in enumerate(made[at:], at) if one == line), None)
        assert found is not None, f"not there, or not in this order: {line}\n" + "\n".join(made)
        at = found + 1
    assert len(lines) > 10
