"""Declared values as named fields, in the words that people read. Literal secrets are never shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from reconciler.model.config_values import human, same
from reconciler.model.environment.flows import AccessSync, Groups, MirrorMakerTopics
from reconciler.model.environment.topology import Cluster, Flow, Mirror, Topic
from reconciler.model.replicas import ReassignmentPace
from reconciler.model.reports.edit import FieldChange
from reconciler.replication.handover import Start
from reconciler.resources.flows.names.normalise import in_one_order
from reconciler.resources.mirrors.handover import shown

Path = tuple[str, ...]
NOT_SET = "(not set)"
LOWERED = ("retention.ms", "retention.bytes")
SAME_SET = "the order of a list does not count"
SAME_NAMES = "the order of alternatives does not count"
_EXPRESSIONS = {"topics", "exclude_topics", "exclude", "include"}
_MILLISECONDS = {"interval", "heartbeats_interval", "refresh_interval", "status_interval"}
_BYTES = {"throttle_bytes_per_second", "bytes_in_flight", "rate_limit"}
_YAML_NAMES: dict[tuple[type, str], str] = {
    (AccessSync, "enabled"): "sync",
    (Cluster, "prune_topics"): "prune.topics",
    (Flow, "configs"): "sync_topic_configs",
    (Flow, "headers"): "headers.add",
    (Flow, "moved_from"): "moved",
    (Flow, "selection"): "where",
    (Groups, "interval_ms"): "interval",
    (Mirror, "refresh_interval_ms"): "refresh_interval",
    (Mirror, "status_interval_ms"): "status_interval",
    (MirrorMakerTopics, "heartbeats"): "heartbeats_interval",
    (MirrorMakerTopics, "internal_separator"): "internal_topic_separator",
    (MirrorMakerTopics, "offset_syncs"): "offset_syncs_location",
    (ReassignmentPace, "throttle"): "throttle_bytes_per_second",
    (Start, "timestamp_ms"): "timestamp",
    (Topic, "class_name"): "class",
}


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
        yield FieldChange(".".join(path), words(path, was), words(path, now), _only_order(path, was, now))


def whole(noun: Any) -> Iterator[FieldChange]:
    """What a noun that is new says itself; what it leaves to the defaults is left out."""
    own = {field.name for field in fields(noun) if field.default is MISSING and field.default_factory is MISSING}
    plain = dict(leaves(replace(noun, **dict(_defaults(noun)))))
    for path, value in leaves(noun):
        if value not in ((), "") and (path[0] in own or plain.get(path) != value):
            yield FieldChange(".".join(path), "", words(path, value))


def words(path: Path, value: Any) -> str:
    if value is None:
        return NOT_SET
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value) or "none"
    if _config(path):
        return human(path[-1], str(value))
    if path[-1] in _MILLISECONDS:
        return human(".ms", str(value))
    if path[-1] in _BYTES:
        return human(".bytes", str(value))
    text = shown(path, str(value))
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _defaults(noun: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(noun):
        if field.default_factory is not MISSING:
            yield field.name, field.default_factory()
        elif field.default is not MISSING:
            yield field.name, field.default


def _only_order(path: Path, was: Any, now: Any) -> str:
    """Why two lists mean the same, or empty."""
    if not isinstance(was, tuple) or not isinstance(now, tuple):
        return ""
    if set(was) == set(now):
        return SAME_SET
    expressions = path[-1] in _EXPRESSIONS and all(isinstance(item, str) for item in (*was, *now))
    return SAME_NAMES if expressions and in_one_order(was) == in_one_order(now) else ""


def _yaml_name(noun: Any, field: str) -> str:
    return _YAML_NAMES.get((type(noun), field), field)


def _config(path: Path) -> bool:
    """Kafka's topic configs, which have units and spellings."""
    return len(path) > 0 and (path[-1] in LOWERED or (len(path) > 1 and path[-2] == "configs"))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
