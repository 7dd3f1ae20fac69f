"""Up to where a flow had committed its positions, at least, as the end of the offset map on the target says.

The map is written a moment after each commit and read by Fetch, so it does not depend on what the group coordinator
returns. In the map's log the newest chunk of a partition holds its position, also after a seek to an earlier
offset; the chunk that reaches furthest would not.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC, BrokerError
from reconciler.replication.names import OFFSETS_TOPIC
from reconciler.replication.offsets.codec import ChunkError, Ids, decode_key, end_of, place_of
from reconciler.replication.offsets.map_topic import partitions
from reconciler.replication.offsets.map_topic import place_of as partition_of

FIRST_WINDOW, LARGER, MOST_READ = 250, 4, 20_000
"""Records of the map: read from the end of each of its partitions at first, how much further back next, and together.
A partition that copies has a chunk written every second, so those of the last minutes are found first."""


async def last_committed(target: ClusterClient, flow: str, wanted: Mapping[Key, Ids]) -> Mapping[Key, int]:
    """Source partition -> source offset up to which ``flow`` had committed it when the map was last written.

    Without those that are not in the last ``MOST_READ`` records, and empty where there is no map or it may not be read.
    Raises BrokerError or ConnectionLostError; call again then.
    """
    if not wanted:
        return {}
    try:
        newest = await _newest(target, flow, wanted)
    except BrokerError as error:
        if error.code != UNKNOWN_TOPIC and error.code not in DENIED:
            raise
        return {}
    return {key: end for key, chunk in newest.items() if (end := _end(chunk, wanted[key])) is not None}


async def _newest(target: ClusterClient, flow: str, wanted: Mapping[Key, Ids]) -> dict[Key, tuple[bytes, bytes]]:
    parts = await partitions(target)
    holders = {key: (OFFSETS_TOPIC, partition_of(flow, key, len(parts))) for key in wanted}
    newest: dict[Key, tuple[bytes, bytes]] = {}
    begins = await logs.begins(target, list(set(holders.values())))
    upper = await logs.ends(target, list(begins))
    window, left, prefix = FIRST_WINDOW, MOST_READ, f"{flow}/".encode()
    while left > 0:
        missing = {key for key in wanted if key not in newest}
        holding = [part for part in {holders[key] for key in missing} if upper[part] > begins[part]]
        if not holding:
            break
        each = max(1, min(window, left // len(holding)))
        lower = {part: max(begins[part], upper[part] - each) for part in holding}
        async for answer in logs.read(target, lower, upper):
            for name, value in logs.key_values(answer):
                if value is not None and name.startswith(prefix) and (key := _key(name)) in missing:
                    newest[key] = (name, value)
        left -= sum(upper[part] - lower[part] for part in holding)
        upper |= lower
        window *= LARGER
    return newest


def _key(name: bytes) -> Key | None:
    try:
        _, topic, partition, _ = decode_key(name)
    except ChunkError:
        return None  # a later release writes something else; what it says is unknown here
    return topic, partition


def _end(chunk: tuple[bytes, bytes], ids: Ids) -> int | None:
    """None: of a topic that was recreated since, or of a later release."""
    try:
        return end_of(*chunk) if place_of(*chunk).is_of(ids) else None
    except ChunkError:
        return None
