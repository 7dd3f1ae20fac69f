"""A report as one JSON document: what every one of them begins with, and how it is laid out."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

FORMAT_VERSION = 1


def report_json(kind: str, environment: str, **fields: Any) -> str:
    """``fields`` in their order, after the head; a dataclass among them is an object of all its fields. ``kind``: the
    word of the report's schema."""
    document = {"format_version": FORMAT_VERSION, "kind": kind, "environment": environment, **fields}
    return json.dumps(document, indent=2, ensure_ascii=False, default=asdict) + "\n"
