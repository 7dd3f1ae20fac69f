"""Styles of terminal text: colour only repeats what a sign or word already says."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.text import first_of

SHOWN = 8
_COLOURS = {"+": "32", "~": "33", "!": "35", "-": "31", "bold": "1", "alarm": "1;31", "faint": "2"}
CODES = frozenset({"\x1b[0m", *(f"\x1b[{colour}m" for colour in _COLOURS.values())})


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class Style:
    colour: bool = False
    full: bool = False
    """Lists every name that the concise form folds."""
    width: int | None = None
    """Columns of the terminal; None: lines stay whole."""

    def paint(self, kind: str, text: str) -> str:
        return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if self.colour else text

    def listed(self, names: Sequence[str]) -> str:
        return first_of(names, len(names) if self.full else SHOWN)

    def cut(self, lines: Sequence[str], shown: int = SHOWN) -> Sequence[str]:
        """The first ones and how many more, indented as the first."""
        if self.full or len(lines) <= shown:
            return lines
        indent = " " * (len(lines[0]) - len(lines[0].lstrip()))
        return [*lines[:shown], f"{indent}and {len(lines) - shown} more"]


PLAIN = Style()
