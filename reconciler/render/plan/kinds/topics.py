"""Changes of topics in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from reconciler.model.changes import (
    AddPartitions,
    AlterConfigs,
    Change,
    ConfigChange,
    CreateTopic,
    DeleteTopic,
    TopicChange,
)
from reconciler.model.config_values import human
from reconciler.model.live import Source
from reconciler.render.plan.kinds.words import SHOWN, FieldValues, Words
from reconciler.text import counted

FEW = 2
"""Configs that a headline names with their values."""
_TAKEN_OVER = "and {} configs at what the source's brokers have by default (use_defaults_from: source)"


@dataclass(frozen=True, slots=True)
class OutlinedValue:
    """One config in words. ``before`` is empty for a topic that is new; ``by`` is empty where origins differ. Without
    ``after``: several keys, of which ``by`` tells the same."""

    key: str
    before: str
    before_source: str
    after: str
    by: str

    def __str__(self) -> str:
        if not self.after:
            return f"{self.by}: {self.key}"
        by = f" ({self.by})" if self.by else ""
        before = f": {self.before} ({self.before_source}) ->" if self.before else " ="
        return f"{self.key}{before} {self.after}{by}"


def _headline(change: TopicChange, why: str) -> str:
    match change:
        case CreateTopic():
            return f"create, {change.shape}{why}"
        case AddPartitions():
            return f"partitions {change.before} -> {change.after}{why}"
        case AlterConfigs():
            return f"{_config_words(change.configs)}{why}"
        case DeleteTopic():
            return f"DELETE, {counted(change.partitions, 'partition')}{why}"
        case _:
            assert_never(change)


def _config_words(configs: Sequence[ConfigChange]) -> str:
    """A few with their values: they are what the change is."""
    if len(configs) > FEW:
        return counted(len(configs), "config")
    return ", ".join(map(_short, configs))


def _short(config: ConfigChange) -> str:
    before = human(config.key, config.before) if config.before else "(not set)"
    return f"{config.key} {before} -> {'no override' if config.after is None else human(config.key, config.after)}"


def _signature(change: TopicChange) -> object:
    match change:
        case CreateTopic():
            return "create", change.partitions, change.replication_factor, _values(change.configs), change.reason.code
        case AddPartitions():
            return "grow", change.before, change.after, change.reason.code
        case AlterConfigs():
            return "configs", _values(change.configs), change.reason.code
        case DeleteTopic():
            return change
        case _:
            assert_never(change)


def _lines(changes: Sequence[TopicChange]) -> Iterator[str]:
    first = changes[0]
    if isinstance(first, DeleteTopic):
        until = f"; the tombstone counts until {first.expires}" if first.expires else ""
        yield f"topic id {first.topic_id}{until}"
    yield from map(str, outlined_values(changes))


def outlined_values(changes: Sequence[Change]) -> Iterator[OutlinedValue]:
    """The configs of changes with one signature; none of other changes."""
    first = changes[0]
    if not isinstance(first, CreateTopic | AlterConfigs):
        return
    usual = _defaults_taken_over(first)
    for index, config in enumerate(first.configs):
        origins = {other.configs[index].origin for other in changes if isinstance(other, type(first))}
        if config not in usual:
            yield _value(config, config.origin if len(origins) == 1 else "")
    if usual:
        yield OutlinedValue(", ".join(config.key for config in usual), "", "", "", _TAKEN_OVER.format(len(usual)))


def _defaults_taken_over(change: CreateTopic | AlterConfigs) -> tuple[ConfigChange, ...]:
    """What ``use_defaults_from: source`` writes on a new topic though nobody at the source chose it. Told in one line
    where they are many: twenty of them hide the few that somebody chose."""
    fresh = [config for config in change.configs if config.before is None and not config.before_source]
    configs = tuple(config for config in fresh if config.origin.endswith(f", {Source.BUILT_IN.value}"))
    return configs if len(configs) > SHOWN else ()


def _value(change: ConfigChange, by: str) -> OutlinedValue:
    fresh = change.before is None and not change.before_source
    before = "" if fresh else human(change.key, change.before)
    after = "remove the override" if change.after is None else human(change.key, change.after)
    by = ", ".join(part for part in (by, "in no file" if change.undeclared else "") if part)
    return OutlinedValue(change.key, before, change.before_source, after, by)


def _values(configs: Sequence[ConfigChange]) -> tuple[tuple[str, str | None, str, str | None, bool], ...]:
    return tuple(
        (config.key, config.before, config.before_source, config.after, config.undeclared) for config in configs
    )


def _fields(change: TopicChange) -> Iterator[FieldValues]:
    match change:
        case CreateTopic():
            yield FieldValues("", "", change.shape)
        case AddPartitions():
            yield FieldValues("partitions", f"{change.before:,}", f"{change.after:,}")
        case DeleteTopic():
            yield FieldValues("", counted(change.partitions, "partition"), "")
        case AlterConfigs():
            pass
        case _:
            assert_never(change)
    for value in outlined_values([change]):
        before = f"{value.before} ({value.before_source})" if value.before_source else value.before
        yield FieldValues(value.key, before, value.after or value.by)


TOPICS: Words[TopicChange] = Words("topic", lambda change: change.ref.name, _headline, _signature, _lines, _fields)
