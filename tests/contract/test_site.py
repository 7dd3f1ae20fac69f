"""The site: links of the repository become links of the site, the reference says all that the program says."""

from __future__ import annotations

import json
import re

import pytest

from docs.site.links import of_the_site
from docs.site.reference import commands_page, environment_page
from tests.support.paths import ROOT

CODE = "https://git.example.net/ours/blob/main"
HELPS = ROOT / "tests" / "golden" / "help"


@pytest.mark.parametrize(
    ("source", "link", "repository", "shown"),
    [
        ("docs/mirror/host.md", "[x](../begin/ci.md#jobs)", "", "[x](../begin/ci.md#jobs)"),
        ("README.md", "[x](docs/begin/ci.md)", "", "[x](begin/ci.md)"),
        ("README.md", "![x](docs/begin/journey.svg)", "", "![x](begin/journey.svg)"),
        ("docs/mirror/host.md", "[x](../../README.md)", "", "[x](../index.md)"),
        ("docs/glossary.md", "[x](../CONTRIBUTING.md#set-up)", "", "[x](contributing.md#set-up)"),
        ("README.md", "[x](docs/decisions/)", "", "[x](decisions/README.md)"),
        ("docs/formats.md", "[`a`](../schemas/plan.schema.json)", "", "`a`"),
        ("docs/formats.md", "[a](../schemas/plan.schema.json)", CODE, f"[a]({CODE}/schemas/plan.schema.json)"),
        ("docs/formats.md", "[a](https://kafka.apache.org/)", "", "[a](https://kafka.apache.org/)"),
        ("docs/formats.md", "[a](#below)", "", "[a](#below)"),
        ("docs/formats.md", "```\n[a](../schemas/x.json)\n```", "", "```\n[a](../schemas/x.json)\n```"),
        ("docs/formats.md", "| `a \\| b` | c \\| d |", "", "| `a | b` | c \\| d |"),
    ],
)
def test_a_link_leads_to_the_site_or_to_the_repository(source: str, link: str, repository: str, shown: str) -> None:
    assert of_the_site(link, source, repository) == shown


def test_the_reference_has_every_command() -> None:
    page = commands_page(HELPS)
    texts = [path for path in HELPS.rglob("*.txt") if path.parent != HELPS]
    assert page.count("\n## ") == len(texts) > 30
    for path in texts:
        assert path.read_text("utf-8").strip("\n") in page


def test_the_reference_has_every_key_of_an_environment() -> None:
    schema_file = ROOT / "schemas" / "environment.schema.json"
    schema, page = json.loads(schema_file.read_text("utf-8")), environment_page(schema_file)
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(schema["properties"])
    for name, section in (("flow", "flows"), ("cluster", "clusters"), ("mirror", "mirrors"), ("topic", "topics")):
        keys = set(re.findall(r"^\| `NAME\.(\w+)`", sections[section], re.MULTILINE))
        assert keys >= set(schema["$defs"][name]["properties"]), section


def test_every_page_stands_in_the_navigation_once() -> None:
    navigation = (
        (ROOT / "docs" / "site" / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].partition("\ntheme:")[0]
    )
    named = re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE)
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md") if "decisions" not in path.parts}
    made = {"index.md", "contributing.md", "reference/commands.md", "reference/environment.md", "decisions/README.md"}
    assert sorted(named) == sorted(pages | made)
