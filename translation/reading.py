"""The offset map of a flow, read from ``__mirror_offsets`` on its target, and kept up to date."""

from __future__ import annotations

from collections.abc import Mapping

from replication.offset_map import PartitionMap
from wire.cluster import Cluster, Key


class MapReader:
    """Reads what lanes have written; a lane writes within a second or two after each commit.

    ``target`` is an open ``wire.Cluster``; everything runs on its event loop.
    """

    def __init__(self, target: Cluster, flow: str) -> None:
        self._target = target
        self._flow = flow

    async def refresh(self, patience: float = 30.0) -> None:
        """Reads on from where the last call ended, to the end. Raises ConnectionLostError, BrokerError."""
        raise NotImplementedError

    def partition(self, topic: str, partition: int) -> PartitionMap:
        """``topic``: the *source* topic. An empty map when nothing is known of it."""
        raise NotImplementedError

    def partitions(self) -> Mapping[Key, PartitionMap]:
        """By source topic and partition."""
        raise NotImplementedError
