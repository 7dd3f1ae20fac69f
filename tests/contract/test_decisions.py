"""Every decision has a number of its own, a status and a date, and the index names each once."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
RECORDS = sorted(FOLDER.glob("*/*.md"))
INDEX = (FOLDER / "README.md").read_text("utf-8")
STATUS = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\n"
    r"Status: (?P<status>accepted|(?:partly )?superseded by \[(?P<by>\d+)\]\((?P<link>[^)]+)\))[,;] "
    r"\d{4}-\d\d-\d\d(?:; .+)?\n\n"
)
ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\(([^)]+)\) \| (.+) \|$", re.MULTILINE)


def test_each_record_lies_in_the_folder_of_a_theme() -> None:
    assert [page.name for page in FOLDER.glob("*.md")] == ["README.md"]


def test_each_number_is_used_once() -> None:
    assert [number for number, times in Counter(record.name[:4] for record in RECORDS).items() if times > 1] == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_decision_has_title_status_and_date(record: Path) -> None:
    found = STATUS.match(record.read_text("utf-8"))
    assert found, "expected: # N. Title, an empty line, Status: accepted, YYYY-MM-DD (or superseded by ...)"
    assert int(found["number"]) == int(record.name[:4])
    if found["by"]:
        assert (record.parent / found["link"]).name.startswith(f"{int(found['by']):04}-")


def test_the_index_names_each_decision_once_with_its_title_and_status() -> None:
    rows = {link: (number, title, status.partition(" by")[0]) for number, title, link, status in ROW.findall(INDEX)}
    assert len(ROW.findall(INDEX)) == len(rows)
    assert rows == {
        str(record.relative_to(FOLDER)): (found["number"], found["title"], found["status"].partition(" by")[0])
        for record in RECORDS
        if (found := STATUS.match(record.read_text("utf-8")))
    }


def test_a_newcomer_is_led_to_fifteen_of_them() -> None:
    first = INDEX.partition("## Read these fifteen first")[2].partition("\n## ")[0]
    links = re.findall(r"^\* (\d+), .+: \[.+\]\((.+)\)$", first, re.MULTILINE)
    assert len(links) == 15
    assert all((FOLDER / link).is_file() and Path(link).name.startswith(f"{int(number):04}-") for number, link in links)
