"""Follows the status topic, where others write what they ask of a job."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from reconciler.kafka.client.errors import WireError
from reconciler.replication.handover import StatusPlace
from reconciler.replication.records.compacted_topic import CompactedTopic
from reconciler_mirror.clients.own import cluster_of

AGAIN_S, LOOK_S = 1.0, 1.0
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
    while not end.is_set():
        try:
            cluster = cluster_of(place.cluster)
            try:
                topic = CompactedTopic(cluster, place.topic)
                async with aclosing(topic.follow()) as records:
                    while (moved := await _next(anext(records), end)) is not None:
                        heard(topic, moved)
            finally:
                cluster.close()
        except FAILURES as error:
            failed(error)
        await asyncio.sleep(0 if end.is_set() else AGAIN_S)


async def _next(step: Awaitable[frozenset[str]], end: threading.Event) -> frozenset[str] | None:
    """None once ``end`` is set, also while a broker does not answer."""
    task = asyncio.ensure_future(step)
    while not end.is_set():
        if (await asyncio.wait([task], timeout=LOOK_S))[0]:
            return task.result()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return None
