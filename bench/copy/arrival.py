"""Watches a remote topic fill: the first record, and the last one as a read_committed reader sees it.

Watermarks count transaction markers too, so they only tell that the end is near; the end itself is each partition's
last source record, read at the target. Costs the machine two small requests a look.
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from bench.copy.figures import BenchError, Clusters, Loaded
from bench.records.topics import admin_client, ends


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-arrival",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
    )


def last_values(clusters: Clusters, loaded: Loaded) -> dict[int, bytes]:
    """The value of the last record of each source partition that has one."""
    consumer = _consumer(clusters.source)
    try:
        wanted = {index for index, end in enumerate(loaded.ends) if end}
        consumer.assign([TopicPartition(loaded.topic, index, loaded.ends[index] - 1) for index in wanted])
        found: dict[int, bytes] = {}
        while wanted - found.keys():
            message = consumer.poll(30)
            if message is None or message.error() is not None:
                raise BenchError(f"{loaded.topic} could not be read: {message.error() if message else 'no answer'}")
            found.setdefault(message.partition(), message.value() or b"")
        return found
    finally:
        consumer.close()


class Arrival:
    """One remote topic. ``seen`` is the sum of its high watermarks at the last look."""

    def __init__(self, clusters: Clusters, remote_topic: str, loaded: Loaded) -> None:
        self.remote_topic = remote_topic
        self.loaded = loaded
        self.seen = 0
        self._admin = admin_client(clusters.target)
        self._missing = last_values(clusters, loaded)
        self._tails = _consumer(clusters.target)
        self._assigned: set[int] = set()

    def look(self) -> int:
        """The number of offsets at the target now; 0 while the topic does not exist."""
        try:
            found = ends(self._admin, self.remote_topic)
        except KafkaException:
            return self.seen
        self.seen = sum(found)
        for index, end in enumerate(found):
            if end >= self.loaded.ends[index] and index in self._missing and index not in self._assigned:
                # Markers only push records back, so the last one lies here or behind.
                self._tails.incremental_assign([TopicPartition(self.remote_topic, index, self.loaded.ends[index] - 1)])
                self._assigned.add(index)
        return self.seen

    def complete(self) -> bool:
        """True when the last record of every partition was read at the target."""
        for message in self._tails.consume(1000, 0.01) if self._assigned else ():
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise BenchError(f"{self.remote_topic} could not be read: {error}")
            elif self._missing.get(message.partition()) == message.value():
                del self._missing[message.partition()]
        return not self._missing

    def close(self) -> None:
        self._tails.close()
