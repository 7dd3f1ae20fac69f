"""The site: links of the repository become links of the site, the reference says all that the program says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs.site.commands import commands_page
from docs.site.links import MOVED, of_the_site, redirect
from docs.site.reference import environment_page, with_addresses
from docs.site.rendered import faults
from tests.support.paths import ROOT

CODE = "https://git.example.net/ours/blob/main"
HELPS = ROOT / "tests" / "golden" / "help"


@pytest.mark.parametrize(
    ("source", "link", "repository", "shown"),
    [
        ("docs/mirror/host.md", "[x](../begin/ci.md#jobs)", "", "[x](../begin/ci.md#jobs)"),
        ("README.md", "[x](docs/begin/ci.md)", "", "[x](begin/ci.md)"),
        ("README.md", "![x](docs/begin/pictures/journey.svg)", "", "![x](begin/pictures/journey.svg)"),
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


ENTRIES = ("mirror/conditions.md", "change/messages.md")


def _words(text: str) -> list[str]:
    return re.sub(r"[╭╮╰╯─│|\\`*]|&lt;|<(?!a )|(?<!/a)>", " ", text).split()


def test_the_reference_has_every_command_in_order_with_all_that_its_help_says() -> None:
    page = commands_page(HELPS)
    texts = [path for path in HELPS.rglob("*.txt") if path.parent != HELPS]
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert len(sections) == len(texts) > 30
    assert list(sections) == sorted(sections)
    for path in texts:
        name = " ".join(path.read_text("utf-8").split("Usage: reconciler ")[1].split(" [")[0].split(" {")[0].split())
        shown = set(_words(sections[name]))
        boxes = {"Arguments", "Options", "Usage:"}
        shown |= {word.removesuffix(",") for word in shown}
        assert set(_words(path.read_text("utf-8"))) - shown - boxes == set(), path


def test_options_keys_and_entries_of_the_reference_are_sorted() -> None:
    """``--help`` has the most useful options first; where one is looked up by its name, they are in order."""
    groups = {
        r"^\| (?:<a id=\S+</a>)?`(--[a-z-]+)": commands_page(HELPS),
        r"^\| <a id=\S+</a>`(\S+)`": environment_page(ROOT / "schemas" / "environment.schema.json"),
        r"^### `?([\w-]+)": "".join((ROOT / "docs" / name).read_text("utf-8") for name in ENTRIES),
        r"^### (Mirror\w+|Drill\w+)": (ROOT / "docs/mirror/alerts.md").read_text("utf-8").replace("\n## ", "\n### "),
    }
    for entry, page in groups.items():
        found = [re.findall(entry, part, re.MULTILINE) for part in re.split(r"^(?=## )", page, flags=re.MULTILINE)]
        assert sum(map(len, found)) > 10, entry
        assert found == [sorted(each) for each in found]


def test_each_option_has_an_address() -> None:
    page = commands_page(HELPS)
    for path in HELPS.rglob("*.txt"):
        if path.parent != HELPS:
            text = path.read_text("utf-8")
            command = "-".join(text.split("Usage: reconciler ")[1].split(" [")[0].split(" {")[0].split())
            for option in re.findall(r"^│ (?:\* {4})?(--[a-z-]+)", text, re.MULTILINE):
                assert f'<a id="{command}{option}"></a>' in page


@pytest.mark.parametrize(
    ("markdown", "html", "wrong"),
    [
        ("# A\n\n```shell\nls\n```\n", "<h1>A</h1><div><pre><code>ls</code></pre></div>", ""),
        ("# A\n\n```shell exit 2\nls\n```\n", "<h1>A</h1><p>```shell exit 2 ls ```</p>", "is shown as text"),
        ("# A\n\n```\n# no heading\n```\n", "<h1>A</h1><pre>x</pre>", ""),
        ("# A\n\n```\nls\n```\n\n## B\n", "<h1>A</h1><pre>ls ## B</pre>", "2 headings are written, 1 are shown"),
        ("# A\n\n```\na\n```\n\n```\nb\n```\n", "<h1>A</h1><pre>a b</pre>", "2 fences are written, 1 blocks"),
    ],
)
def test_what_a_page_lost_on_its_way_is_said(markdown: str, html: str, wrong: str) -> None:
    said = "; ".join(faults(markdown, html))
    assert wrong in said if wrong else not said


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_fences_and_headings_are_in_a_form_that_the_site_shows(page: Path) -> None:
    """Without a build of the site: pymdownx takes a fence of one word, and a heading behind a table's end."""
    text = page.read_text("utf-8")
    assert re.findall(r"^ *```[^\n`]* [^\n`]*$", text, re.MULTILINE) == []
    assert re.findall(r"^\|.*\n#.*$", text, re.MULTILINE) == []


def test_the_reference_has_every_key_of_an_environment() -> None:
    schema_file = ROOT / "schemas" / "environment.schema.json"
    schema, page = json.loads(schema_file.read_text("utf-8")), environment_page(schema_file)
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert list(sections) == sorted(schema["properties"])
    for name, section in (("flow", "flows"), ("cluster", "clusters"), ("mirror", "mirrors"), ("topic", "topics")):
        keys = set(re.findall(rf'^\| <a id="{section}.NAME\.(\w+)"></a>`NAME\.\1`', sections[section], re.MULTILINE))
        assert keys >= set(schema["$defs"][name]["properties"]), section
    addresses = re.findall(r'<a id="([^"]+)">', page)
    assert len(addresses) == len(set(addresses)) > 200
    assert {"webhooks[].url", "flows.NAME.groups.sync_offsets"} <= set(addresses)


def test_each_metric_has_an_address() -> None:
    table = (ROOT / "tests" / "golden" / "metrics.md").read_text("utf-8")
    rows = [row for row in with_addresses(table).splitlines() if row.startswith("| <a id=")]
    assert len(rows) == table.count("\n| `") > 40


def test_moved_pages_lead_to_pages() -> None:
    docs = ROOT / "docs"
    for place, target in MOVED.items():
        page = (docs / place).parent / target.partition("#")[0]
        sources = [page.with_suffix(".md"), page.with_name("README.md"), ROOT / f"{page.stem.upper()}.md"]
        assert any(source.is_file() for source in sources), place
        assert f'url={target}"' in redirect(target)
        assert not (docs / place).with_suffix(".md").exists()


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = (
        (ROOT / "docs" / "site" / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].partition("\ntheme:")[0]
    )
    named = re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE)
    docs = ROOT / "docs"
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md") if "decisions" not in path.parts}
    above = {"index.md", "contributing.md", "changelog.md"}
    reference = {f"reference/{name}.md" for name in ("commands", "environment", "messages", "metrics")}
    made = above | reference | {"decisions/README.md"}
    assert sorted(named) == sorted(pages | made)
