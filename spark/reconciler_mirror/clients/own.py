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
    """Opens nothing yet. Raises MissingReference (a LookupError), or SettingError that names the cluster."""
    client = resolve(endpoint.client, os.environ, read_secret)
    try:
        settings = connection_settings(client)
        return ClusterClient(endpoint.cluster, endpoint.bootstrap_servers, settings, endpoint.cluster_id)
    except SettingError as error:
        raise SettingError(f"cluster {endpoint.cluster}: {error}") from None


class KeptCluster:
    """One client of a cluster, kept from one use to the next. A use that fails closes it, and the next one logs in with
    renewed secrets, to no other cluster than the one that has answered."""

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
"""Of a connection, of a secret reference, of a file that a setting names."""


async def follow(
    place: StatusPlace,
    end: threading.Event,
    heard: Callable[[CompactedTopic, frozenset[str]], None],
    failed: Callable[[Exception], None],
) -> None:
    """Until ``end`` is set. ``heard`` gets the keys whose record came or went, none now and then; those of all records
    first, also after a failure: each is followed by a new connection, which logs in with renewed secrets."""
    kept = KeptCluster(place.cluster)
    while not end.is_set():
        try:
            async with (
                kept.use() as cluster,
                aclosing((topic := CompactedTopic(cluster, place.topic)).follow()) as records,
            ):
                while not end.is_set():
                    # A broker that does not answer must not keep ``end`` waiting.
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
