"""What a lane can do before it may copy: learn leaders and coordinators, and open every connection it will need."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mirror.lanes import PartitionSpec
from wire.cluster import Cluster
from wire.errors import BrokerError, ConnectionLostError
from wire.transactions import Identity

PAUSE_S = 1.0


async def prepare(partitions: Iterable[PartitionSpec], source: Cluster, target: Cluster, identity: Identity) -> None:
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


async def _source(partitions: tuple[PartitionSpec, ...], source: Cluster) -> None:
    await source.refresh({spec.topic for spec in partitions})
    nodes = {leader.node for spec in partitions if (leader := source.leader(spec.topic, spec.partition))}
    await _connect(source, nodes, ("fetch", "control"))


async def _target(partitions: tuple[PartitionSpec, ...], target: Cluster, identity: Identity) -> None:
    await target.refresh({one.target_topic for one in partitions})
    nodes = {leader.node for one in partitions if (leader := target.leader(one.target_topic, one.partition))}
    await identity.prepare()
    await _connect(target, nodes, ("produce",))


async def _connect(cluster: Cluster, nodes: Iterable[int], purposes: tuple[str, ...]) -> None:
    await asyncio.gather(*(cluster.connection(node, what) for node in nodes if node >= 0 for what in purposes))
