"""Whether a partition was ever copied before, by any flow, as the offset map on the target says.

For a partition that has no position. The map is written a moment after each commit, so what it says is at least true.
"""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC, BrokerError
from reconciler.replication.offsets.codec import ChunkError, Ids, decode, decode_key, end_of
from reconciler.replication.offsets.map_topic import partitions


async def copied_before(target: ClusterClient, wanted: Mapping[Key, Ids]) -> Mapping[Key, tuple[str, int]]:
    """Source partition -> the flow that copied it furthest, and the source offset up to which it did, at least.

    Without those of which the map says nothing, and empty where there is no map or it may not be read. Raises
    BrokerError or ConnectionLostError; call again then.
    """
    if not wanted:
        return {}
    try:
        by_partition: dict[Key, dict[str, int]] = {key: {} for key in wanted}
        async for name, value in logs.read_whole(target, await partitions(target)):
            if value is not None:
                _note(name, value, wanted, by_partition)
    except BrokerError as error:
        if error.code != UNKNOWN_TOPIC and error.code not in DENIED:
            raise
        return {}
    furthest = {key: max(flows.items(), key=lambda key: key[1]) for key, flows in by_partition.items() if flows}
    return {key: pair for key, pair in furthest.items() if pair[1] > 0}


def _note(name: bytes, value: bytes, wanted: Mapping[Key, Ids], by_partition: dict[Key, dict[str, int]]) -> None:
    try:
        flow, topic, partition, _ = decode_key(name)
        key = (topic, partition)
        if key in wanted and _is_of(name, value, wanted[key]):
            by_partition[key][flow] = max(by_partition[key].get(flow, 0), end_of(name, value))
    except ChunkError:
        pass  # a later release writes something else; what it says is unknown here


def _is_of(name: bytes, value: bytes, ids: Ids) -> bool:
    """A chunk with runs, of the topics as they are now. One without runs says that nothing was copied."""
    place, stretch = decode(name, value)
    return bool(stretch.runs) and place.is_of(ids)
