"""docs/mirror/conditions.md names every condition that the mirror can tell, and no other."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

NAMED = re.compile(
    r'Condition(?:\.of_partition)?\(\s*f?"([a-z_{}]+)"|_(?:failed|with|unreachable)\([a-z_., ]*"([a-z_]+)"'
)


def told() -> set[str]:
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "spark/reconciler_mirror").rglob("*.py"))
    codes = {one or other for one, other in NAMED.findall(sources)}
    sides = {code.replace("{side}", side) for code in codes for side in ("source", "target")}
    assert len(sides) > 20, "the expression above finds them"
    return sides


def test_every_condition_is_explained() -> None:
    page = (ROOT / "docs/mirror/conditions.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    explained = {code for row in rows for code in re.findall(r"`([a-z_]+)`", row)}
    assert explained == told()
