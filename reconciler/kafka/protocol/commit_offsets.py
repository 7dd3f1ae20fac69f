"""Requests that commit offsets: inside a transaction (TxnOffsetCommit), or at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.protocol import generated as protocol


@dataclass(frozen=True, slots=True)
class OffsetToCommit:
    """A position to commit: next offset, leader epoch of the last record (-1 unknown), metadata string."""

    offset: int
    leader_epoch: int
    metadata: str


ByTopic = Mapping[str, list[tuple[int, OffsetToCommit]]]


def in_transaction(
    connection: Connection, group: str, holder: tuple[str, int, int], by_topic: ByTopic, newest: int
) -> Any:
    """``holder``: transactional.id, producer id, epoch. ``newest``: a version above 3 is for KIP-890 version 2."""
    request = protocol.TxnOffsetCommitRequest
    topic_type = request.TxnOffsetCommitRequestTopic
    transactional_id, producer_id, epoch = holder
    return request(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id=-1,
        member_id="",
        group_instance_id=None,
        topics=_topics(topic_type, topic_type.TxnOffsetCommitRequestPartition, by_topic),
        version=connection.version(request, newest),
    )


def at_once(connection: Connection, group: str, by_topic: ByTopic) -> Any:
    request = protocol.OffsetCommitRequest
    topic_type = request.OffsetCommitRequestTopic
    return request(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=_topics(topic_type, topic_type.OffsetCommitRequestPartition, by_topic),
        version=connection.version(request),
    )


def _topics(topic_type: Any, partition_type: Any, by_topic: ByTopic) -> list[Any]:
    return [
        topic_type(
            name=name,
            partitions=[
                partition_type(
                    partition_index=partition,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.leader_epoch,
                    committed_metadata=position.metadata,
                )
                for partition, position in members
            ],
        )
        for name, members in by_topic.items()
    ]
