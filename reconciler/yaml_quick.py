"""Plain YAML straight to nodes, in a tenth of the parser's time: what nearly every file of a topology consists of.

Border: all or nothing. Block and flow collections, plain words and simple quotes are read here; whatever is rarer, and
every text with a problem in it, is None and goes through the whole parser, which alone finds and words problems. Where
this module answers, its answer is the parser's.
"""

from __future__ import annotations

import re

from reconciler.yaml_nodes import Entry, Mapping, Node, Scalar, Sequence, ambiguous

DEPTH = 20
SIZE = 100_000
LONGEST_KEY = 1_000

_RARE = re.compile("[\t\r\x7f-\x9f\u2028\u2029\ufeff]|^\\.\\.\\.", re.MULTILINE)
_WORD = r"(?:[A-Za-z0-9_./^(+$]|-(?=[A-Za-z0-9_./]))(?:[A-Za-z0-9_./*+^$()|\\@=%~<>-]|:(?=[A-Za-z0-9_./*]))*"
_QUOTED = r""""(?P<double>[^"\\\n]*)"|'(?P<single>[^'\n]*)'"""
_OVER = r"(?: *| +\#[^\n]*)(?:\n|\Z)"

_BEGIN = re.compile(r"(?: *\n|\#[^\n]*\n)*--- *\n")
_BLANK = re.compile(r"(?: *(?:\#[^\n]*)?\n)*")
_INDENT = re.compile(r"( *)(\#[^\n]*\Z)?")
_ITEM = re.compile(r"- +(?=[^ \n#-]|-[^ \n])")
_KEY = re.compile(rf"(?:(?P<plain>{_WORD})|{_QUOTED}):(?: +(?=[^ \n#])|(?P<over>{_OVER}))")
_VALUE = re.compile(rf"(?:(?P<plain>{_WORD}(?:,? {_WORD})*)|{_QUOTED}){_OVER}")
_END = re.compile(_OVER)
_TOKEN = re.compile(rf"(?P<plain>{_WORD})|{_QUOTED}|[\[\]{{}},]")
_FLOW_KEY = re.compile(rf"(?:(?P<plain>{_WORD})|{_QUOTED}): +(?=[^ \n#])")
_FLOW_NEXT = re.compile(r" *(?:(?P<comma>,) *(?=[^ \n#])|(?P<close>[\]}]))")
_WORDS = re.compile(rf"\[ *(?P<words>{_WORD}(?: *, *{_WORD})*) *\]")
_PLAIN = re.compile(_WORD)
_GAP = re.compile(r"(?:[ \n]+(?:\#[^\n]*(?=\n))?)*")


def quickly(text: str) -> Node | None:
    """The tree of a text without problems, or None: ask the whole parser."""
    if _RARE.search(text):
        return None
    try:
        return _Quick(text).document()
    except _RareError:
        return None


class _RareError(Exception):
    """Something that is not for this module."""


