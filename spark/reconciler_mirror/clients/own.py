"""Our own connections to one side of a flow, from the settings of an endpoint, and the follower of the status topic."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from reconciler.kafka.client.auth.settings import connection_settings, read_secret
from reconciler.kafka.client.cluster import ClusterClient
from reconciler.kafka.client.errors import SettingError, WireError
from reconciler.replication.handover import Endpoint, StatusPlace
from reconciler.replication.records.compacted_topic import CompactedTopic
from reconciler.replication.secret_references import resolve


def cluster_of(endpoint: Endpoint) -> ClusterClient:
    """A client without connections yet. Raises MissingReference (a LookupError), or SettingError with the cluster's
    name."""
    client = resolve(endpoint.client, os.environ, read_secret)
    try:
        settings, own = connection_settings(client), (endpoint.cluster_id, endpoint.topic_prefix, endpoint.uncompressed)
        return ClusterClient(endpoint.cluster, endpoint.bootstrap_servers, settings, *own)
    except SettingError as error:
        raise SettingError(f"cluster {endpoint.cluster}: {error}") from None


class KeptCluster:
    """A client of a cluster, kept between uses. A failed use closes it, and the next one logs in with renewed secrets,
    but only to the cluster with the id that answered first."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._cluster: ClusterClient | None = None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[ClusterClient]:
        """Raises as ``cluster_of``."""
        cluster = self._cluster = self._cluster or cluster_of(self._endpoint)
        try:
            yield cluster
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._endpoint = replace(self._endpoint, cluster_id=self._cluster.cluster_id)
        self._cluster = None


AGAIN_S, POLL_S = 1.0, 1.0
FAILURES = (WireError, LookupError, OSError, ValueError)
"""Failures of a connection, a secret reference, a file that a setting names, or the content of any."""


async def follow(
    place: StatusPlace,
    end: threading.Event,
    heard: Callable[[CompactedTopic, frozenset[str]], None],
    failed: Callable[[Exception], None],
) -> None:
    """Follows the topic until ``end`` is set. ``heard`` gets the keys with a new or deleted record, at times none; at
    first, and after each failure, the keys of all records. After a failure a new connection logs in with renewed
    secrets."""
    kept = KeptCluster(place.cluster)
    while not end.is_set():
        try:
            async with (
                kept.use() as cluster,
                aclosing((topic := CompactedTopic(cluster, place.topic)).follow()) as records,
            ):
                while not end.is_set():
                    # A silent broker must not delay the end.
                    step = asyncio.ensure_future(anext(records))
                    while not end.is_set() and not (await asyncio.wait([step], timeout=POLL_S))[0]:
                        pass
                    if not step.done():
                        step.cancel()
                        await asyncio.gather(step, return_exceptions=True)
                        break
                    heard(topic, step.result())
        except FAILURES as error:
            failed(error)
        await asyncio.sleep(0 if end.is_set() else AGAIN_S)
    kept.close()
