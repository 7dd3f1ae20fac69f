"""Transactions that were decided and never marked, found and put right before anything is written behind them.

A transaction coordinator that finds a partition without a leader takes it for deleted and leaves its marker out; Kafka
4.3 does so because ``KRaftMetadataCache.getPartitionLeaderEndpoint`` is empty then. Once the partition is back, readers
of committed records wait there for ever, and the next marker of the same producer decides about the old records too:
an abort would lose committed ones, a commit would bring back aborted ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wire import active_producers
from wire.cluster import NO_LEADER, Cluster, Key
from wire.errors import DENIED, BrokerError, WireError
from wire.transactions import Identity


class HangingTransactionError(WireError):
    """A transaction of ours hangs and how it ended is not known: nothing may be written behind it."""


@dataclass(frozen=True, slots=True)
class Looked:
    """``transactions``: producer id and epoch of every open one. ``unseen``: partitions without a leader."""

    transactions: Mapping[Key, active_producers.Open]
    unseen: frozenset[Key]

    def of(self, producer_id: int) -> dict[Key, int]:
        """Epochs of one producer's open transactions."""
        return {
            key: epoch for key, found in self.transactions.items() for holder, epoch in found if holder == producer_id
        }


async def look(cluster: Cluster, keys: Iterable[Key]) -> Looked:
    """Asks the leaders as ``cluster.topics`` names them. Raises ConnectionLostError or BrokerError."""
    by_node: dict[int, dict[str, list[int]]] = {}
    unseen: set[Key] = set()
    for topic, partition in keys:
        leader = cluster.leader(topic, partition)
        if leader is None or leader.node == NO_LEADER:
            unseen.add((topic, partition))
        else:
            by_node.setdefault(leader.node, {}).setdefault(topic, []).append(partition)
    found: dict[Key, active_producers.Open] = {}
    for node, topics in by_node.items():
        for key, told in (await _ask(cluster, node, topics)).items():
            if isinstance(told, tuple):
                found[key] = told
            elif told not in DENIED:  # without the right to read nothing can be committed there either
                raise BrokerError(told, f"open transactions of {key[0]}-{key[1]} on {cluster.name}")
    return Looked(found, frozenset(unseen))


async def settle(identity: Identity, cluster: Cluster, keys: Iterable[Key]) -> frozenset[Key]:
    """Right after ``identity.start``: ends what hangs of its producer as it was decided.

    Gives the partitions without a leader: before anything is written there, start again. Raises
    HangingTransactionError, and what ``identity`` raises.
    """
    looked = await look(cluster, keys)
    await _settle(identity, cluster, looked)
    return looked.unseen


async def settle_all(identities: Iterable[Identity], cluster: Cluster, keys: Iterable[Key]) -> None:
    """``settle`` for many producers of the same partitions."""
    looked = await look(cluster, keys)
    await asyncio.gather(*(_settle(identity, cluster, looked) for identity in identities))


async def _settle(identity: Identity, cluster: Cluster, looked: Looked) -> None:
    left, by_decision = identity.left, {True: set[Key](), False: set[Key]()}
    for key, epoch in looked.of(identity.producer_id).items():
        decided = identity.endings.of(identity.producer_id, epoch)
        if decided is None:
            raise HangingTransactionError(_unknown(identity, cluster, key, epoch))
        by_decision[decided].add(key)
    for decided in (True, False):
        if left is decided or by_decision[decided]:
            await identity.finish(by_decision[decided], committed=decided)


def _unknown(identity: Identity, cluster: Cluster, key: Key, epoch: int) -> str:
    return (
        f"a transaction of {identity.transactional_id} (producer {identity.producer_id}, epoch {epoch}) hangs in "
        f"{key[0]}-{key[1]} on {cluster.name}: its end was decided, but its marker was never written, and which end it "
        "was is not known any more. What is written behind it would decide about its records"
    )


async def _ask(
    cluster: Cluster, node: int, topics: Mapping[str, list[int]]
) -> Mapping[Key, int | active_producers.Open]:
    connection = await cluster.control(node)
    _, newest = connection.versions.get(active_producers.DESCRIBE_PRODUCERS, (0, -1))
    if newest < active_producers.VERSION:
        return {}
    api = (active_producers.DESCRIBE_PRODUCERS, active_producers.VERSION, True)
    frame = await connection.send(api, [active_producers.pack(topics)])
    try:
        throttle, found = active_producers.unpack(frame.body)
    finally:
        frame.drop()
    connection.throttle(throttle)
    return found
