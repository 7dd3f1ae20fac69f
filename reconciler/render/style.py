"""How text is dressed: colour only repeats what a sign or word already says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SHOWN = 8
_COLOURS = {"+": "32", "~": "33", "!": "35", "-": "31", "bold": "1", "alarm": "1;31", "faint": "2"}


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Style:
    """``full`` lists every name where the concise form folds."""

    colour: bool = False
    full: bool = False

    def paint(self, kind: str, text: str) -> str:
        return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if self.colour else text

    def listed(self, names: Sequence[str]) -> str:
        if self.full or len(names) <= SHOWN:
            return ", ".join(names)
        return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN} more"
