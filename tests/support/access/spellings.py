"""How a secret looks in formats and encodings, to search for it in whatever was said or kept."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

CANARY = 'c4n"ry\\ %&+\u00e9<s'
"""Each of its signs looks different in JSON, in a URL, in HTML, or in a repr."""


def spellings(secret: str) -> set[str]:
    """As formats, encodings and escapes write it."""
    texts = {
        secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1],
        ascii(secret)[1:-1], quote(secret), quote(secret, safe=""), quote_plus(secret), secret.encode().hex(),
        secret.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;"),
    }  # fmt: skip
    encoded = {base64.b64encode(text.encode()).decode().rstrip("=") for text in (secret, f":{secret}", f"\0{secret}")}
    return texts | encoded


def kept(folder: Path) -> dict[str, str]:
    return {
        str(path): path.read_bytes().decode(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
