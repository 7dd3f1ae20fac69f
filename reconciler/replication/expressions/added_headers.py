"""Headers that a flow adds to each record: names, and texts with placeholders."""

import re
from dataclasses import dataclass

PLACEHOLDERS = ("source_cluster", "topic", "partition", "offset", "flow")
PROVENANCE_HEADER = "mirror.path"
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class AddedHeader:
    """``value`` as written: ``{topic}`` is a placeholder, ``{{`` and ``}}`` are braces."""

    name: str
    value: str


def fault(value: str) -> str | None:
    """The first part of ``value`` that is neither text nor a known placeholder, or None."""
    for part in _PART.finditer(value):
        if part.group() not in ("{{", "}}") and part.group(1) not in PLACEHOLDERS:
            return part.group()
    return None


def varies(value: str) -> bool:
    """Whether the value differs between records of one partition."""
    return any(part.group(1) == "offset" for part in _PART.finditer(value))


def filled(value: str, **known: object) -> str:
    """``known`` holds every placeholder. Raises KeyError for one it lacks."""

    def part(match: re.Match[str]) -> str:
        whole = match.group()
        return whole[0] if whole in ("{{", "}}") else str(known[match.group(1)])

    return _PART.sub(part, value)
