"""ruamel.yaml's pure Python scanner with two short cuts; the events are the same, in less than half the time.

Thousands of topics in hundreds of files are read on every validate. The C scanner is no way out: it knows YAML 1.1 only
and refuses ``[host:9092]``.
"""

from __future__ import annotations

import re
from collections import deque
from functools import cached_property
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.parser import Parser
from ruamel.yaml.scanner import Scanner, ScannerError
from ruamel.yaml.tokens import ScalarToken, Token

# A word, and proof that it ends there: a key's colon, a flow indicator, or the end of the line
_WORD = re.compile(r"[A-Za-z0-9_./-]+(?:(?=:[ \n])|(?P<flow>(?=[,\]}]))|(?P<line>(?=\n)))")
DEEPEST = 100  # deeper than ``yaml_builder`` takes; each bracket that is open makes each token after it dearer
_NEXT_LINE = re.compile(r"\n(?: *\n)*( *)(?=[^ \n])")


def fast_yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = AheadScanner
    yaml.Parser = CachingParser
    return yaml


class CachingParser(Parser):
    @cached_property
    def scanner(self) -> Any:
        return self.loader.scanner


class AheadScanner(Scanner):
    """Scans the whole text before the parser asks, and plain words by one expression instead of by characters."""

    _ahead: deque[Token] | None = None

    @cached_property
    def reader(self) -> Any:
        return self.loader.reader

    def _tokens(self) -> deque[Token]:
        if self._ahead is None:
            while not self.done:
                self.fetch_more_tokens()
                if len(self.flow_context) > DEEPEST or len(self.indents) > DEEPEST:
                    raise ScannerError("too deep", problem_mark=self.reader.get_mark())
            self._ahead = deque(self.tokens)
        return self._ahead

    def check_token(self, *choices: Any) -> bool:
        ahead = self._tokens()
        return bool(ahead) and (not choices or isinstance(ahead[0], choices))

    def peek_token(self) -> Any:
        ahead = self._tokens()
        return ahead[0] if ahead else None

    def get_token(self) -> Any:
        ahead = self._tokens()
        return ahead.popleft() if ahead else None

    def scan_plain(self) -> Any:
        reader = self.reader
        found = _WORD.match(reader.buffer, reader.pointer)
        if found is None or not self._ends(found):
            return super().scan_plain()
        start = reader.get_mark()
        length = found.end() - found.start()
        reader.pointer += length  # what forward() does for text without line breaks
        reader.index += length
        reader.column += length
        self.allow_simple_key = False
        return ScalarToken(found.group(), True, start, reader.get_mark())

    def _ends(self, found: re.Match[str]) -> bool:
        """Is the word the whole scalar, also by the rules of flow context and of scalars over several lines?"""
        if self.flow_context:
            return found.lastgroup == "flow"
        if found.lastgroup is None:
            return True
        if found.lastgroup == "flow":
            return False
        following = _NEXT_LINE.match(found.string, found.end())
        return following is not None and len(following.group(1)) <= self.indent
