"""All topics of a cluster for somebody who looks again and again: an answer that says the same as the last one is not
decoded. The answer's size is the cluster's; comparing it costs next to nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from wire import topics
from wire.cluster import Cluster
from wire.compact import Reader
from wire.connection import Connection
from wire.errors import ConnectionLostError
from wire.frames import Frame
from wire.topics import TopicOf

PATIENCE = 15.0


class TopicListing:
    """``read`` gives the very same object until something changed; a leader or in-sync replica counts as something."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._told = b""
        self._topics: Sequence[TopicOf] = ()

    async def read(self) -> Sequence[TopicOf]:
        """Raises WireError."""
        reader = await self._answer(None)
        told = reader.frame[reader.at :]
        if told != self._told:
            self._topics = tuple(topics.unpack_topics(reader))
            self._told = told
        return self._topics

    async def of(self, names: Sequence[str]) -> Sequence[TopicOf]:
        """What is told of these when they are asked for by name: a topic we may not see has an error of its own then.
        Raises WireError."""
        return topics.unpack_topics(await self._answer(names))

    async def _answer(self, names: Sequence[str] | None) -> Reader:
        try:
            connection, frame = await self._ask(names)
        except ConnectionLostError:
            # The broker may have closed a connection that lay idle since the last look.
            connection, frame = await self._ask(names)
        try:
            reader, head = topics.open_metadata(frame.body)
        finally:
            frame.drop()
        connection.throttle(head.throttle)
        for broker in head.brokers:
            self._cluster.learn(broker.number, broker.host, broker.port)
        return reader

    async def _ask(self, names: Sequence[str] | None) -> tuple[Connection, Frame]:
        connection = await self._cluster.any_control()
        await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
        version = connection.negotiated(topics.METADATA, topics.METADATA_LOWEST, topics.METADATA_NEWEST, "Metadata")
        return connection, await connection.send(
            (topics.METADATA, version, True), [topics.pack_metadata(names)], PATIENCE
        )
