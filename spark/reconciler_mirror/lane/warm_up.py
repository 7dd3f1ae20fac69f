"""Warms a lane up before it may copy: leaders, coordinators, connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError
from reconciler.kafka.client.transactions import Identity
from reconciler_mirror.model.lane import PartitionSpec

PAUSE_S = 1.0


async def prepare(
    partitions: Iterable[PartitionSpec],
    source: ClusterClient,
    target: ClusterClient,
    identity: Identity,
    trouble: Callable[[str, str], None],
) -> None:
    """Returns once all of it is there; tries again what may heal: ``trouble`` hears the side and why. Raises what a
    session would fail with."""
    taken = tuple(partitions)
    await asyncio.gather(
        _until_done(partial(_source, taken, source), partial(trouble, "source")),
        _until_done(partial(_target, taken, target, identity), partial(trouble, "target")),
    )


async def _until_done(work: Callable[[], Coroutine[Any, Any, None]], trouble: Callable[[str], None]) -> None:
    while True:
        try:
            await work()
            return
        except ConnectionLostError as error:
            trouble(str(error))
        except BrokerError as error:
            if not error.retriable:
                raise
            trouble(str(error))
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
