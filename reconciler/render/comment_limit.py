"""A comment that fits: sections told with as much detail as its limit allows, and the hidden line it is found by.

A comment of GitHub may hold 65,536 characters. What is longer is told with less detail, in the steps of ``Detail``, and
says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from reconciler.rendering.escaping import code, markdown
from reconciler.rendering.sections import Section
from reconciler.rendering.style import SHOWN

GITHUB_LIMIT = 65_536
_LONGEST = 400
_ITEMS = 60
"""Of each list, at the first step down: a report that shows 8 of 50 lines is no report."""
_CUT = "- and more than fits here\n"
_MARKER = "<!-- reconciler-"


class Detail(IntEnum):
    """How much is told. The first that fits is taken."""

    ALL = 0
    NO_VALUES = 1
    NAMES = 2
    COUNTS = 3


_LESS = {
    Detail.NO_VALUES: "This comment would be too long: values before and after are left out, long lists are cut.",
    Detail.NAMES: "This comment would be too long: changes are told by name only, long lists are cut.",
    Detail.COUNTS: "This comment would be too long: only counts are told.",
}


@dataclass(frozen=True, slots=True)
class Handoff:
    """How a reader goes on: the exact command that applies this, and where all of it can be read."""

    apply: str = ""
    artifact: str = ""


def marker(kind: str, environment: str) -> str:
    """The beginning of the hidden first line, by which a workflow finds the one comment it keeps up to date."""
    return f"{_MARKER}{kind} {_json({'environment': environment})[:-1]}"


def fitting(told: Callable[[Detail], Iterator[str]], limit: int) -> str:
    """With the most detail that fits ``limit``; counts that are still too long end where the limit is."""
    for detail in Detail:
        kept, whole = _within(told(detail), limit)
        if whole:
            return kept
    kept, _ = _within(told(Detail.COUNTS), limit - _units(_CUT))
    return kept + _CUT


def _within(lines: Iterator[str], limit: int) -> tuple[str, bool]:
    """The first lines, as many as ``limit`` holds, and whether these are all. What is too long is not told on."""
    kept: list[str] = []
    left = limit
    for line in lines:
        left -= _units(line) + 1
        if left < 0 and line:  # empty lines at the end are left out
            text = "\n".join(kept).rstrip("\n")
            return f"{text}\n" if text else "", False
        kept.append(line)
    return "\n".join(kept).rstrip("\n") + "\n", True


def _units(text: str) -> int:
    """UTF-16 code units: never fewer than the characters that GitHub or GitLab counts, however they count."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def hidden(kind: str, environment: str, facts: dict[str, str]) -> str:
    return f"{_MARKER}{kind} {_json({'environment': environment, **facts})} -->"


def _json(value: dict[str, str]) -> str:
    """Cannot end the HTML comment it is put in."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e")


def less(detail: Detail, handoff: Handoff) -> Iterator[str]:
    if detail in _LESS:
        where = f" All of it: {markdown(handoff.artifact)}." if handoff.artifact else " The saved plan has all of it."
        yield from (f"> {_LESS[detail]}{where}", "")


def told_sections(sections: Sequence[Section], detail: Detail) -> Iterator[str]:
    for section in sections:
        heading = markdown(section.heading)
        if detail is Detail.COUNTS:
            yield from (f"- <b>{heading}</b>",)
        elif section.urgent:
            yield from (f"**{heading}**", "", *told_items(section, detail), "")
        else:
            yield from (
                "<details>",
                f"<summary>{heading}</summary>",
                "",
                *told_items(section, detail),
                "",
                "</details>",
                "",
            )


def told_items(section: Section, detail: Detail) -> Iterator[str]:
    shown = {Detail.ALL: len(section.items), Detail.NO_VALUES: _ITEMS}.get(detail, SHOWN)
    inner = 2 if detail is Detail.NO_VALUES else 3
    for item in section.items[:shown]:
        sign = f"{code(item.sign)} " if item.sign else ""
        yield f"- {sign}{markdown(item.text if detail is Detail.ALL else cut(item.text))}"
        if item.names:
            yield f"  - {listed(item.names, len(item.names) if detail is Detail.ALL else SHOWN)}"
        more = item.more if detail is Detail.ALL else item.more[:inner]
        yield from (f"  - {markdown(line if detail is Detail.ALL else cut(line))}" for line in more)
        if len(more) < len(item.more):
            yield f"  - and {len(item.more) - len(more)} more"
    if shown < len(section.items):
        yield f"- and {len(section.items) - shown} more"


def listed(names: Sequence[str], shown: int) -> str:
    text = ", ".join(code(name) for name in names[:shown])
    return text if len(names) <= shown else f"{text} and {len(names) - shown} more"


def cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
