"""Lists the topics of a cluster again and again; a response equal to the last one is not decoded."""

import asyncio
import time
from collections.abc import Sequence

from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import ConnectionLostError
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol import metadata_and_configs as topics
from reconciler.kafka.protocol.flexible import ResponseReader
from reconciler.kafka.protocol.metadata_and_configs import TopicOf

LISTED_WITHIN = 15.0


class TopicListing:
    """``read`` returns the same object until the metadata changes, including leaders and in-sync replicas."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._last_frame = b""
        self._topics: Sequence[TopicOf] = ()

    async def read(self) -> Sequence[TopicOf]:
        """Raises WireError."""
        reader = await self._answer(None)
        frame = reader.frame[reader.at :]
        if frame != self._last_frame:
            self._topics = tuple(topics.unpack_topics(reader))
            self._last_frame = frame
        return self._topics

    async def of(self, names: Sequence[str]) -> Sequence[TopicOf]:
        """These topics, asked for by name: the answer has an error for a topic that we may not see.
        Raises WireError."""
        return topics.unpack_topics(await self._answer(names))

    async def _answer(self, names: Sequence[str] | None) -> ResponseReader:
        """A Metadata response, of which brokers and controller are taken over; topics are read by the caller as it
        needs them."""
        try:
            connection, frame = await self._ask(names)
        except ConnectionLostError:
            # The broker may have closed the connection, which was idle since the last read.
            connection, frame = await self._ask(names)
        try:
            reader, head = topics.open_metadata(frame.body)
        finally:
            frame.drop()
        connection.throttle(head.throttle)
        self._cluster.answered(head.cluster_id, connection)
        for broker in head.brokers:
            self._cluster.learn(broker.number, broker.host, broker.port)
        return reader

    async def _ask(self, names: Sequence[str] | None) -> tuple[Connection, Frame]:
        connection = await self._cluster.any_control()
        await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
        version = connection.negotiated(topics.METADATA, topics.METADATA_LOWEST, topics.METADATA_NEWEST, "Metadata")
        return connection, await connection.send(
            (topics.METADATA, version, True), [topics.pack_metadata(names)], LISTED_WITHIN
        )
