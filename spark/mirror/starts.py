"""Where a partition without a position begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror.lanes import PartitionSpec

_AT_ONCE = 1000


def resolve(
    source: AdminClient,
    partitions: Sequence[PartitionSpec],
    kind: str,
    timestamp_ms: int | None,
    isolation: str = "read_committed",
) -> Mapping[PartitionSpec, int]:
    """Source offsets for ``kind`` earliest, latest or timestamp (the first record at or after it, else the end).

    Raises KafkaException when one partition cannot be answered: a start is never guessed.
    """
    match kind:
        case "earliest":
            spec = OffsetSpec.earliest()
        case "latest":
            spec = OffsetSpec.latest()
        case _:
            spec = OffsetSpec.for_timestamp(timestamp_ms or 0)
    found = _list(source, partitions, spec, isolation)
    beyond = [p for p, offset in found.items() if offset < 0]
    if beyond:
        found |= _list(source, beyond, OffsetSpec.latest(), isolation)
    return found


def _list(
    source: AdminClient, partitions: Sequence[PartitionSpec], spec: OffsetSpec, isolation: str
) -> dict[PartitionSpec, int]:
    level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    found: dict[PartitionSpec, int] = {}
    for first in range(0, len(partitions), _AT_ONCE):
        asked = {TopicPartition(p.topic, p.partition): p for p in partitions[first : first + _AT_ONCE]}
        request = dict.fromkeys(asked, spec)
        answers = source.list_offsets(request, isolation_level=level, request_timeout=15.0)
        for partition, answer in answers.items():
            found[asked[partition]] = answer.result().offset
    return found
