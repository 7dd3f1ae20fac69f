"""Links of the pages as they are in the repository, turned into links of the site."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_PAGES_ABOVE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_PAGES_BESIDE = {
    "docs/decisions": "decisions/README.md",
    "tests/golden/messages.md": "reference/messages.md",
    "tests/golden/metrics.md": "reference/metrics.md",
}
MOVED = {
    "adding-a-kind.html": "contributing.html#add-a-kind-of-resource",
    "begin/connecting.html": "connecting/index.html",
    "begin/mirrormaker-scenarios.html": "mirrormaker-settings.html",
    "mirror/spark-clusters.html": "spark/clusters.html",
}
"""Pages that the site had, and where their text is now, seen from the page."""
_ON_THE_SITE = (".md", ".svg", ".png", ".webp")


def of_the_site(markdown: str, source: str, repository: str) -> str:
    """``markdown`` with links that lead to pages of the site, or to ``repository`` where they leave the pages.

    ``source``: path of the page in the repository, such as ``docs/mirror/host.md``. ``repository``: address of its
    files, such as ``https://git.example.net/ours/blob/main``; empty: what is not on the site is named and not linked.
    """
    here = PurePosixPath(place_in_site(source) or source).parent

    def rewritten(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        if "://" in target or target.startswith(("#", "mailto:")):
            return link[0]
        path, separator, anchor = target.partition("#")
        in_repository = os.path.normpath(PurePosixPath(source).parent / path)
        place = place_in_site(in_repository)
        if place is not None:
            return f"[{words}]({os.path.relpath(place, here)}{separator}{anchor})"
        return f"[{words}]({repository}/{in_repository}{separator}{anchor})" if repository else words

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(rewritten, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    parts.append(_LINK.sub(rewritten, markdown[end:]))
    return "\n".join(_table_row(line) for line in "".join(parts).split("\n"))


def place_in_site(path: str) -> str | None:
    """Where a file of the repository stands in the site, relative to its root; None: it is not part of it."""
    if path in _PAGES_ABOVE:
        return _PAGES_ABOVE[path]
    if path in _PAGES_BESIDE:
        return _PAGES_BESIDE[path]
    inside = path.removeprefix("docs/")
    return inside if inside != path and inside.endswith(_ON_THE_SITE) else None


def _table_row(line: str) -> str:
    """GitHub reads a backslash before a bar in a table as the bar; Python-Markdown shows it between backticks."""
    return _CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.startswith("|") else line


def redirect(target: str) -> str:
    """A page that leads to another one, for bookmarks and links of others."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Moved</title>'
        f'<meta http-equiv="refresh" content="0; url={target}"><link rel="canonical" href="{target}">'
        f'<p>This page is now <a href="{target}">{target}</a>.</p></html>\n'
    )
