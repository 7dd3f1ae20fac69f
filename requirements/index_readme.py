"""README.md for the package index, where relative links would lead nowhere: they lead to the repository, at the tag of
the version. A hook of Hatchling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)]+\))")
"""A relative one, of a page or a picture."""


def for_the_index(text: str, repository: str, version: str) -> str:
    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}{link[2]}{repository}/{kind}/v{version}/{link[3]}"

    return _LINK.sub(absolute, text)


class IndexReadme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        text = for_the_index(text, metadata["urls"]["Repository"], metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