class _Quick:
    """A cursor: ``at`` in the text, in line ``line`` (from 1), which begins at ``begin``. ``indent`` is that of the
    content line which the cursor reached last, -1 at the end."""

    __slots__ = ("at", "begin", "indent", "line", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.begin = 0
        self.line = 1
        self.indent = -1

    def document(self) -> Node:
        if first := _BEGIN.match(self.text):
            self._pass(first.end())
        self._next_line()
        if self.indent != 0:
            raise _RareError
        found = self._mapping(0, 0)
        if self.indent != -1 or found.size > SIZE:
            raise _RareError
        return found

    def _pass(self, end: int) -> None:
        """Goes on to ``end``, over lines."""
        breaks = self.text.count("\n", self.at, end)
        if breaks:
            self.line += breaks
            self.begin = self.text.rfind("\n", self.at, end) + 1
        self.at = end

    def _next_line(self) -> None:
        """From the beginning of a line to the next content."""
        blank = _BLANK.match(self.text, self.at)
        if blank is not None and blank.end() > self.at:
            self._pass(blank.end())
        spaces = _INDENT.match(self.text, self.at)
        assert spaces is not None
        self.at = spaces.end(1)
        self.indent = -1 if spaces.end() == len(self.text) else self.at - self.begin

    def _block(self, depth: int) -> Node:
        if depth > DEPTH:
            raise _RareError
        return self._sequence(depth) if self.text.startswith("- ", self.at) else self._mapping(self.indent, depth)

    def _mapping(self, indent: int, depth: int) -> Mapping:
        line, column, size = self.line, self.at - self.begin + 1, 1
        entries: dict[str, Entry] = {}
        while True:
            found = _KEY.match(self.text, self.at)
            if found is None:
                raise _RareError
            key, _ = _content(found)
            if key in entries or len(key) > LONGEST_KEY:
                raise _RareError
            here, place = self.line, self.at - self.begin + 1
            if found["over"] is None:
                self.at = found.end()
                value = self._inline(depth)
            else:
                self._pass(found.end())
                value = self._below(indent, depth)
            if self.indent > indent:
                raise _RareError
            entries[key] = Entry(key, value, here, place)
            size += 1 + value.size
            if self.indent < indent:
                return Mapping(entries, line, column, size)

    def _below(self, indent: int, depth: int) -> Node:
        """The value of a key with nothing behind it in its line."""
        self._next_line()
        if self.indent > indent or (self.indent == indent and self.text.startswith("- ", self.at)):
            return self._block(depth + 1)
        raise _RareError  # an empty value

    def _sequence(self, depth: int) -> Sequence:
        indent, line, column = self.indent, self.line, self.at - self.begin + 1
        items: list[Node] = []
        while True:
            found = _ITEM.match(self.text, self.at)
            if found is None:
                return Sequence(tuple(items), line, column, 1 + sum(item.size for item in items))
            self.at = found.end()
            if _KEY.match(self.text, self.at):
                if depth > DEPTH:
                    raise _RareError
                items.append(self._mapping(self.at - self.begin, depth + 1))
            else:
                items.append(self._inline(depth))
            if self.indent > indent:
                raise _RareError
            if self.indent < indent:
                return Sequence(tuple(items), line, column, 1 + sum(item.size for item in items))

    def _inline(self, depth: int) -> Node:
        """A value that begins in this line, and all of its last line."""
        if self.text[self.at] in "[{":
            value: Node = self._flow(depth + 1)
            found = _END.match(self.text, self.at)
        else:
            found = _VALUE.match(self.text, self.at)
            if found is None:
                raise _RareError
            value = self._scalar(found)
        if found is None:
            raise _RareError
        self._pass(found.end())
        self._next_line()
        return value

    def _scalar(self, found: re.Match[str]) -> Scalar:
        text, plain = _content(found)
        if plain and ambiguous(text):
            raise _RareError
        return Scalar(text, plain, self.line, self.at - self.begin + 1)

    def _token(self) -> re.Match[str]:
        found = _TOKEN.match(self.text, self.at)
        if found is None:
            raise _RareError
        return found

    def _over_gap(self, end: int) -> None:
        gap = _GAP.match(self.text, end)
        end = gap.end() if gap is not None else end
        if "\n" in self.text[self.at : end]:
            self._pass(end)
        self.at = end

    def _flow(self, depth: int) -> Node:
        if depth > DEPTH:
            raise _RareError
        mapping = self.text[self.at] == "{"
        return self._flow_mapping(depth) if mapping else self._flow_sequence(depth)

    def _flow_value(self, depth: int) -> Node:
        if self.text.startswith(("[", "{"), self.at):
            return self._flow(depth + 1)
        found = self._token()
        if found.lastgroup is None:
            raise _RareError
        value = self._scalar(found)
        self.at = found.end()
        return value

    def _goes_on(self, close: str) -> bool:
        """After an item: a comma, or the end."""
        if (found := _FLOW_NEXT.match(self.text, self.at)) is not None:  # in this line, as nearly always
            if (found["close"] or close) != close:
                raise _RareError
            self.at = found.end()
            return found["close"] is None
        self._over_gap(self.at)
        mark = self.text[self.at : self.at + 1]
        if mark not in (",", close) or not mark:
            raise _RareError
        self.at += 1
        if mark == ",":
            self._over_gap(self.at)
        return mark == ","

    def _flow_sequence(self, depth: int) -> Sequence:
        line, column = self.line, self.at - self.begin + 1
        if (found := _WORDS.match(self.text, self.at)) is not None:
            return self._words(found)
        items: list[Node] = []
        self._over_gap(self.at + 1)
        if self.text.startswith("]", self.at):
            self.at += 1
            return Sequence((), line, column, 1)
        while True:
            items.append(self._flow_value(depth))
            if not self._goes_on("]"):
                return Sequence(tuple(items), line, column, 1 + sum(item.size for item in items))

    def _words(self, found: re.Match[str]) -> Sequence:
        """Plain words in one line."""
        words = list(_PLAIN.finditer(self.text, *found.span("words")))
        if any(ambiguous(word[0]) for word in words):
            raise _RareError
        self.at = found.end()
        items = tuple(Scalar(word[0], True, self.line, word.start() - self.begin + 1) for word in words)
        return Sequence(items, self.line, found.start() - self.begin + 1, 1 + len(items))

    def _flow_mapping(self, depth: int) -> Mapping:
        line, column, size = self.line, self.at - self.begin + 1, 1
        entries: dict[str, Entry] = {}
        self._over_gap(self.at + 1)
        if self.text.startswith("}", self.at):
            self.at += 1
            return Mapping({}, line, column, 1)
        while True:
            here, place = self.line, self.at - self.begin + 1
            key = self._flow_key()
            if key in entries or len(key) > LONGEST_KEY:
                raise _RareError
            value = self._flow_value(depth)
            entries[key] = Entry(key, value, here, place)
            size += 1 + value.size
            if not self._goes_on("}"):
                return Mapping(entries, line, column, size)

    def _flow_key(self) -> str:
        """A key with its colon, to where the value begins."""
        if (quick := _FLOW_KEY.match(self.text, self.at)) is not None:
            self.at = quick.end()
            return _content(quick)[0]
        found = self._token()
        if found.lastgroup is None or not self.text.startswith((": ", ":\n"), found.end()):
            raise _RareError
        self._over_gap(found.end() + 1)
        return _content(found)[0]


def _content(found: re.Match[str]) -> tuple[str, bool]:
    """The text of a scalar, and whether it has no quotes."""
    plain, double, single = found["plain"], found["double"], found["single"]
    if plain is not None:
        return plain, True
    return (single if double is None else double), False
