"""The topic of the offset map on a target: which partition holds a chunk; appends chunks, and prunes them.

Pruning removes what the map says of records that the source has deleted. A group with an offset before the source's log
start goes on at that start; the rest of the map gives the same. The last chunk of a partition always stays: positions
behind the last record need it.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.replication.names import OFFSETS_TOPIC
from reconciler.replication.offsets.codec import ChunkError, decode_key, end_of

Extents = dict[Key, dict[int, tuple[bytes, int]]]
"""Source partition -> beginning of a chunk -> its key and its end."""


def place_of(flow: str, key: Key, count: int) -> int:
    """The map's partition, of ``count``, that holds the chunks of a source partition."""
    return zlib.crc32(f"{flow}/{key[0]}/{key[1]}".encode()) % count


async def partitions(target: ClusterClient) -> list[Key]:
    """Of the topic. Raises BrokerError, also when it is not there, or ConnectionLostError."""
    await logs.leaders(target, [OFFSETS_TOPIC])
    return [(OFFSETS_TOPIC, number) for number in target.topics[OFFSETS_TOPIC].leaders]


async def append(target: ClusterClient, flow: str, chunks: Mapping[Key, Sequence[logs.KeyValue]]) -> None:
    """``chunks`` by source partition; a value None deletes one. Raises BrokerError or ConnectionLostError."""
    count = len(await partitions(target))
    records: dict[int, list[logs.KeyValue]] = {}
    for key, members in chunks.items():
        records.setdefault(place_of(flow, key, count), []).extend(members)
    await logs.append(target, OFFSETS_TOPIC, records)


async def prune(source: ClusterClient, target: ClusterClient, flow: str, keys: Collection[Key]) -> int:
    """Deletes chunks of source partitions ``keys`` that lie before the source's log start; returns how many.

    Raises BrokerError or ConnectionLostError; doing it again does no harm.
    """
    await logs.leaders(source, sorted({topic for topic, _ in keys}))
    starts = await logs.begins(source, list(keys))
    count = len(await partitions(target))
    parts = [(OFFSETS_TOPIC, n) for n in sorted({place_of(flow, key, count) for key in keys})]
    by_partition: Extents = {key: {} for key in keys}
    prefix = f"{flow}/".encode()
    async for name, value in logs.read_whole(target, parts):
        if name.startswith(prefix):
            _note(name, value, by_partition)
    gone: dict[Key, list[logs.KeyValue]] = {}
    for key, chunks in by_partition.items():
        last = max(chunks, default=0)
        if due := [name for begin, (name, end) in chunks.items() if begin != last and end <= starts[key]]:
            gone[key] = [(name, None) for name in due]
    if gone:
        await append(target, flow, gone)
    return sum(map(len, gone.values()))


def _note(name: bytes, value: bytes | None, by_partition: Extents) -> None:
    try:
        _, topic, partition, begin = decode_key(name)
        chunks = by_partition.get((topic, partition), {})
        if value is None:
            chunks.pop(begin, None)
        else:
            chunks[begin] = (name, end_of(name, value))
    except ChunkError:
        pass  # of a later release, which prunes it
