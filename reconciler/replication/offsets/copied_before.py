"""Whether a partition was ever copied before, by any flow: what the offset map on the target says of it.

For a partition that has no position. The map is written a moment after each commit, so what it says is at least true.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from replication.names import OFFSETS_TOPIC
from replication.offset_map_codec import ChunkError, decode, decode_key, end_of
from wire import logs
from wire.batches import CONTROL, scan
from wire.cluster import NO_ID, Cluster, Key
from wire.errors import DENIED, UNKNOWN_TOPIC, BrokerError
from wire.fetch_answers import FetchedPartition
from wire.records import key_and_value, records_of

Ids = tuple[UUID, UUID]
"""Topic ids of a source topic and of its remote topic."""


async def copied_before(target: Cluster, wanted: Mapping[Key, Ids]) -> Mapping[Key, tuple[str, int]]:
    """Source partition -> the flow that copied it furthest, and the source offset up to which it did, at least.

    Without those of which the map says nothing, and empty where there is no map or it may not be read. Raises
    BrokerError or ConnectionLostError; call again then.
    """
    if not wanted:
        return {}
    try:
        await logs.leaders(target, [OFFSETS_TOPIC])
        parts = [(OFFSETS_TOPIC, number) for number in target.topics[OFFSETS_TOPIC].leaders]
        begins, ends = await logs.begins(target, parts), await logs.ends(target, parts)
        found: dict[Key, dict[str, int]] = {key: {} for key in wanted}
        async for answer in logs.read(target, begins, ends):
            _note(answer, wanted, found)
    except BrokerError as error:
        if error.code != UNKNOWN_TOPIC and error.code not in DENIED:
            raise
        return {}
    furthest = {key: max(flows.items(), key=lambda one: one[1]) for key, flows in found.items() if flows}
    return {key: one for key, one in furthest.items() if one[1] > 0}


def _note(answer: FetchedPartition, wanted: Mapping[Key, Ids], found: dict[Key, dict[str, int]]) -> None:
    for batch in scan(answer.records):
        if batch.attributes & CONTROL:
            continue
        for record in records_of(answer.records, batch):
            name, value = key_and_value(record)
            if name is None or value is None:
                continue
            try:
                flow, topic, partition, _ = decode_key(name)
                key = (topic, partition)
                if key in wanted and _is_of(name, value, wanted[key]):
                    found[key][flow] = max(found[key].get(flow, 0), end_of(name, value))
            except ChunkError:
                continue  # a later release writes something else; what it says is unknown here


def _is_of(name: bytes, value: bytes, ids: Ids) -> bool:
    """A chunk with runs, of the topics as they are now. One without runs says that nothing was copied."""
    place, stretch = decode(name, value)
    pairs = zip((place.source_id, place.target_id), ids, strict=True)
    return bool(stretch.runs) and all(NO_ID in pair or pair[0] == pair[1] for pair in pairs)
