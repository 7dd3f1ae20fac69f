"""Looks at the batches of a span before librdkafka does, which opens each whole: what would take the memory is told.

The records themselves are read by librdkafka alone, so that a fault of the copy's own code cannot hide itself.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import closing

from reconciler.kafka.client import small_topics
from reconciler.kafka.client.cluster import LATEST, ClusterClient
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError, MalformedResponseError, WireError
from reconciler.kafka.records import codecs
from reconciler.kafka.records.batches import CODEC, CONTROL, HEADER, Batch, CorruptBatchError, scan
from reconciler.kafka.records.codecs import TooMuchToOpenError
from reconciler.kafka.records.records import records_of
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.verify.model import OffsetSpan

_MOVING_S = 30.0
"""How long a leader may be unknown, a broker away, or nothing be answered."""


class TooLargeBatchError(Exception):
    """``offset``: of the batch."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the batch at offset {offset} is more than {codecs.MOST_OPENED >> 20} MiB once decompressed")
        self.offset = offset


def require_openable(span: OffsetSpan, *, to_end: bool = False) -> None:
    """``to_end``: up to the end of the partition as it is now. Raises TooLargeBatchError for the first batch that
    becomes more than ``codecs.MOST_OPENED``, WireError or LookupError where its batches cannot be looked at."""
    asyncio.run(_look(span, to_end))


async def _look(span: OffsetSpan, to_end: bool) -> None:
    until, at = time.monotonic() + _MOVING_S, span.start
    while True:
        with closing(cluster_of(span.endpoint)) as cluster:
            try:
                place = (span.topic, span.partition)
                await small_topics.leaders(cluster, [span.topic])
                end = await _end(cluster, span) if to_end else span.end
                async for answer in small_topics.read(cluster, {place: at}, {place: end}):
                    refuse_too_large(answer.records, at)
                    after = small_topics.next_offset(answer, at)
                    if after > at:
                        at, until = after, time.monotonic() + _MOVING_S
                    elif time.monotonic() > until:
                        raise ConnectionLostError(f"nothing was read of {span.name} for {_MOVING_S:.0f} s")
                return
            except (BrokerError, ConnectionLostError) as error:
                lasts = isinstance(error, ConnectionLostError) or error.retriable
                if not lasts or time.monotonic() > until:
                    raise
        await asyncio.sleep(0.2)


async def _end(cluster: ClusterClient, span: OffsetSpan) -> int:
    place = (span.topic, span.partition)
    answer = (await cluster.list_offsets({place: LATEST}, committed=False))[place]
    if isinstance(answer, WireError):
        raise answer
    return answer


def refuse_too_large(view: memoryview, start: int) -> None:
    """Of the batches from offset ``start`` on. Raises TooLargeBatchError; what is wrong with one otherwise is left to
    whoever reads it."""
    try:
        batches = scan(view)
    except MalformedResponseError:
        return
    for batch in batches:
        if batch.next_offset <= start or (batch.magic == 2 and batch.attributes & CONTROL):
            continue
        try:
            _open(view, batch)
        except TooMuchToOpenError:
            raise TooLargeBatchError(batch.base) from None
        except (MalformedResponseError, CorruptBatchError):
            continue


def _open(view: memoryview, batch: Batch) -> None:
    if batch.magic != 2:
        records_of(view, batch)
        return
    codec, data = batch.attributes & CODEC, view[batch.start + HEADER : batch.end]
    if codecs.may_be_too_much(codec, len(data)):
        codecs.decompress(codec, data)
