"""Warms a lane up before it may copy: leaders, coordinators, connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler.kafka.client.transactions import Identity
from reconciler_mirror.model import PartitionSpec

PAUSE_S = 1.0


async def prepare(
    partitions: Iterable[PartitionSpec], source: ClusterClient, target: ClusterClient, identity: Identity
) -> None:
    """Returns once all of it is there; tries again what may heal. Raises what a session would fail with."""
    taken = tuple(partitions)
    while True:
        try:
            await asyncio.gather(_source(taken, source), _target(taken, target, identity))
            return
        except ConnectionLostError:
            pass
        except BrokerError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(PAUSE_S)


async def _source(partitions: tuple[PartitionSpec, ...], source: ClusterClient) -> None:
    await source.refresh({spec.topic for spec in partitions})
    nodes = source.by_leader((spec.topic, spec.partition) for spec in partitions)
    await _connect(source, nodes, ("fetch", "control"))


async def _target(partitions: tuple[PartitionSpec, ...], target: ClusterClient, identity: Identity) -> None:
    await target.refresh({spec.target_topic for spec in partitions})
    nodes = target.by_leader((spec.target_topic, spec.partition) for spec in partitions)
    await identity.prepare()
    await _connect(target, nodes, ("produce",))


async def _connect(cluster: ClusterClient, nodes: Iterable[int], purposes: tuple[str, ...]) -> None:
    await asyncio.gather(
        *(cluster.connection(node, description) for node in nodes if node >= 0 for description in purposes)
    )
