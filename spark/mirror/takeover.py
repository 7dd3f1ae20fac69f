"""How an application takes a flow over, before any lane is leased.

1. Fence every transactional.id the flow can ever have had, so that nothing of an earlier application can commit
   (exactly-once flows; an at-least-once lane looks for a later claim before each commit instead).
2. Read all positions of the flow; take a claim above every claim found.
3. The very first time (no positions at all), and if the flow starts at latest or a timestamp: resolve the start of
   every partition and commit all of them in one transaction. Whatever has no position after this appeared later and is
   copied from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Producer

from mirror import clients, positions, starts
from mirror.discovery import LiveCluster
from mirror.lanes import Claim, PartitionSpec
from mirror.positions import Position
from mirror.settings import MOST_LANES, FlowSettings
from replication.names import position_group, transactional_id

_TIMEOUT_S = 30.0
_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Takeover:
    """``started`` counts the partitions whose start was resolved now; None when the flow has run before."""

    claim: Claim
    started: int | None


def take_over(flow: FlowSettings, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
    """Raises KafkaException when a step cannot be done; it is safe to begin again.

    ``specs`` are all partitions the flow mirrors now; they matter for the first start only.
    """
    first = _fence(flow) if flow.delivery == "exactly_once" else None
    found = _all_positions(flow)
    claim = Claim(1 + max((position.claim.number for position in found.values()), default=0), application)
    if found:
        return Takeover(claim, None)
    if flow.start_kind != "earliest" and specs:
        _begin(flow, first, claim, specs)
    return Takeover(claim, len(specs))


def _fence(flow: FlowSettings) -> Producer:
    """Every id up to the most lanes a flow may have: an earlier application may have had more lanes than this one.

    Gives the producer of lane 0, still open. Costs about 3 ms of CPU an id.
    """

    def fence(lane: int) -> Producer:
        producer = clients.fencing_producer(flow.target, transactional_id(flow.name, lane))
        producer.init_transactions(_TIMEOUT_S)
        return producer

    with ThreadPoolExecutor(MOST_LANES) as pool:
        producers = list(pool.map(fence, range(MOST_LANES)))
    return producers[0]


def _all_positions(flow: FlowSettings) -> Mapping[tuple[str, int], Position]:
    """Everything the group holds, also of topics that are not mirrored any more: asked for every partition there is.

    Not by AdminClient.list_consumer_group_offsets: librdkafka 2.16 crashes the process when the coordinator moves or
    loads meanwhile (rd_kafka_cgrp_op on a client that has no group).
    """
    listed = LiveCluster(flow.target).topics()
    there = [(name, n) for name, topic in sorted(listed.items()) for n in range(topic.partitions)]
    found: dict[tuple[str, int], Position] = {}
    with closing(clients.position_consumer(flow.target, position_group(flow.name))) as group:
        for first in range(0, len(there), _AT_ONCE):
            found |= positions.read(group, there[first : first + _AT_ONCE], _TIMEOUT_S)
    return found


def _begin(flow: FlowSettings, producer: Producer | None, claim: Claim, specs: Sequence[PartitionSpec]) -> None:
    """All starts or none: a crash in between must not leave some partitions to a later start's idea of latest."""
    found = starts.resolve(clients.admin(flow.source), specs, flow.start_kind, flow.start_timestamp_ms, flow.isolation)
    hour = positions.hour_now()
    offsets = [
        positions.as_topic_partition(
            spec.target_topic, spec.partition, Position(offset, spec.topic_id, -1, claim, hour)
        )
        for spec, offset in found.items()
    ]
    with closing(clients.position_consumer(flow.target, position_group(flow.name))) as group:
        if producer is None:
            group.commit(offsets=offsets, asynchronous=False)
            return
        producer.begin_transaction()
        producer.send_offsets_to_transaction(offsets, group.consumer_group_metadata(), _TIMEOUT_S)
        producer.commit_transaction(_TIMEOUT_S)
