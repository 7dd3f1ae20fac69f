"""The few admin calls a benchmark needs, over confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench.copy.figures import BenchError


def admin_client(bootstrap: str) -> AdminClient:
    """Silent about topics that come and go, which is what a benchmark makes them do."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})


def topic_id(admin: AdminClient, topic: str) -> str | None:
    """The topic's id, or None when there is no such topic."""
    try:
        description = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    except KafkaException:
        return None
    return str(description.topic_id)


def partition_count(admin: AdminClient, topic: str) -> int:
    """0 while there is no such topic or it has no leader yet."""
    found = admin.list_topics(topic, timeout=30).topics.get(topic)
    if found is None or found.error is not None or any(part.leader < 0 for part in found.partitions.values()):
        return 0
    return len(found.partitions)


def ends(admin: AdminClient, topic: str) -> list[int]:
    """High watermark of each partition; empty while there is no such topic."""
    count = partition_count(admin, topic)
    if count == 0:
        return []
    asked = admin.list_offsets({TopicPartition(topic, index): OffsetSpec.latest() for index in range(count)})
    found = {part.partition: future.result(30).offset for part, future in asked.items()}
    return [found[index] for index in range(count)]


def create_topic(admin: AdminClient, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Returns when the topic has leaders. Raises BenchError."""
    try:
        admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs))])[topic].result(60)
    except KafkaException as error:
        raise BenchError(f"topic {topic} could not be created: {error}") from error
    _until(lambda: partition_count(admin, topic) == partitions, f"topic {topic} has no leaders")


def delete_topics(admin: AdminClient, topics: Iterable[str]) -> None:
    """Deletes those that exist; returns when they are gone."""
    names = [name for name in topics if topic_id(admin, name) is not None]
    if not names:
        return
    for name, future in admin.delete_topics(names).items():
        try:
            future.result(60)
        except KafkaException as error:
            raise BenchError(f"topic {name} could not be deleted: {error}") from error
    _until(lambda: all(topic_id(admin, name) is None for name in names), "deleted topics are still there")


def topics_of(admin: AdminClient, aliases: Collection[str]) -> list[str]:
    """Every topic that a run with these aliases made: remote topics and MirrorMaker 2's internal ones."""
    return [name for name in admin.list_topics(timeout=30).topics if not set(aliases).isdisjoint(name.split("."))]


def _until(done: object, otherwise: str, seconds: float = 60) -> None:
    assert callable(done)
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise BenchError(f"{otherwise} after {seconds:.0f} s")
        time.sleep(0.05)
