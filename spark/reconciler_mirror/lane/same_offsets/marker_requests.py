"""What the target's leaders are asked of markers that the lane writes itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from reconciler.kafka.client import log_ends
from reconciler.kafka.client.cluster import NO_LEADER, ClusterClient, Key, by_topic
from reconciler.kafka.client.errors import BrokerError, FencedError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol.producers import describe_producers
from reconciler.kafka.protocol.producers.write_markers import UNSUPPORTED, Epochs, write_markers
from reconciler_mirror.lane.same_offsets.own_markers import NO_LEADER_KNOWN

PRODUCER_FENCED = 90
MARKERS_WITHIN = 35.0
"""Longer than a leader waits for its replicas (``request.timeout.ms`` of brokers, 30 s)."""


class MarkerRequests:
    """Of one target. ``producer_id``: that of the markers, which no data is written with; ``identity``: the session."""

    def __init__(self, cluster: ClusterClient, producer_id: int, identity: Identity) -> None:
        self._cluster = cluster
        self._producer_id = producer_id
        self._identity = identity

    async def require_current(self) -> None:
        """Raises FencedError where another session has begun since, or nobody can say, and ConnectionLostError."""
        state = await self._identity.state()
        holder = (self._identity.producer_id, self._identity.epoch)
        if state is None or (state.producer_id, state.epoch) != holder:
            raise FencedError(PRODUCER_FENCED, f"transactional id {self._identity.transactional_id}")

    async def last_markers(self, keys: Iterable[Key]) -> Mapping[Key, Epochs | BrokerError]:
        """Raises ConnectionLostError."""
        by_node = self._cluster.by_leader(keys)
        last: dict[Key, Epochs | BrokerError] = {
            key: BrokerError(NO_LEADER_KNOWN, f"markers of {key[0]}-{key[1]}") for key in by_node.pop(NO_LEADER, ())
        }
        for node, led in by_node.items():
            answers = await describe_producers.ask(await self._cluster.control(node), by_topic(led)) or {}
            for key in led:
                producers = answers.get(key, UNSUPPORTED)
                last[key] = (
                    BrokerError(producers, f"markers of {key[0]}-{key[1]}")
                    if isinstance(producers, int)
                    else self._last(producers)
                )
        return last

    def _last(self, producers: describe_producers.Producers) -> Epochs:
        for producer in producers:
            if producer.producer_id == self._producer_id:
                return Epochs(producer.epoch, producer.coordinator_epoch)
        return Epochs()

    async def ends(self, keys: Iterable[Key]) -> Mapping[Key, int | BrokerError]:
        """Raises ConnectionLostError."""
        return await log_ends.log_ends(self._cluster, keys)

    async def write_markers(self, markers: Mapping[Key, Epochs]) -> Mapping[Key, int]:
        """Raises ConnectionLostError: then they may have been written, or be written yet."""
        by_node = self._cluster.by_leader(markers)
        errors = dict.fromkeys(by_node.pop(NO_LEADER, ()), NO_LEADER_KNOWN)
        writing = (self._write_at(node, {key: markers[key] for key in led}) for node, led in by_node.items())
        for written in await asyncio.gather(*writing):
            errors |= written
        return errors

    async def _write_at(self, node: int, markers: Mapping[Key, Epochs]) -> Mapping[Key, int]:
        connection = await self._cluster.connection(node, "fill")
        return await write_markers(connection, self._producer_id, markers, MARKERS_WITHIN)
