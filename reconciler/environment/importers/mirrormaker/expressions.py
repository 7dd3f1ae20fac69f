"""Lists of expressions as MirrorMaker 2 reads them: split at every comma, then joined with ``|`` into one pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.environment.importers.mirrormaker.properties_file import Property
from reconciler.environment.importers.mirrormaker.scopes import Notes, words

_CLOSES = {"(": ")", "[": "]", "{": "}"}


def expressions(prop: Property, notes: Notes) -> Iterator[str]:
    """A comma in brackets stays what MirrorMaker 2 makes of it, ``|``; in braces its pattern does not compile."""
    torn = ""
    for part in words(prop):
        if re.search(r"[\t\n\f\r]", part):
            notes.leaves_out(
                prop,
                f"has {part!a}, with a control character, so it matches nothing in MirrorMaker 2 and is left out "
                "here: one backslash begins an escape in a properties file, such as \\r and \\t; two stand for one",
            )
            continue
        text = f"{torn}|{part}" if torn else part
        if _unclosed(text).endswith("{"):
            notes.mistake(
                prop,
                f'MirrorMaker 2 splits "{prop.value.strip()}" at its commas, in braces, too, and what comes of it is '
                "no expression that it could start with. Write it without a comma, such as a|aa for a{1,2}, and "
                "import again.",
            )
            return
        torn = text if _unclosed(text) else ""
        if not torn:
            if text != part:
                notes.differs(
                    f"{prop.where}: {prop.name} is split at commas: MirrorMaker 2 reads {text}, as written here"
                )
            yield text
    if torn:
        yield torn


def _unclosed(text: str) -> str:
    """Brackets that nothing closes, outermost first."""
    opened, escaped = "", False
    for char in text:
        if escaped or char == "\\":
            escaped = not escaped
        elif opened.endswith("["):
            opened = opened.removesuffix("[") if char == "]" else opened
        elif char in _CLOSES:
            opened += char
        elif opened and char == _CLOSES[opened[-1]]:
            opened = opened[:-1]
    return opened
