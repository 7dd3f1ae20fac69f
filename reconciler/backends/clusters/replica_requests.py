"""Requests about replicas that librdkafka has no call for: reassignments (KIP-455), log dirs, elections.

Brokers pass those for the controller on to it (KRaft), so each may be sent to any broker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from reconciler.backends.connections import errors
from reconciler.backends.connections.requests import Requests
from reconciler.errors import ClusterError
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import log_dirs
from reconciler.model.replicas import Partition, ReassignmentInFlight
from reconciler.text import grouped

PREFERRED = 0
NOTHING_IN_FLIGHT = 85
TIMEOUT_MS = 30_000
PARTITIONS_PER_REQUEST = 1_000

_LIST = errors.Asked("list reassignments", "Describe", "--cluster")
_ALTER = errors.Asked("move replicas", "Alter", "--cluster")
_SIZES = errors.Asked("see the sizes of replicas", "Describe", "--cluster")
_ELECT = errors.Asked("elect preferred leaders", "Alter", "--cluster")


class ReplicaRequests(Requests):
    """Raises ClusterError."""

    def moves(self) -> tuple[ReassignmentInFlight, ...]:
        answer = self.send(_LIST, protocol.ListPartitionReassignmentsRequest, timeout_ms=TIMEOUT_MS, topics=None)
        self.check(answer.error_code, _LIST)
        return tuple(
            ReassignmentInFlight(
                topic.name,
                part.partition_index,
                tuple(part.replicas),
                tuple(part.adding_replicas),
                tuple(part.removing_replicas),
            )
            for topic in answer.topics or ()
            for part in topic.partitions
        )

    def sizes_on(
        self, brokers: Iterable[int], topics: Mapping[str, Collection[int]] | None
    ) -> dict[tuple[str, int, int], int]:
        """``topics`` None: all. A broker that does not answer is left out; a copy to another disk does not count."""
        sizes: dict[tuple[str, int, int], int] = {}
        kind = protocol.DescribeLogDirsRequest.DescribableLogDirTopic
        wanted = None if topics is None else [kind(topic=name, partitions=list(ps)) for name, ps in topics.items()]
        for broker in brokers:
            try:
                answer = self.send(_SIZES, protocol.DescribeLogDirsRequest, broker, topics=wanted)
            except ClusterError:
                continue
            self.check(log_dirs.refusal(answer), _SIZES)
            for folder in answer.results:
                for topic in folder.topics:
                    for part in topic.partitions:
                        if not part.is_future_key:
                            sizes[topic.name, part.partition_index, broker] = int(part.partition_size)
        return sizes

    def reassign(
        self, targets: Mapping[Partition, tuple[int, ...] | None], factor_changes: bool
    ) -> dict[Partition, str]:
        """What was refused. None cancels; a cancelled one that is not in flight any more is no error."""
        refused: dict[Partition, str] = {}
        every = list(targets.items())
        for start in range(0, len(every), PARTITIONS_PER_REQUEST):
            some = dict(every[start : start + PARTITIONS_PER_REQUEST])
            answer = self.send(
                _ALTER,
                protocol.AlterPartitionReassignmentsRequest,
                timeout_ms=TIMEOUT_MS,
                allow_replication_factor_change=factor_changes,  # of version 1; not sent to older brokers
                topics=_reassigned(some),
            )
            self.check(answer.error_code, _ALTER)
            for topic in answer.responses:
                for part in topic.partitions:
                    key = topic.name, part.partition_index
                    if part.error_code and not (some[key] is None and part.error_code == NOTHING_IN_FLIGHT):
                        refused[key] = f"{part.error_message or 'refused'} ({KafkaError(part.error_code).name()})"
        return refused

    def elect_preferred(self, partitions: Collection[Partition]) -> None:
        kind = protocol.ElectLeadersRequest
        answer = self.send(
            _ELECT,
            kind,
            election_type=PREFERRED,
            topic_partitions=[
                kind.TopicPartitions(topic=name, partitions=parts) for name, parts in grouped(partitions).items()
            ],
            timeout_ms=TIMEOUT_MS,
        )
        self.check(getattr(answer, "error_code", 0) or 0, _ELECT)


def _reassigned(targets: Mapping[Partition, tuple[int, ...] | None]) -> list[Any]:
    kind = protocol.AlterPartitionReassignmentsRequest.ReassignableTopic
    return [
        kind(
            name=name,
            partitions=[
                kind.ReassignablePartition(
                    partition_index=index, replicas=None if (to := targets[name, index]) is None else list(to)
                )
                for index in indexes
            ],
        )
        for name, indexes in grouped(targets).items()
    ]
