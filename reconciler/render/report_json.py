"""A report as one JSON document: common first fields, and formatting."""

from dataclasses import asdict
from typing import Any

from reconciler.text import printable_json

FORMAT_VERSION = 1


def report_json(kind: str, environment: str, **fields: Any) -> str:
    """``fields`` in their order, after the head; a dataclass among them is an object of all its fields. ``kind``: the
    word of the report's schema."""
    document = {"format_version": FORMAT_VERSION, "kind": kind, "environment": environment, **fields}
    return printable_json(document, indent=2, default=asdict) + "\n"
