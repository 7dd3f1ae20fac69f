"""Requests about replicas that librdkafka has no call for (KIP-455, KIP-113, KIP-460), by kafka-python's protocol.

Brokers pass those for the controller on to it (KRaft), so each may be sent to any broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.asking import AskingWire
from reconciler.errors import ClusterError
from reconciler.replicas import Move, Partition, by_topic

PREFERRED = 0
NOTHING_IN_FLIGHT = 85
TIMEOUT_MS = 30_000
PARTITIONS_PER_REQUEST = 1_000

_LIST = errors.Asked("list reassignments", "Describe", "--cluster")
_ALTER = errors.Asked("move replicas", "Alter", "--cluster")
_SIZES = errors.Asked("see the sizes of replicas", "Describe", "--cluster")
_ELECT = errors.Asked("elect preferred leaders", "Alter", "--cluster")


class ReplicaWire(AskingWire):
    """Raises ClusterError."""

    def __enter__(self) -> ReplicaWire:
        super().__enter__()
        return self

    def moves(self) -> tuple[Move, ...]:
        answer = self._told("reassignments", ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=None))
        self._check(answer.error_code, _LIST)
        return tuple(
            Move(
                topic.name,
                part.partition_index,
                tuple(part.replicas),
                tuple(part.adding_replicas),
                tuple(part.removing_replicas),
            )
            for topic in answer.topics or ()
            for part in topic.partitions
        )

    def sizes(
        self, brokers: Iterable[int], topics: Mapping[str, Collection[int]] | None
    ) -> dict[tuple[str, int, int], int]:
        """``topics`` None: all. A broker that does not answer is left out; a copy to another disk does not count."""
        found: dict[tuple[str, int, int], int] = {}
        kind = DescribeLogDirsRequest.DescribableLogDirTopic
        wanted = None if topics is None else [kind(topic=name, partitions=list(ps)) for name, ps in topics.items()]
        for broker in brokers:
            request = DescribeLogDirsRequest(topics=wanted)
            try:
                answer = self._told("sizes", request, broker)
            except ClusterError:
                continue
            self._check(getattr(answer, "error_code", 0) or 0, _SIZES)
            for folder in answer.results:
                for topic in folder.topics:
                    for part in topic.partitions:
                        if not part.is_future_key:
                            found[topic.name, part.partition_index, broker] = int(part.partition_size)
        return found

    def reassign(
        self, targets: Mapping[Partition, tuple[int, ...] | None], factor_changes: bool
    ) -> dict[Partition, str]:
        """What was refused. None cancels; a cancelled one that is not in flight any more is no error."""
        refused: dict[Partition, str] = {}
        every = list(targets.items())
        for start in range(0, len(every), PARTITIONS_PER_REQUEST):
            some = dict(every[start : start + PARTITIONS_PER_REQUEST])
            answer = self._told("a reassignment", self._request(some, factor_changes))
            self._check(answer.error_code, _ALTER)
            for topic in answer.responses:
                for part in topic.partitions:
                    key = topic.name, part.partition_index
                    if part.error_code and not (some[key] is None and part.error_code == NOTHING_IN_FLIGHT):
                        refused[key] = f"{part.error_message or 'refused'} ({KafkaError(part.error_code).name()})"
        return refused

    def elect_preferred(self, partitions: Collection[Partition]) -> None:
        kind = ElectLeadersRequest.TopicPartitions
        topics = [kind(topic=name, partitions=parts) for name, parts in by_topic(partitions).items()]
        request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=topics, timeout_ms=TIMEOUT_MS)
        answer = self._told("an election", request)
        self._check(getattr(answer, "error_code", 0) or 0, _ELECT)

    def _request(self, targets: Mapping[Partition, tuple[int, ...] | None], factor_changes: bool) -> Any:
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        topics = [
            kind(
                name=name,
                partitions=[
                    kind.ReassignablePartition(
                        partition_index=index,
                        replicas=None if (to := targets[name, index]) is None else list(to),
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(targets).items()
        ]
        fields: dict[str, Any] = {"timeout_ms": TIMEOUT_MS, "topics": topics}
        if not factor_changes and self._highest("AlterPartitionReassignments") >= 1:
            fields["allow_replication_factor_change"] = False
        return AlterPartitionReassignmentsRequest(**fields)

    def _highest(self, api: str) -> int:
        """The newest version the brokers speak; 0 where they do not tell."""
        return next((version for name, version in self.apis().items() if name.lower() == api.lower()), 0)
