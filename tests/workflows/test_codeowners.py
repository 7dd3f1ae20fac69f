"""The example of CODEOWNERS: who has to agree to an edit of which file."""

from __future__ import annotations

import re

import pytest

from tests.support.paths import ROOT

EXAMPLE = ROOT / "reconciler" / "operations" / "adopt" / "templates" / "CODEOWNERS"


def owners(path: str) -> list[str]:
    """Of a file, as GitHub decides: the last line that matches counts."""
    last: list[str] = []
    for line in EXAMPLE.read_text("utf-8").splitlines():
        pattern, *named = line.partition("#")[0].split() or [""]
        if pattern and re.fullmatch(expression(pattern), path):
            last = named
    return last


def expression(pattern: str) -> str:
    """Patterns as in .gitignore: ``**/`` is any folders, ``*`` stays within a name, a folder means all in it."""
    words = {"**/": "(?:.*/)?", "*": "[^/]*"}
    body = "".join(words.get(part) or re.escape(part) for part in re.split(r"(\*\*/|\*)", pattern.lstrip("/")))
    start = "" if pattern.startswith("/") else "(?:.*/)?"
    return f"{start}{body}" + (".*" if pattern.endswith("/") else "(?:/.*)?")


@pytest.mark.parametrize(
    "path",
    [
        "environments/prod/clusters.yaml",
        "environments/prod/regions/east/clusters.yaml",
        "environments/prod/mirrors.yaml",
        ".github/CODEOWNERS",
        ".github/workflows/plan.yml",
        ".github/workflows/apply.yml",
        ".github/dependabot.yml",
        ".pre-commit-config.yaml",
        "environments/prod/east/cluster.yaml",
        "README.md",
    ],
)
def test_what_decides_over_credentials_and_code_is_guarded(path: str) -> None:
    assert owners(path) == ["@example/platform"]


@pytest.mark.parametrize("path", ["environments/prod/topics/orders.yaml", "environments/prod/flows.yaml"])
def test_topics_and_flows_belong_to_others(path: str) -> None:
    assert owners(path) == ["@example/topics"]


def test_it_guards_files_that_the_example_environments_have() -> None:
    listed = [str(path.relative_to(ROOT)) for path in (ROOT / "environments").rglob("clusters.yaml")]
    assert listed
    assert {tuple(owners(path)) for path in listed} == {("@example/platform",)}


def test_it_is_no_rule_of_this_repository() -> None:
    """GitHub looks at the top, in docs/ and in .github/: an example there would ask teams that do not exist."""
    assert EXAMPLE.parent not in (ROOT, ROOT / "docs", ROOT / ".github")
