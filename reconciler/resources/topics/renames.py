"""Hints at renames: a topic that git declares no longer and one like it that is new. Kafka renames nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from reconciler.model.changes import Change, CreateTopic, Role
from reconciler.model.config_values import same
from reconciler.model.environment.topology import TopicRef
from reconciler.model.live import LiveState, LiveTopic
from reconciler.text import counted

STAYS = "records and readers stay behind on {old}, which is no longer managed, and {new} begins empty"
WAY = (
    "Kafka cannot rename a topic. Let producers write to the new one, let readers finish the old one and change over,"
    " then delete the old one by a tombstone; if the old name was meant, put it back"
)


def renamed_topics(
    changes: Iterable[Change], unmanaged: Collection[TopicRef], declared_before: Collection[str], live: LiveState
) -> Iterator[str]:
    """A note for each topic that would be made and is like one that the last apply declared and git no longer does.
    ``declared_before``: ``cluster/name`` each."""
    left = [(ref, topic) for ref in unmanaged if str(ref) in declared_before and (topic := live.topic(ref))]
    new = [change for change in changes if isinstance(change, CreateTopic) and change.role is Role.DECLARED]
    pairs = [
        (ref, change) for ref, topic in left for change in new if ref.cluster == change.cluster and _like(change, topic)
    ]
    olds, news = Counter(ref for ref, _ in pairs), Counter(change.ref for _, change in pairs)
    for ref, change in pairs:
        if olds[ref] == news[change.ref] == 1:  # else nobody knows which of them it was
            alike = f"both {counted(change.partitions, 'partition')}, the same configs"
            yield (
                f"{change.ref} is new and looks like {ref} under another name ({alike}):"
                f" {STAYS.format(old=ref.name, new=change.ref.name)}. {WAY}"
            )


def _like(change: CreateTopic, topic: LiveTopic) -> bool:
    configs = {config.key: config.after for config in change.configs}
    alike = configs.keys() == topic.overrides.keys()
    return (
        change.partitions == len(topic.partitions)
        and alike
        and all(same(key, value, configs[key]) for key, value in topic.overrides.items())
    )
