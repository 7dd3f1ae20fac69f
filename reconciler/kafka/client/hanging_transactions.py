"""Finds and ends hanging transactions: decided, but without a marker in some partition.

A transaction coordinator that finds a partition without a leader treats it as deleted and leaves its marker out; Kafka
4.3 does so because ``KRaftMetadataCache.getPartitionLeaderEndpoint`` is empty then. Once the partition is back, readers
of committed records wait there for ever, and the next marker of the same producer decides about the old records too:
an abort would lose committed ones, a commit would bring back aborted ones.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.kafka.client.cluster import NO_LEADER, ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, BrokerError, WireError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol.producers import describe_producers as active_producers

Open = tuple[tuple[int, int], ...]
"""Producer id and epoch of each open transaction."""


class HangingTransactionError(WireError):
    """A transaction of ours hangs with an unknown result, so nothing may be written after it."""


@dataclass(frozen=True, slots=True)
class OpenByPartition:
    """``transactions``: producer id and epoch of every open one. ``unseen``: partitions without a leader."""

    transactions: Mapping[Key, Open]
    unseen: frozenset[Key]

    def of(self, producer_id: int) -> dict[Key, int]:
        """Epochs of one producer's open transactions."""
        return {
            key: epoch for key, parts in self.transactions.items() for holder, epoch in parts if holder == producer_id
        }


async def look(cluster: ClusterClient, keys: Iterable[Key]) -> OpenByPartition:
    """Asks the leaders as ``cluster.topics`` names them. Raises ConnectionLostError or BrokerError."""
    by_node = cluster.by_leader(keys)
    unseen = frozenset(by_node.pop(NO_LEADER, ()))
    by_partition: dict[Key, Open] = {}
    for node, led in by_node.items():
        answer = await active_producers.ask(await cluster.control(node), led) or {}
        for key, value in answer.items():
            if isinstance(value, tuple):
                by_partition[key] = tuple((p.producer_id, p.epoch) for p in value if p.open_from >= 0)
            elif value not in DENIED:  # without the right to read nothing can be committed there either
                raise BrokerError(value, f"open transactions of {key[0]}-{key[1]} on {cluster.name}")
    return OpenByPartition(by_partition, unseen)


async def settle(cluster: ClusterClient, keys: Iterable[Key], *identities: Identity) -> frozenset[Key]:
    """Right after ``identity.start`` of each: ends hanging transactions of their producers in the way that was decided.

    Returns partitions without a leader, which need another start before any write. Raises HangingTransactionError, and
    as ``identity``.
    """
    looked = await look(cluster, keys)

    async def end(identity: Identity) -> None:
        committed, by_decision = identity.left, {True: set[Key](), False: set[Key]()}
        for key, epoch in looked.of(identity.producer_id).items():
            decided = identity.endings.of(identity.producer_id, epoch)
            if decided is None:
                raise HangingTransactionError(
                    f"a transaction of {identity.transactional_id} (producer {identity.producer_id}, epoch {epoch})"
                    f" hangs in {key[0]}-{key[1]} on {cluster.name}: its end was decided, but its marker was never"
                    " written, and which end it was is not known any more. A record written after it would decide about"
                    " its records"
                )
            by_decision[decided].add(key)
        # The group's positions may hang with the former transaction even if no partition does.
        for decided in (True, False):
            if committed is decided or by_decision[decided]:
                await identity.finish(by_decision[decided], committed=decided)

    await asyncio.gather(*map(end, identities))
    return looked.unseen
