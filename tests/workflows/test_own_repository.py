"""What guards this repository itself: code that others wrote is pinned, analysed, and reviewed by those who know it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((*GITHUB.glob("workflows/*.yml"), *GITHUB.glob("actions/*/action.yml")))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_action_of_others_is_pinned_by_its_commit(path: Path) -> None:
    used = re.findall(r"uses: (\S+)(.*)", path.read_text("utf-8"))
    loose = [name for name, _ in used if not name.startswith("./") and not re.fullmatch(r"[^@]+@[0-9a-f]{40}", name)]
    assert loose == []
    unnamed = [name for name, rest in used if "@" in name and not re.fullmatch(r" # v[0-9.]+", rest)]
    assert unnamed == [], "the version beside the commit is what people compare"


def test_codeql_analyses_code_and_workflows_and_writes_results_alone() -> None:
    read = yaml.safe_load((GITHUB / "workflows/codeql.yml").read_text("utf-8"))
    [job] = read["jobs"].values()
    assert (read["permissions"], job["permissions"]) == ({}, {"contents": "read", "security-events": "write"})
    assert set(job["strategy"]["matrix"]["language"]) == {"python", "actions"}
    assert not [step for step in job["steps"] if "run" in step], "the code of a pull request is read, not run"
    assert {"pull_request", "push", "schedule"} <= read[True].keys(), "YAML 1.1 reads on as true"


def test_files_that_decide_over_credentials_and_code_have_owners_and_exist() -> None:
    lines = [line.split() for line in (GITHUB / "CODEOWNERS").read_text("utf-8").splitlines() if line[:1] in ("*", "/")]
    gone = [pattern for pattern, *_ in lines if pattern != "*" and not (ROOT / pattern.strip("/")).exists()]
    assert gone == []
    guarded = {pattern for pattern, *owners in lines if any(each.endswith("/security") for each in owners)}
    assert {"/.github/", "/.ci/", "/requirements/", "/reconciler/backends/", "/docs/SECURITY.md"} <= guarded


def test_newer_versions_are_proposed_each_week() -> None:
    read = yaml.safe_load((GITHUB / "dependabot.yml").read_text("utf-8"))
    assert {each["package-ecosystem"] for each in read["updates"]} == {"github-actions", "docker", "pip"}
    assert {each["schedule"]["interval"] for each in read["updates"]} == {"weekly"}
