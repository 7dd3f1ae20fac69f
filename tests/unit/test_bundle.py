"""The job's code as a zip holds every package of ours that it imports: an executor has no other copy."""

from __future__ import annotations

import ast
import zipfile
from pathlib import Path

from reconciler.edges.submission import bundle

ROOT = Path(__file__).parents[2]
PLACES = (ROOT, ROOT / "spark")
OURS = {one.name for place in PLACES for one in place.iterdir() if (one / "__init__.py").exists()}


def _imported(text: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_the_bundle_holds_what_it_imports(tmp_path: Path) -> None:
    bundle(tmp_path / "bundle.zip")
    with zipfile.ZipFile(tmp_path / "bundle.zip") as archive:
        held = {name.partition("/")[0] for name in archive.namelist()}
        asked = set().union(*(_imported(archive.read(name).decode()) for name in archive.namelist()))
    asked |= _imported((ROOT / "spark" / "mirror_job.py").read_text())
    assert {"mirror", "replication", "wire"} <= OURS
    assert asked & OURS <= held
