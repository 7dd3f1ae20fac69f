"""A mirror's position as an ordinary client commits it: what earlier releases and people leave at the target."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicPartition
from reconciler_mirror.lane.positions import LanePosition, encode


def committed(topic: str, partition: int, position: LanePosition) -> TopicPartition:
    """``topic``: the target's."""
    more: dict[str, Any] = {} if position.leader_epoch < 0 else {"leader_epoch": position.leader_epoch}
    return TopicPartition(topic, partition, position.offset, metadata=encode((topic, partition), position), **more)
