"""Pictures in the pages: each that is named is there and small, and none lies around that no page shows. Drawings are
what the generator draws."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.site.pictures import FIRST, GROUP, RECORD, SOURCE, TRANSLATED, pictures
from reconciler.replication.offsets.map import Exactness
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


@pytest.mark.parametrize("name", pictures())
def test_a_drawing_is_what_the_generator_draws(name: str) -> None:
    """To accept another one: ``UPDATE_GOLDEN=1 pytest`` of this file."""
    path, drawn = ROOT / "docs" / "begin" / "pictures" / name, pictures()[name]
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(drawn, "utf-8")
    assert path.read_text("utf-8") == drawn
    ElementTree.fromstring(drawn)


def test_the_drawn_map_copies_the_records_that_are_drawn() -> None:
    copied = [FIRST + at for at, kind in enumerate(SOURCE) if kind == RECORD]
    exact = [at for at in range(FIRST, FIRST + len(SOURCE)) if TRANSLATED.downstream(at).exactness is Exactness.RECORD]
    assert (exact, TRANSLATED.downstream(GROUP).exactness) == (copied, Exactness.NEXT)
