"""Rules and panels of docs/grafana, by Prometheus' own `promtool`: each fires, spares what is paused, and ends.

`make test-deploy` runs this: few machines have a promtool.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT

CASES = sorted((Path(__file__).parent / "alerts").glob("*.yml"))


def promtool(*words: object) -> None:
    """Fails with what it says, and where it is missing."""
    found = shutil.which("promtool")
    assert found, "promtool is not installed: apt-get install prometheus"
    ran = subprocess.run([found, *map(str, words)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_rule_fires_when_it_should_and_not_else(path: Path) -> None:
    promtool("test", "rules", path)


def panels() -> dict[str, str]:
    """Title and expression of each panel, with what Grafana would put in for its variables."""
    board = json.loads((ROOT / "docs/grafana/mirror.json").read_text("utf-8"))
    found = {}
    for panel in board["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*").replace("$flow", ".*")
            found[f"{panel['title']} {target['refId']}"] = expr
    return found


def test_prometheus_understands_each_panel(tmp_path: Path) -> None:
    recorded = [{"record": f"r{number}", "expr": expr} for number, expr in enumerate(panels().values())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    promtool("check", "rules", tmp_path / "rules.yml")


LABELS = 'job="mirror", instance="h:1"'
ALIVE = {
    f'mirror_info{{{LABELS}, environment="prod", mirror="west"}}': "1x20",
    f'mirror_start_timestamp_seconds{{{LABELS}}}': "0x20",
    **{
        f'mirror_flow_{name}{{{LABELS}, flow="f"}}': values
        for name, values in {
            "lanes": "4x20", "lag_known": "1x20", "lag_seconds": "2x20", "due_records": "9x20",
            "paused_partitions": "0x20",
        }.items()
    },
}  # fmt: skip
UNKNOWN_LAG = {
    name: "0x20" if "lag_known" in name else "" if "lag_seconds" in name else it for name, it in ALIVE.items()
}
DEAD = {name: values.replace("x20", "x4 stale") for name, values in ALIVE.items()}


@pytest.mark.parametrize(
    ("panel", "series", "value"),
    [
        ("Stopped until someone acts A", ALIVE, 0),
        ("Stopped until someone acts A", DEAD, None),
        ("Mirrors not seen A", ALIVE, 0),
        ("Mirrors not seen A", DEAD, 1),
        ("Mirrors not seen A", {}, None),
        ("Seconds behind A", ALIVE, 2),
        ("Seconds behind A", UNKNOWN_LAG, None),
        ("Flows of unknown lag A", UNKNOWN_LAG, 1),
        ("Flows of unknown lag A", DEAD, None),
        ("Paused flows A", ALIVE, 0),
        ("Paused flows A", DEAD, None),
        ("Flows without a commit A", ALIVE, 1),
        ("Flows without a commit A", DEAD, None),
        ("Longest without a commit A", ALIVE, 240),
        ("Longest without a commit A", DEAD, None),
    ],
)
def test_a_panel_of_a_dead_job_or_an_unknown_lag_has_no_figure_that_looks_fine(
    panel: str, series: dict[str, str], value: float | None, tmp_path: Path
) -> None:
    given = [{"series": name, "values": values} for name, values in series.items() if values]
    wanted = [] if value is None else [{"labels": "{}", "value": value}]
    look = {"expr": panels()[panel], "eval_time": "4m", "exp_samples": wanted}
    case = {"interval": "15s", "input_series": given, "promql_expr_test": [look]}
    path = tmp_path / "case.yml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "15s", "tests": [case]}))
    promtool("test", "rules", path)
