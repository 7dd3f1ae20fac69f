"""The topics of a cluster for who looks again and again: our own connection sees cheaply that nothing changed."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping, Sequence

from mirror.connecting import cluster_of
from mirror.discovery import Topic
from mirror.lanes import Endpoint
from wire.cluster import Cluster
from wire.errors import DENIED, WireError
from wire.listing import TopicListing
from wire.topics import TopicOf

_NO_ID = bytes(16)


class WireTopics:
    """Owned by one thread. Its connection stays open between two looks; it is made at the first, so that a missing
    secret is a failed read like any other."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._loop = asyncio.new_event_loop()
        self._cluster: Cluster | None = None
        self._listing: TopicListing | None = None
        self._told: Sequence[TopicOf] | None = None
        self._topics: Mapping[str, Topic] = {}

    def topics(self) -> Mapping[str, Topic]:
        """What fails is opened anew the next time: a password or a certificate may have been renewed."""
        try:
            told = self._loop.run_until_complete(self._read())
        except WireError:
            self._let_go()
            raise
        if told is not self._told:
            found = {one.name: Topic(len(one.partitions), _printed(one.topic_id)) for one in told if not one.error}
            self._told = told
            self._topics = found if found != self._topics else self._topics
        return self._topics

    def topic_ids(self, names: Iterable[str]) -> Mapping[str, str]:
        return {name: self._topics[name].topic_id for name in names if name in self._topics}

    def denied(self, names: Iterable[str]) -> frozenset[str]:
        wanted = sorted(names)
        told = self._loop.run_until_complete(self._of(wanted)) if wanted else ()
        return frozenset(one.name for one in told if one.error in DENIED)

    def close(self) -> None:
        self._let_go()
        self._loop.close()

    def _let_go(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._listing = None

    async def _read(self) -> Sequence[TopicOf]:
        return await self._open().read()

    async def _of(self, names: Sequence[str]) -> Sequence[TopicOf]:
        return await self._open().of(names)

    def _open(self) -> TopicListing:
        if self._listing is None:
            self._cluster = cluster_of(self._endpoint)
            self._listing = TopicListing(self._cluster)
        return self._listing


def _printed(topic_id: bytes) -> str:
    """As Kafka prints it."""
    return "" if topic_id == _NO_ID else base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
