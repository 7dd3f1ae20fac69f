"""All positions of a position group at once: read from a cluster, or committed there in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Producer, TopicPartition

from mirror import clients, positions
from mirror.discovery import LiveCluster
from mirror.lanes import Endpoint
from mirror.positions import Position

_TIMEOUT_S = 30.0
_AT_ONCE = 10_000


def read_all(endpoint: Endpoint, group_name: str) -> Mapping[tuple[str, int], Position]:
    """Everything the group holds, also of topics that are not mirrored any more: asked for every partition there is.

    Not by AdminClient.list_consumer_group_offsets: librdkafka 2.16 crashes the process when the coordinator moves or
    loads meanwhile (rd_kafka_cgrp_op on a client that has no group). Raises KafkaException.
    """
    listed = LiveCluster(endpoint).topics()
    there = [(name, n) for name, topic in sorted(listed.items()) for n in range(topic.partitions)]
    found: dict[tuple[str, int], Position] = {}
    with closing(clients.position_consumer(endpoint, group_name)) as group:
        for first in range(0, len(there), _AT_ONCE):
            found |= positions.read(group, there[first : first + _AT_ONCE], _TIMEOUT_S)
    return found


def write(endpoint: Endpoint, group_name: str, producer: Producer | None, offsets: Sequence[TopicPartition]) -> None:
    """In one transaction of ``producer``, which stays open; without one in a plain commit. Raises KafkaException."""
    with closing(clients.position_consumer(endpoint, group_name)) as group:
        if producer is None:
            group.commit(offsets=list(offsets), asynchronous=False)
            return
        producer.begin_transaction()
        producer.send_offsets_to_transaction(list(offsets), group.consumer_group_metadata(), _TIMEOUT_S)
        producer.commit_transaction(_TIMEOUT_S)
