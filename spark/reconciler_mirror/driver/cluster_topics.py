"""Lists the topics of a cluster again and again, at little cost while nothing changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from reconciler.kafka.client.cluster import ClusterClient, printed_id
from reconciler.kafka.client.errors import DENIED, WireError
from reconciler.kafka.client.topic_listing import TopicListing
from reconciler.kafka.protocol.metadata_and_configs import TopicOf
from reconciler.replication.handover import Endpoint
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.driver.discovery import SourceTopic


class WireTopics:
    """Owned by one thread. Its connection stays open between two looks; it is made at the first, so that a missing
    secret is a failed read like any other."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._loop = asyncio.new_event_loop()
        self._cluster: ClusterClient | None = None
        self._listing: TopicListing | None = None
        self._told: Sequence[TopicOf] | None = None
        self._topics: Mapping[str, SourceTopic] = {}

    def topics(self) -> Mapping[str, SourceTopic]:
        """What fails is opened anew the next time: a password or a certificate may have been renewed."""
        try:
            listed = self._loop.run_until_complete(self._open().read())
        except WireError:
            self._let_go()
            raise
        if listed is not self._told:
            topics = {t.name: SourceTopic(len(t.partitions), printed_id(t.topic_id)) for t in listed if not t.error}
            self._told = listed
            self._topics = topics if topics != self._topics else self._topics
        return self._topics

    def denied(self, names: Iterable[str]) -> frozenset[str]:
        wanted = sorted(names)
        listed = self._loop.run_until_complete(self._open().of(wanted)) if wanted else ()
        return frozenset(topic.name for topic in listed if topic.error in DENIED)

    def close(self) -> None:
        self._let_go()
        self._loop.close()

    def _let_go(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
        self._cluster = self._listing = None

    def _open(self) -> TopicListing:
        if self._listing is None:
            self._cluster = cluster_of(self._endpoint)
            self._listing = TopicListing(self._cluster)
        return self._listing
