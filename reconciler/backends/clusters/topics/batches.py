"""Cuts topic changes into batches that fit into one request. Pure functions.

KRaft refuses a request that would write more than 10,000 metadata records (POLICY_VIOLATION, "excessively large"); half
of that leaves room for records that the controller adds. A request never mixes kinds of change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from reconciler.model.changes import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, TopicChange
from reconciler.model.plan import Planned

RECORDS_PER_REQUEST = 5_000
BROKER_DEFAULT_PARTITIONS = 50
"""Assumed partitions of a topic without a count: the broker's num.partitions is not read."""


@dataclass(frozen=True, slots=True)
class PlannedTopicChange:
    """A planned change of a topic: ``Planned`` with the kind of change narrowed."""

    id: str
    change: TopicChange


def topic_items(changes: Sequence[Planned]) -> tuple[PlannedTopicChange, ...]:
    """Raises ValueError for a change that is not one of a topic."""
    items = []
    for planned in changes:
        change = planned.change
        if not isinstance(change, TopicChange):
            raise ValueError(f"{planned.id} is no change of a topic")
        items.append(PlannedTopicChange(planned.id, change))
    return tuple(items)


def records_of(change: TopicChange) -> int:
    """Upper bound of metadata records that the controller writes for it."""
    match change:
        case CreateTopic():
            partitions = change.partitions if change.partitions > 0 else BROKER_DEFAULT_PARTITIONS
            return 1 + partitions + len(change.configs)
        case AddPartitions():
            return max(1, change.after - change.before)
        case AlterConfigs():
            return max(1, len(change.configs))
        case DeleteTopic():
            return 1 + max(1, change.partitions)
        case _:
            assert_never(change)


def steps(change: TopicChange, limit: int = RECORDS_PER_REQUEST) -> Iterator[TopicChange]:
    """Splits a change into changes that each fit into one request: a topic with too many partitions is created with
    fewer, and then grown."""
    match change:
        case CreateTopic() if change.partitions > limit:
            yield replace(change, partitions=limit)
            grown = AddPartitions(change.ref, "", limit, change.partitions, change.role, change.reason, change.depth)
            yield from steps(grown, limit)
        case AddPartitions() if change.after - change.before > limit:
            between = change.before + limit
            yield replace(change, after=between)
            yield from steps(replace(change, before=between), limit)
        case _:
            yield change


def rank_of(change: TopicChange) -> int:
    """Order of kinds: topics are created, then grown, then configured."""
    return (CreateTopic, AddPartitions, AlterConfigs, DeleteTopic).index(type(change))


def cut(
    items: Sequence[PlannedTopicChange], limit: int = RECORDS_PER_REQUEST
) -> Iterator[tuple[PlannedTopicChange, ...]]:
    """Batches of one kind and at most ``limit`` records; one larger change goes alone. Order within a kind is kept.

    No batch names a topic twice: KRaft refuses the repeated ones.
    """
    ordered = sorted(items, key=lambda item: rank_of(item.change))
    batch: list[PlannedTopicChange] = []
    names: set[str] = set()
    records = 0
    for item in ordered:
        size, name = records_of(item.change), item.change.ref.name
        full = records + size > limit or name in names
        if batch and (full or rank_of(item.change) != rank_of(batch[-1].change)):
            yield tuple(batch)
            batch, names, records = [], set(), 0
        batch.append(item)
        names.add(name)
        records += size
    if batch:
        yield tuple(batch)
