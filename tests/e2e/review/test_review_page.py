"""The examples of docs/begin/how-to-review.md, run in their order on the edit the page shows.

To accept new words: ``UPDATE_GOLDEN=1 pytest tests/e2e/review/test_review_page.py``, then review the page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import git
import pytest

from tests.support.commands import Ended
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "begin" / "how-to-review.md"
BLOCK = re.compile(r"```console\n\$ reconciler (?P<words>[^\n]*)\n(?P<output>.*?)```", re.DOTALL)


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's YAML committed on main, its edit in the folder. The commit is the same each time."""
    page = PAGE.read_text("utf-8")
    (before,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (edit,) = re.findall(r"```diff\n(.*?)```", page, re.DOTALL)
    after = before
    for old, new in re.findall(r"^-(.*\n)\+(.*\n)", edit, re.MULTILINE):
        assert after.count(old) == 1
        after = after.replace(old, new)
    monkeypatch.chdir(tmp_path)
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "a")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "a@example.com")
        monkeypatch.setenv(f"GIT_{role}_DATE", "2026-01-01T00:00:00Z")
    for name in ("shop", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "topology.yaml").write_text(before, "utf-8")
    with git.Repo.init(tmp_path, initial_branch="main", object_format="sha1") as repo:
        repo.git.add("shop", "other")
        repo.git.commit(m="shop", no_gpg_sign=True)
    (tmp_path / "shop" / "topology.yaml").write_text(after, "utf-8")


@pytest.mark.usefixtures("edited")
def test_the_page_shows_what_is_printed(cli: Callable[..., Ended]) -> None:
    def run(block: re.Match[str]) -> str:
        ended = cli(*block["words"].split())
        assert ended.err == ""
        return f"```console\n$ reconciler {block['words']}\n{ended.out}```"

    page = PAGE.read_text("utf-8")
    real, count = BLOCK.subn(run, page)
    assert count == 3
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(real, "utf-8")
        page = real
    assert unprinted(real) == unprinted(page)


def unprinted(text: str) -> str:
    """Without fingerprints, which change with every field a job reads."""
    return re.sub(r"\b[0-9a-f]{16}\b", "0" * 16, text)
