"""What was renamed has its former name in one table, where records of the last release are read, and nowhere else."""

from __future__ import annotations

import re
import subprocess

from reconciler.replication.names import CONDITION_CODES, FORMER_NAMES
from tests.support.paths import ROOT

MAY = {
    "docs/mirror/metrics.md",
    "reconciler/replication/names.py",
    "schemas/status-report.schema.json",
    "schemas/status.schema.json",
    "tests/golden/metrics.md",
    "tests/golden/release/records.json",
}
"""The table; the page that tells users of it; formats that have both names."""
HISTORY = ("docs/decisions/", "bench/results/")


def test_no_file_but_the_table_has_a_former_name() -> None:
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split("\n")
    former = re.compile("|".join(FORMER_NAMES))
    with_one = {
        name
        for name in files
        if name and not name.startswith(HISTORY) and (ROOT / name).suffix in (".py", ".md", ".yml", ".yaml", ".json")
        if former.search((ROOT / name).read_text("utf-8"))
    }
    assert with_one == MAY


def test_the_page_of_metrics_has_the_table() -> None:
    section = (ROOT / "docs/mirror/metrics.md").read_text("utf-8").partition("## Former names")[2]
    rows = re.findall(r"^\| condition `(\w+)` \| `(\w+)` \|$", section, re.MULTILINE)
    assert rows == [(old, new) for old, new in FORMER_NAMES.items() if new in CONDITION_CODES]
    assert all(f"`{name}`" in section for pair in FORMER_NAMES.items() for name in pair)


def test_no_former_name_is_used_again() -> None:
    assert not FORMER_NAMES.keys() & (set(CONDITION_CODES) | set(FORMER_NAMES.values()))
