"""Keeps the offset map from growing for ever: what it says of records that the source has deleted is taken out.

A group that stands before the source's log start goes on at that start, and so it does by what is left. The last chunk
of a partition always stays: positions behind the last record need it.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection

from replication.names import OFFSETS_TOPIC
from replication.offset_map_codec import ChunkError, decode_key, end_of
from wire import logs
from wire.batches import CONTROL, scan
from wire.cluster import Cluster, Key
from wire.fetch_answers import FetchedPartition
from wire.records import key_and_value, records_of

Extents = dict[Key, dict[int, tuple[bytes, int]]]
"""Source partition -> beginning of a chunk -> its key and its end."""


def place_of(flow: str, key: Key, count: int) -> int:
    """The map's partition, of ``count``, that holds the chunks of a source partition."""
    return zlib.crc32(f"{flow}/{key[0]}/{key[1]}".encode()) % count


async def prune(source: Cluster, target: Cluster, flow: str, keys: Collection[Key]) -> int:
    """Deletes chunks of source partitions ``keys`` that lie before the source's log start; returns how many.

    Raises BrokerError or ConnectionLostError; doing it again does no harm.
    """
    await logs.leaders(source, sorted({topic for topic, _ in keys}))
    starts = await logs.begins(source, list(keys))
    await logs.leaders(target, [OFFSETS_TOPIC])
    count = len(target.topics[OFFSETS_TOPIC].leaders)
    parts = [(OFFSETS_TOPIC, n) for n in sorted({place_of(flow, key, count) for key in keys})]
    begins, ends = await logs.begins(target, parts), await logs.ends(target, parts)
    found: Extents = {key: {} for key in keys}
    async for answer in logs.read(target, begins, ends):
        _note(answer, flow, found)
    gone: dict[int, list[logs.KeyValue]] = {}
    for key, chunks in found.items():
        last = max(chunks, default=0)
        due = [name for begin, (name, end) in chunks.items() if begin != last and end <= starts[key]]
        if due:
            gone.setdefault(place_of(flow, key, count), []).extend((name, None) for name in due)
    if gone:
        await logs.append(target, OFFSETS_TOPIC, gone)
    return sum(map(len, gone.values()))


def _note(answer: FetchedPartition, flow: str, found: Extents) -> None:
    prefix = f"{flow}/".encode()
    for batch in scan(answer.records):
        if batch.attributes & CONTROL:
            continue
        for record in records_of(answer.records, batch):
            name, value = key_and_value(record)
            if name is None or not name.startswith(prefix):
                continue
            try:
                _, topic, partition, begin = decode_key(name)
                chunks = found.get((topic, partition))
                if chunks is None:
                    continue
                if value is None:
                    chunks.pop(begin, None)
                else:
                    chunks[begin] = (name, end_of(name, value))
            except ChunkError:
                continue  # of a later release, which prunes it
