"""What mkdocs calls while it builds: adds pages that are not below `docs/`, and turns links into the site's."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.site.commands import commands_page  # noqa: E402  # mkdocs loads this file by its path
from docs.site.links import MOVED, of_the_site, redirect  # noqa: E402
from docs.site.reference import environment_page, with_addresses  # noqa: E402
from docs.site.rendered import faults  # noqa: E402

_LOG = logging.getLogger("mkdocs.hooks.reconciler")
"""What it warns of ends a strict build."""

_ABOVE = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_files(files: Files, config: Any) -> Files:
    made = {place: (ROOT / source).read_text("utf-8") for place, source in _ABOVE.items()} | {
        "reference/commands.md": commands_page(ROOT / "tests" / "golden" / "help"),
        "reference/environment.md": environment_page(ROOT / "schemas" / "environment.schema.json"),
        "reference/messages.md": (ROOT / "tests" / "golden" / "messages.md").read_text("utf-8"),
        "reference/metrics.md": with_addresses((ROOT / "tests" / "golden" / "metrics.md").read_text("utf-8")),
    }
    made |= {place: redirect(target) for place, target in MOVED.items()}
    made |= {f"schemas/{path.name}": path.read_text("utf-8") for path in (ROOT / "schemas").rglob("*.json")}
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    place = page.file.src_uri
    source = _ABOVE.get(place, f"docs/{place}")
    if place.startswith("reference/"):
        return markdown
    repository = f"{config.repo_url.rstrip('/')}/blob/main" if config.repo_url else ""
    return of_the_site(markdown, source, repository)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    for fault in faults(page.markdown, html):
        _LOG.warning("%s: %s", page.file.src_uri, fault)
    return html
