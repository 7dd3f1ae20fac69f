"""Pictures in the pages: each that is named is there and small, and none lies around that no page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(r"\]\(([^)\s]+\.(?:svg|png|webp))\)")
MOST_BYTES = 200_000


def named(page: Path) -> list[Path]:
    return [(page.parent / name).resolve() for name in NAMED.findall(page.read_text("utf-8"))]


@pytest.mark.parametrize("page", [page for page in PAGES if named(page)], ids=lambda page: page.name)
def test_every_picture_that_a_page_names_is_there_and_small(page: Path) -> None:
    for picture in named(page):
        assert picture.is_file(), f"{page} names {picture}: make pictures"
        assert 0 < picture.stat().st_size < MOST_BYTES, picture


def test_every_picture_is_shown_by_a_page() -> None:
    shown = {picture for page in PAGES for picture in named(page)}
    there = set((ROOT / "docs" / "begin" / "pictures").iterdir())
    assert len(there) >= 8, "the folder is read"
    assert there <= shown
