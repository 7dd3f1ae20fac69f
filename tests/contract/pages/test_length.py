"""How much a user has to read: the words of all pages but decisions may only become fewer. A how-to has one goal, YAML
that is valid, and what a reader looks for in each."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from reconciler.environment.load import load
from tests.support.paths import ROOT

MOST = 33_000
"""Half of the 66,620 words (``wc -w``) that docs/ had outside of decisions when it was found too long (cb416e07), less
300; ``python -m tests.contract.pages.test_length`` counts. A new page takes its words from others."""
ABOVE = 1_450
"""README and CONTRIBUTING, which are counted by themselves."""
WRITTEN = {"licences.md"}
"""By a program, from the locks; so is the table of packages. The site's reference is made while it is built."""
TABLE = re.compile(r"<!-- packages: begin.*?<!-- packages: end -->", re.DOTALL)
OF_A_HOW_TO = 300
HOW_TO = [path for path in sorted((ROOT / "docs" / "how-to").glob("*.md")) if path.stem != "troubleshooting"]


def words(page: Path) -> int:
    return len(TABLE.sub("", page.read_text("utf-8")).split())


def counted() -> dict[str, int]:
    docs = (page for page in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in page.parts)
    return {str(page.relative_to(ROOT)): words(page) for page in docs if page.name not in WRITTEN}


def test_the_pages_become_no_longer() -> None:
    total = sum(counted().values())
    assert total <= MOST, f"{total:,} words: shorten a page, or link to what another one says"
    assert words(ROOT / "README.md") + words(ROOT / "CONTRIBUTING.md") <= ABOVE


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_is_short_and_says_how_to_prove_it_and_the_way_back(page: Path) -> None:
    text = page.read_text("utf-8")
    assert words(page) <= OF_A_HOW_TO
    wanted = ("Goal: ", "reconciler plan ", "reconciler apply ", "**Prove it**", "ay back**")
    assert [part for part in wanted if part not in text] == []


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_the_yaml_of_a_how_to_is_an_environment(page: Path) -> None:
    blocks = re.findall(r"^( *)```yaml\n(.*?)^ *```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    files = {
        f"part-{number}.yaml": re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)
        for number, (indent, text) in enumerate(blocks)
    }
    read = load(files, "prod")
    assert read.clusters or read.hooks


if __name__ == "__main__":
    for name, number in sorted(counted().items(), key=lambda each: each[1]):
        sys.stdout.write(f"{number:6,} {name}\n")
    sys.stdout.write(f"{sum(counted().values()):6,} of {MOST:,}\n")
