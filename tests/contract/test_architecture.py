"""The map of the program says what is there, and every package says what belongs in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.architecture import PAGE, docstring, levels, packages, rewritten
from tests.support.paths import ROOT


def test_the_page_is_made_from_the_contract_and_the_packages() -> None:
    """Write it again with ``python -m tests.contract.architecture``."""
    assert rewritten(PAGE.read_text("utf-8")) == PAGE.read_text("utf-8")


@pytest.mark.parametrize("package", packages(), ids=str)
def test_every_package_says_what_belongs_in_it_and_what_does_not(package: Path) -> None:
    said = docstring(package)
    assert "Belongs here: " in said
    assert "Not here: " in said or package == Path("reconciler/sandbox")


def test_every_package_of_the_program_has_its_level() -> None:
    named = {name for names in levels() for name in names}
    assert {path.name for path in (ROOT / "reconciler").iterdir() if (path / "__init__.py").is_file()} <= named


def test_the_contracts_stay_short() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8").partition("[tool.importlinter]")[2]
    assert len(text.splitlines()) < 40
