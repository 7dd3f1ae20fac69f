"""Names that anybody may have chosen, such as principals, users and groups, as one word of a sentence."""

from __future__ import annotations

import json


def quoted(text: str) -> str:
    """``text`` in JSON's quotes. Nothing in it can end the line, move the cursor or hide: what does not print is told
    by its number. Two texts never read alike."""
    told = json.dumps(text, ensure_ascii=False)
    return told if told.isprintable() else "".join(_seen(each) for each in told)


def _seen(each: str) -> str:
    return each if each.isprintable() else json.dumps(each)[1:-1]
