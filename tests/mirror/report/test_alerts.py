"""Rules and panels of docs/grafana, by Prometheus' own `promtool`: each fires, spares what is paused, and ends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT

RULES = ROOT / "docs/grafana/alerts.yml"
CASES = sorted((Path(__file__).parent / "alerts").glob("*.yml"))
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="NOT TESTED: no promtool (apt-get install prometheus)")


def rules() -> list[dict[str, dict[str, str]]]:
    return [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


def test_each_rule_has_cases_in_which_it_fires_and_in_which_it_does_not() -> None:
    assert [path.stem for path in CASES] == sorted(str(rule["alert"]) for rule in rules())
    for path in CASES:
        whole = yaml.safe_load(path.read_text("utf-8"))
        looks = [look for case in whole["tests"] for look in case["alert_rule_test"]]
        assert {bool(look["exp_alerts"]) for look in looks} == {True, False}, path.stem
        ends = [case["alert_rule_test"] for case in whole["tests"]]
        assert any(looks[-1]["exp_alerts"] == [] and any(it["exp_alerts"] for it in looks) for looks in ends), path.stem


@needs_promtool
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_rule_fires_when_it_should_and_not_else(path: Path) -> None:
    ran = subprocess.run([str(PROMTOOL), "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_command_in_the_file_makes_links_of_all_runbooks(tmp_path: Path) -> None:
    text = RULES.read_text("utf-8")
    command = re.search(r"^#   sed -i '(.*)' alerts.yml$", text, re.MULTILINE)
    assert command is not None
    made = subprocess.run(["sed", command[1]], input=text, capture_output=True, text=True, check=True).stdout
    urls = [rule["annotations"]["runbook_url"] for g in yaml.safe_load(made)["groups"] for rule in g["rules"]]
    assert urls[0] == "https://docs.example.net/reconciler/mirror/alerts.html#mirrornotseen"
    assert all("https://docs.example.net/reconciler/mirror/" in url and ".md" not in url for url in urls)


def panels() -> dict[str, str]:
    """Title and expression of each panel, with what Grafana would put in for its variables."""
    board = json.loads((ROOT / "docs/grafana/mirror.json").read_text("utf-8"))
    found = {}
    for panel in board["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*").replace("$flow", ".*")
            found[f"{panel['title']} {target['refId']}"] = expr
    return found


@needs_promtool
def test_prometheus_understands_each_panel(tmp_path: Path) -> None:
    recorded = [{"record": f"r{number}", "expr": expr} for number, expr in enumerate(panels().values())]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    checked = [str(PROMTOOL), "check", "rules", str(tmp_path / "rules.yml")]
    ran = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


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


@needs_promtool
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
    ran = subprocess.run([str(PROMTOOL), "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_panel_without_a_sample_says_so_in_words_and_not_in_green() -> None:
    board = json.loads((ROOT / "docs/grafana/mirror.json").read_text("utf-8"))
    for panel in board["panels"]:
        told = panel["fieldConfig"]["defaults"]
        if panel["type"] != "heatmap":
            assert told.get("noValue"), panel["title"]
        if panel["type"] == "stat":
            assert told["thresholds"]["steps"][0]["color"] not in ("green", "red"), panel["title"]
        for link in panel.get("links", ()):
            assert link["url"].startswith("${docs_url}/mirror/"), panel["title"]
            page, _, anchor = link["url"].removeprefix("${docs_url}/").partition("#")
            text = (ROOT / "docs" / f"{page.removesuffix('.html')}.md").read_text("utf-8")
            assert not anchor or re.search(rf"^## {anchor}$", text, re.MULTILINE | re.IGNORECASE), panel["title"]
