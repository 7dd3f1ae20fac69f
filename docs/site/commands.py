"""The page of commands, made of what the program prints as `--help`: each option is a row with an address."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

_PANEL = re.compile(r"^╭─ (\w+) ─.*?$\n(.*?)^╰─", re.MULTILINE | re.DOTALL)
_SHORT = re.compile(r"-[a-z]")
_BESIDE = 2
"""Columns of a panel are at least so many blanks apart."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One argument or option, as a panel of a help text has it."""

    name: str
    takes: str
    means: str


def commands_page(helps: Path) -> str:
    """``helps``: the folder with one text a command, which tests hold to what the program prints."""
    texts = {
        _command(text): text for path in helps.glob("*/*.txt") if (text := path.read_text("utf-8").strip("\n") + "\n")
    }
    lines = ["# Commands and options", "", "What each command takes, as its `--help` prints it.", ""]
    lines += ["| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#{_slug(name)}) | {_cell(_summary(texts[name]))} |" for name in sorted(texts)]
    for name in sorted(texts):
        lines += ["", *_section(name, texts[name])]
    return "\n".join([*lines, ""])


def _section(name: str, text: str) -> Iterator[str]:
    usage = text.split("Usage: ", 1)[1].partition("\n")[0]
    yield from (f"## {name}", "", "```text", usage, "```", "", _summary(text), "")
    for panel in _PANEL.finditer(text):
        rows = list(_rows(panel[2].splitlines()))
        yield from (f"| {panel[1].lower().removesuffix('s')} | takes | means |", "|---|---|---|")
        for row in sorted(rows, key=lambda row: row.name) if panel[1] == "Options" else rows:  # arguments have an order
            anchor = f'<a id="{_slug(name)}{row.name.split(",")[0]}"></a>' if row.name.startswith("--") else ""
            takes = f"`{row.takes}`" if row.takes else ""  # Python-Markdown does not end a cell within code
            yield f"| {anchor}`{row.name}` | {takes} | {_cell(row.means)} |"
        yield ""
    examples, codes = _ending(text)
    yield from ("```shell", *examples, "```", "", codes)


def _rows(lines: Sequence[str]) -> Iterator[_Row]:
    """A row whose text takes several lines goes on below its own beginning, and begins with blanks."""
    begun: list[list[str]] = []
    for line in lines:
        content = line.strip("│").rstrip()
        words = [word for word in re.split(rf" {{{_BESIDE},}}", content.strip().removeprefix("*").strip()) if word]
        if content.startswith((" *", " -")) or re.match(r" {3,6}\S", content):
            begun.append(words)
        else:
            begun[-1] += words
    for name, *rest in begun:
        short = rest.pop(0) if rest and _SHORT.fullmatch(rest[0]) else ""
        takes = rest.pop(0) if len(rest) > 1 and _is_type(rest[0]) else ""
        yield _Row(f"{name}, {short}" if short else name, takes, " ".join(rest))


def _is_type(word: str) -> bool:
    """Types stand in capitals or in angle brackets; what an option means begins with a lower letter."""
    return word.startswith(("<", "[")) or word.split()[0].upper() == word.split()[0]


def _command(help_text: str) -> str:
    """Its words, as its first line of usage has them between the program and what it takes."""
    words = help_text.split("Usage: reconciler ", 1)[1].split()
    return " ".join(takewhile(lambda word: not word.startswith(("[", "{")), words))


def _summary(text: str) -> str:
    return " ".join(text.split("Usage: ", 1)[1].partition("\n")[2].partition("╭─")[0].split())


def _ending(text: str) -> tuple[list[str], str]:
    """Examples, and the sentence of exit codes."""
    paragraphs = [" ".join(part.split()) for part in text.rpartition("╯")[2].split("\n\n") if part.strip()]
    examples = [part for part in paragraphs if part.startswith("reconciler ")]
    return [line for one in examples for line in _folded(one)], " ".join(p for p in paragraphs if p not in examples)


def _folded(command: str) -> Iterable[str]:
    lines = textwrap.wrap(command, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [*(f"{line} \\" for line in lines[:-1]), *lines[-1:]]


def _slug(name: str) -> str:
    return name.replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
