"""Parses MirrorMaker 2's properties files for import: Java's format, each property with its line.

A value keeps trailing spaces, as in Java.
"""

import codecs
import re
from dataclasses import dataclass, replace

from reconciler.errors import Where

_NEWLINE = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_HEX = re.compile(r"[0-9A-Fa-f]{4}")
_TAKEN_AS_IT_IS = re.compile(
    r"(.+[.])?(clusters|enabled|bootstrap\.servers|(topics|groups)(\.exclude|\.blacklist)?|security\.protocol"
    r"|sasl\.mechanism|replication\.(factor|policy\.class|policy\.separator)|source\.cluster\.alias|isolation\.level)"
)
_IN_QUOTES = re.compile(r"""(["'])(.*)\1""", re.DOTALL)
_UNFIT = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SPACES = re.compile("[\t\n\f\r\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Property:
    """``where``: the line on which it begins."""

    name: str
    value: str
    where: Where


@dataclass(frozen=True, slots=True)
class Mistake:
    """Why a file cannot be imported: ``words`` are sentences, and hold no value of a secret."""

    where: Where
    words: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


def decoded(content: bytes) -> str:
    """Decodes UTF-8 if valid, else ISO 8859-1, which accepts any bytes; UTF-16 with a byte order mark, as written by
    Windows shells."""
    try:
        if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return content.decode("utf-16")
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def parse(file: str, text: str) -> tuple[tuple[Property, ...], tuple[Mistake, ...]]:
    """Properties in line order, with duplicates. An unreadable line is a mistake, and the rest is still parsed."""
    props: list[Property] = []
    mistakes: list[Mistake] = []
    lines = enumerate(_NEWLINE.split(text), start=1)
    for number, first in lines:
        content = first.lstrip(_BLANK)
        if not content or content[0] in "#!":
            continue
        # An odd number of trailing backslashes continues the line: the last one is not escaped.
        parts = []
        while (len(content) - len(content.rstrip("\\"))) % 2:
            parts.append(content[:-1])
            content = next(lines, (0, ""))[1].lstrip(_BLANK)
        line = "".join([*parts, content])
        if not line:
            continue

        where = Where(file, number, 1)
        # The key ends before the first blank, = or : that no backslash escapes (java.util.Properties).
        end = 0
        while end < len(line) and line[end] not in "=:" + _BLANK:
            end += 2 if line[end] == "\\" else 1
        value = line[end:].lstrip(_BLANK)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANK)
        try:
            prop = Property(_unescaped(line[:end]), _unescaped(value), where)
        except ValueError as error:
            mistakes.append(Mistake(where, f"{error}. Java refuses the whole file. Write \\u and four hex digits."))
            continue
        if _UNFIT.search(prop.name + prop.value) or _SPACES.search(prop.name):
            mistakes.append(Mistake(where, "a control character. No setting of MirrorMaker 2 has one. Remove it."))
            continue
        props.append(prop)
    return tuple(props), tuple(mistakes)


def uncommented(prop: Property) -> Property:
    """The property without a trailing # comment, for settings that cannot contain one; in Java it is part of the value.
    The same property without a comment."""
    value, mark, _ = prop.value.partition(" #")
    return replace(prop, value=value.strip()) if mark and _TAKEN_AS_IT_IS.fullmatch(prop.name) else prop


def unquoted(prop: Property) -> Property:
    """The property without quotes around the value, or each part of a list, for settings that cannot contain quotes; in
    Java they are part of the value. The same property without quotes."""
    if not _TAKEN_AS_IT_IS.fullmatch(prop.name):
        return prop
    value = prop.value.strip()
    parts = [value] if re.fullmatch(r"""(["'])((?!\1).)*\1""", value) else value.split(",")
    matches = [_IN_QUOTES.fullmatch(part.strip()) for part in parts]
    if not any(matches):
        return prop
    plain = [match[2] if match else part.strip() for match, part in zip(matches, parts, strict=True)]
    return replace(prop, value=",".join(plain))


def _unescaped(text: str) -> str:
    """As java.util.Properties reads escapes: an unknown one is the character itself. Raises ValueError for a Unicode
    escape without four hex digits."""
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\":
            parts.append(char)
            continue
        char, at = text[at : at + 1], at + 1
        if char == "u":
            digits = _HEX.match(text, at)
            if digits is None:
                raise ValueError("\\u without four hex digits")
            parts.append(chr(int(digits.group(), 16)))
            at = digits.end()
        else:
            parts.append(_ESCAPES.get(char, char))
    # Java's characters are of 16 bits: two escapes may be one character
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
