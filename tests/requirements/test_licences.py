"""The page of licences: every locked package at its version, and what the package itself says."""

from __future__ import annotations

import re

import pytest

from requirements.licences import PAGE, UNTOLD, Licence, cell, installed, page, read
from requirements.locked import packages

ROW = re.compile(r"^\* `([\w.-]+)` (\S+): (.+)$", re.MULTILINE)
RENEW = "renew the page with make licences"


def test_the_page_lists_every_locked_package_at_its_version() -> None:
    rows = [(name, version) for name, version, _ in ROW.findall(PAGE.read_text("utf-8"))]
    runtime = [(package.name, package.version) for package in packages() if package.runtime]
    rest = [(package.name, package.version) for package in packages() if not package.runtime]
    assert rows == runtime + rest, RENEW


def test_the_page_says_what_the_installed_packages_say() -> None:
    """Those that are not installed here, or at another version, cannot be compared."""
    on_page = {name: licence for name, _, licence in ROW.findall(PAGE.read_text("utf-8"))}
    told = {package.name: licence for package in packages() if (licence := installed(package)) is not None}
    assert {name: on_page[name] for name in told} == {name: cell(licence) for name, licence in told.items()}, RENEW


def test_all_but_the_rows_is_as_it_is_made() -> None:
    assert ROW.sub("", PAGE.read_text("utf-8")) == ROW.sub("", page(packages())), RENEW


@pytest.mark.parametrize(
    ("expression", "field", "classifiers", "licence"),
    [
        ("MIT OR Apache-2.0", "MIT", [], Licence(spdx="MIT OR Apache-2.0")),
        (None, "BSD-3-Clause", [], Licence(spdx="BSD-3-Clause")),
        (None, "BSD License", ["License :: OSI Approved :: BSD License"], Licence(words="BSD License")),
        (None, "Apache 2.0", [], Licence(words="Apache 2.0")),
        (None, "Copyright\nall of the text", ["License :: OSI Approved :: MIT License"], Licence(words="MIT License")),
        (None, "UNKNOWN", [], Licence()),
        (None, None, [], Licence()),
    ],
)
def test_nothing_is_guessed(
    expression: str | None, field: str | None, classifiers: list[str], licence: Licence
) -> None:
    assert read(expression, field, classifiers) == licence


def test_an_undeclared_licence_is_shown_as_such() -> None:
    assert cell(Licence()) == UNTOLD
    assert cell(None).startswith(UNTOLD)
    assert cell(Licence(words="one | other")) == '"one | other"'
