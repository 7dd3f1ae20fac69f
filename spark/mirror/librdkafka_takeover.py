"""Taking a flow over where only librdkafka can open connections: slower, and in three steps without a transaction.

1. Fence every transactional.id the flow can ever have had.
2. Read all positions; take a claim above every claim found. The lanes write it with their first commit.
3. The very first time: resolve the start of every partition and commit all of them in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from confluent_kafka import Producer

from mirror import clients, group_positions, positions, provenance_ground, starts
from mirror.lanes import Claim, PartitionSpec
from mirror.positions import Position
from mirror.settings import MOST_LANES, FlowSettings
from mirror.takeover import Takeover
from replication.names import position_group, transactional_id

_TIMEOUT_S = 30.0


class LibrdkafkaTakeover:
    def __init__(self, flow: FlowSettings) -> None:
        self._flow = flow

    def prepare(self) -> None:
        """Nothing: each client of librdkafka connects when it is used."""

    def take(self, application: str, specs: Sequence[PartitionSpec]) -> Takeover:
        """Raises KafkaException, LookupError (a secret reference), or NotReadyError while provenance waits."""
        flow = self._flow
        first = _fence(flow) if flow.delivery == "exactly_once" else None
        found = group_positions.read_all(flow.target, position_group(flow.name))
        claim = Claim(1 + max((position.claim.number for position in found.values()), default=0), application)
        if flow.work.provenance is not None:
            if before := provenance_ground.unmarked(found):
                provenance_ground.mark(flow, first, claim, before)
            claim = replace(claim, ground=provenance_ground.resolve(flow))
        if found:
            return Takeover(claim, None)
        others = [spec for spec in specs if (spec.topic, spec.partition) not in flow.start_offsets]
        if flow.start_kind != "earliest" and others:
            _begin(flow, first, claim, others)
        return Takeover(claim, len(specs))

    def close(self) -> None:
        """Nothing is kept."""


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


def _begin(flow: FlowSettings, producer: Producer | None, claim: Claim, specs: Sequence[PartitionSpec]) -> None:
    """All starts or none: a crash in between must not leave some partitions to a later start's idea of latest."""
    found = starts.resolve(clients.admin(flow.source), specs, flow.start_kind, flow.start_timestamp_ms, flow.isolation)
    begins = {spec: claim.ground.not_before((spec.topic, spec.partition), offset) for spec, offset in found.items()}
    hour, mark = positions.hour_now(), flow.work.first_mark
    offsets = [
        positions.as_topic_partition(
            spec.target_topic, spec.partition, Position(offset, spec.topic_id, -1, claim, hour, mark(offset))
        )
        for spec, offset in begins.items()
    ]
    group_positions.write(flow.target, position_group(flow.name), producer, offsets)
