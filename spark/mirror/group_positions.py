"""All positions of a position group at once, read from a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

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
