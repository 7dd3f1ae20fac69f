"""Answers of brokers in bytes."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from kafka.protocol.metadata import MetadataResponse

from reconciler.kafka.protocol.metadata_and_configs import (
    TopicOf,
)


def versions_answer(correlation: int, error: int = 0) -> bytes:
    """ApiVersions 3: the header stays without tags (KIP-511)."""
    keys = b"".join(struct.pack(">hhhb", key, 0, 13, 0) for key in (0, 1, 3, 17, 18, 36))
    body = struct.pack(">h", error) + bytes([7]) + keys + struct.pack(">ib", 0, 0)
    return struct.pack(">i", correlation) + body


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def frame(answer: Any) -> memoryview:
    """A flexible header in front of the body."""
    return memoryview(struct.pack(">i", 9) + b"\0" + bytes(answer.encode()))


def metadata(found: list[TopicOf], version: int) -> memoryview:
    kind = MetadataResponse.MetadataResponseTopic
    broker = MetadataResponse.MetadataResponseBroker
    brokers = [
        broker(node_id=1, host="a", port=9092, rack=None),
        broker(node_id=2, host="b", port=9093, rack="rack"),
    ]
    told = [
        kind(
            error_code=topic.error,
            name=topic.name,
            topic_id=uuid.UUID(bytes=topic.topic_id),
            is_internal=topic.internal,
            partitions=[
                kind.MetadataResponsePartition(
                    error_code=0,
                    partition_index=part.number,
                    leader_id=part.leader,
                    leader_epoch=4,
                    replica_nodes=list(part.replicas),
                    isr_nodes=list(part.isr),
                    offline_replicas=[7],
                )
                for part in topic.partitions
            ],
        )
        for topic in found
    ]
    answer = MetadataResponse(
        throttle_time_ms=5, brokers=brokers, cluster_id="c", controller_id=1, topics=told, version=version
    )
    return frame(answer)
