"""Where files stand: folders stay short enough to be read, and tests share helpers, not each other."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

MOST_ENTRIES = 16
"""Files and folders of one folder: more is no longer seen at a glance."""
NOT_OURS_TO_PLACE = {Path("LICENSE")}
"""Looked for at the top by forges, packagers and lawyers."""


def entries() -> dict[Path, set[str]]:
    """What git tracks in each folder, or would after the next ``git add``."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    inside: dict[Path, set[str]] = defaultdict(set)
    for name in filter(None, listed.split("\0")):
        path = Path(name)
        if (ROOT / path).exists() and path not in NOT_OURS_TO_PLACE:
            for folder in path.parents:
                inside[folder].add(path.relative_to(folder).parts[0])
    return inside


def test_no_folder_has_more_entries_than_are_seen_at_a_glance() -> None:
    assert {str(folder): len(names) for folder, names in entries().items() if len(names) > MOST_ENTRIES} == {}


def test_nothing_is_imported_from_a_test_or_a_conftest() -> None:
    """What tests share is in ``tests.support``."""
    assert [told for path in (ROOT / "tests").rglob("*.py") for told in imports_of_tests(path)] == []


def imports_of_tests(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            continue
        for name in modules:
            if re.fullmatch(r"tests(\.\w+)*\.(test_\w+|conftest)", name):
                yield f"{path.relative_to(ROOT)}:{node.lineno} imports {name}"
