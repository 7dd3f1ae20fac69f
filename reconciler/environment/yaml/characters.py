"""Characters that only look like a space, a quote or a hyphen, and invisible ones.

They come from web pages and word processors. In quotes and comments they may be intended.
"""

import re
import unicodedata
from collections.abc import Iterator

from reconciler.environment.yaml.nodes import Entry, Mapping, Node, Scalar, Sequence
from reconciler.errors import Problem, Where

_BLANKS = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
_QUOTES = "\u2018-\u201f\u00ab\u00bb\u2039\u203a"
_DASHES = "\u2010-\u2015\u2212"
_SIGNS = "\uff1a\uff0c\u3001"
"""Colon and commas of East Asian keyboards."""
_STRAY = re.compile(f"[{_BLANKS}{_INVISIBLE}{_QUOTES}{_DASHES}]")
_IN_PLAIN_TEXT = re.compile(rf"[{_BLANKS}{_INVISIBLE}]|^[{_QUOTES}]|(?<![^\S\n])[{_DASHES}](?!\s)")
_BREAKS = re.compile(f"[{_BLANKS}{_INVISIBLE}{_QUOTES}{_SIGNS}]")
_COMMENT = re.compile(r"(^|\s)#.*")


def named(char: str) -> str:
    """``U+00A0 (no-break space)``: a reader cannot distinguish it from another character by its looks."""
    return f"U+{ord(char):04X} ({unicodedata.name(char, 'without a name').lower()})"


def foreign(text: str) -> str:
    """Names of the non-ASCII characters in ``text``, which names in Kafka never have; empty without any."""
    return ", ".join(named(char) for char in dict.fromkeys(text) if not char.isascii())


def strays(file: str, text: str, root: Node | None) -> Iterator[Problem]:
    """Problems of such characters in keys and unquoted text. ``text``: the whole file; ``root``: its parsed part."""
    if root is not None and _STRAY.search(text):
        yield from _below(file, root)


def breaking(file: str, text: str, line: int) -> Problem | None:
    """The last such character before the parser gave up in ``line``: it may be what broke the text."""
    for number, content in reversed(list(enumerate(text.split("\n")[:line], 1))):
        if match := _BREAKS.search(_COMMENT.sub("", content)):
            return _problem(Where(file, number, match.start() + 1), match.group())
    return None


def _below(file: str, node: Node) -> Iterator[Problem]:
    """Only keys, and text without quotes: in quotes such a character is intended."""
    match node:
        case Mapping(entries):
            for key, entry in entries.items():
                if match := _STRAY.search(key):
                    yield _problem(_place(file, entry, key, match.start()), match.group())
                yield from _below(file, entry.value)
        case Sequence(items):
            for item in items:
                yield from _below(file, item)
        case Scalar(text, plain) if plain and (match := _IN_PLAIN_TEXT.search(text)):
            yield _problem(_place(file, node, text, match.start()), match.group())


def _place(file: str, node: Scalar | Entry, text: str, offset: int) -> Where:
    return Where(file, node.line, node.column + offset) if "\n" not in text else Where(file, node.line, node.column)


def _problem(where: Where, char: str) -> Problem:
    """The problem, by the look of the character, since that is how it got there."""
    if re.match(f"[{_QUOTES}]", char):
        why, todo = "YAML reads it as a letter of the text and not as a quote", "Write ' or \" instead"
    elif re.match(f"[{_SIGNS}]", char):
        sign = ":" if char == "\uff1a" else ","
        why, todo = f"YAML reads it as a letter of the text and not as {sign}", f"Write {sign} and a space instead"
    elif re.match(f"[{_DASHES}]", char):
        why, todo = "It looks like a hyphen, and no name in Kafka has it", "Write - instead, or quote the text"
    elif re.match(f"[{_BLANKS}]", char):
        why, todo = "It looks like a space, and YAML does not read it as one", "Type a space instead, or quote the text"
    else:
        why, todo = "It does not show, and a name with it is another name", "Remove it, or quote the text"
    return Problem("yaml-character", where, f"the character {named(char)} in text without quotes", why, todo)
