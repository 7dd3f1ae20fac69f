"""Rules and panels of docs/grafana: what they say of themselves. What Prometheus says of them: with_promtool.py."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import yaml

from tests.support.paths import ROOT

RULES = ROOT / "docs/grafana/alerts.yml"
CASES = sorted((Path(__file__).parent / "alerts").glob("*.yml"))


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


def test_the_command_in_the_file_makes_links_of_all_runbooks(tmp_path: Path) -> None:
    text = RULES.read_text("utf-8")
    command = re.search(r"^#   sed -i '(.*)' alerts.yml$", text, re.MULTILINE)
    assert command is not None
    made = subprocess.run(["sed", command[1]], input=text, capture_output=True, text=True, check=True).stdout
    urls = [rule["annotations"]["runbook_url"] for g in yaml.safe_load(made)["groups"] for rule in g["rules"]]
    assert urls[0] == "https://docs.example.net/reconciler/mirror/alerts.html#mirrornotseen"
    assert all("https://docs.example.net/reconciler/mirror/" in url and ".md" not in url for url in urls)


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
