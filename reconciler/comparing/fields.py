"""Nouns of a topology field by field, with values as people read them. Literal secrets are never shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from reconciler.comparison import FieldChange
from reconciler.handover import shown
from reconciler.topic_configs import human, same
from reconciler.topology import Flow

Path = tuple[str, ...]
NOT_SET = "(not set)"
LOWERED = ("retention.ms", "retention.bytes")
SAME_SET = "the order of a list does not count"


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every field but the name and the place in a file. Fields without a value are left out."""
    if is_dataclass(value):
        for field in fields(value):
            if field.name != "where" and (path or field.name != "name"):
                yield from leaves(getattr(value, field.name), (*path, _yaml_name(value, field.name)))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, (*path, str(key)))
    elif value is not None:
        yield path, value.value if isinstance(value, Enum) else value


def changed_fields(before: Any, after: Any) -> Iterator[FieldChange]:
    """Values that mean the same are no change; a list in another order is one that is told to mean nothing."""
    old, new = dict(leaves(before)), dict(leaves(after))
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        if was == now or (_config(path) and same(path[-1], _text(was), _text(now))):
            continue
        same_set = isinstance(was, tuple) and isinstance(now, tuple) and set(was) == set(now)
        yield FieldChange(".".join(path), words(path, was), words(path, now), SAME_SET if same_set else "")


def whole(noun: Any) -> Iterator[FieldChange]:
    """All fields of a noun that is new."""
    for path, value in leaves(noun):
        if value not in ((), ""):
            yield FieldChange(".".join(path), "", words(path, value))


def words(path: Path, value: Any) -> str:
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(str(one) for one in value) or "none"
    if _config(path):
        return human(path[-1], str(value))
    text = shown(path, str(value))
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _yaml_name(noun: Any, field: str) -> str:
    if isinstance(noun, Flow) and field == "configs":
        return "sync_topic_configs"
    return {"class_name": "class", "prune_topics": "prune.topics"}.get(field, field)


def _config(path: Path) -> bool:
    """Kafka's topic configs, which have units and spellings."""
    return len(path) > 0 and (path[-1] in LOWERED or (len(path) > 1 and path[-2] == "configs"))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
