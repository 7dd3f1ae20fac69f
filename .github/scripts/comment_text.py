"""What the words of others may do in a comment. For the scripts that speak to GitHub or GitLab; no packages needed."""

from __future__ import annotations

import json
import re


def fenced(text: str, limit: int) -> str:
    """As it is, in a fence that nothing in it can close; at most ``limit`` characters of it."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}text\n{text.strip()[:limit]}\n{ticks}\n"


def quoted(name: str) -> str:
    """For a hidden line, as the reconciler writes it: no name ends it."""
    return json.dumps(name).replace("<", "\\u003c").replace(">", "\\u003e")


def shown(name: str) -> str:
    """On the page it can be read, and does nothing else: a folder of somebody's edit may have any name."""
    if re.fullmatch(r"[\w.-]+", name):
        return name
    return f"<code>{''.join(char if char.isalnum() else f'&#{ord(char)};' for char in name)}</code>"
