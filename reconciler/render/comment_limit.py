"""Fits a pull-request comment into its size limit by leaving out detail; its hidden marker line.

A comment of GitHub may hold 65,536 characters. What is longer is told with less detail, in the steps of ``Detail``, and
says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from reconciler.render.escape import markdown

GITHUB_LIMIT = 65_536
_CUT = "- and more than fits here\n"
_MARKER = "<!-- reconciler-"


class Detail(IntEnum):
    """How much is told. The first that fits is taken."""

    ALL = 0
    SHORT_LISTS = 1
    NO_VALUES = 2
    NAMES = 3
    COUNTS = 4

    @property
    def values(self) -> bool:
        """What changes is told with its values before and after."""
        return self <= Detail.SHORT_LISTS


_LESS = {
    Detail.SHORT_LISTS: "This comment would be too long: folded lists are cut after 60 lines.",
    Detail.NO_VALUES: "This comment would be too long: values before and after are left out, long lists are cut.",
    Detail.NAMES: "This comment would be too long: changes are listed by name only, long lists are cut.",
    Detail.COUNTS: "This comment would be too long: only counts are shown.",
}


@dataclass(frozen=True, slots=True)
class Handoff:
    """How a reader goes on: the exact command that applies this, and where all of it can be read."""

    apply: str = ""
    artifact: str = ""


NO_HANDOFF = Handoff()


def marker(kind: str, environment: str) -> str:
    """The beginning of the hidden first line, by which a workflow finds the one comment it keeps up to date."""
    return f"{_MARKER}{kind} {_json({'environment': environment})[:-1]}"


def fitting(render: Callable[[Detail], Iterator[str]], limit: int) -> str:
    """With the most detail that fits ``limit``; counts that are still too long end where the limit is."""
    for detail in Detail:
        kept, whole = _within(render(detail), limit)
        if whole:
            return kept
    kept, _ = _within(render(Detail.COUNTS), limit - _units(_CUT))
    return kept + _CUT


def _within(lines: Iterator[str], limit: int) -> tuple[str, bool]:
    """The first lines, as many as ``limit`` holds, and whether these are all. What is too long is not told on."""
    kept: list[str] = []
    room = limit
    for line in lines:
        room -= _units(line) + 1
        if room < 0 and line:  # empty lines at the end are left out
            text = "\n".join(kept).rstrip("\n")
            return f"{text}\n" if text else "", False
        kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n", True


def _units(text: str) -> int:
    """UTF-16 code units: never fewer than the characters that GitHub or GitLab counts, however they count."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def hidden(kind: str, environment: str, facts: Mapping[str, str]) -> str:
    return f"{_MARKER}{kind} {_json({'environment': environment, **facts})} -->"


def _json(value: dict[str, str]) -> str:
    """Cannot end the HTML comment it is put in."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e")


def less(detail: Detail, whole: str) -> Iterator[str]:
    """``whole``: where all of it can be read; empty for the saved plan."""
    if detail in _LESS:
        where = f" All of it: {markdown(whole)}." if whole else " The saved plan has all of it."
        yield from (f"> {_LESS[detail]}{where}", "")
