"""The topic of the offset map on a target: places, appends, prunes and reads chunks.

Pruning deletes chunks of records that the source has deleted. A group with an offset before the source's log start
continues at that start, which the rest of the map translates equally. The last chunk of a partition always stays,
because positions after the last record need it.
"""

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from uuid import UUID

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, UNKNOWN_TOPIC, BrokerError
from reconciler.replication.names import OwnTopics
from reconciler.replication.offsets import codec
from reconciler.replication.offsets.map import PartitionMap, Stretch

Record = tuple[bytes, bytes]
"""Key and value of a chunk."""


def holder_of(flow: str, key: Key, count: int) -> int:
    """The map's partition, of ``count``, that holds the chunks of a source partition."""
    return zlib.crc32(f"{flow}/{key[0]}/{key[1]}".encode()) % count


def name_on(target: ClusterClient) -> str:
    return OwnTopics(target.topic_prefix).offsets


async def partitions(target: ClusterClient) -> list[Key]:
    """Of the topic. Raises BrokerError, also when it is missing, or ConnectionLostError."""
    topic = name_on(target)
    await logs.leaders(target, [topic])
    return [(topic, number) for number in target.topics[topic].leaders]


async def append(target: ClusterClient, flow: str, chunks: Mapping[Key, Sequence[logs.KeyValue]]) -> None:
    """``chunks`` by source partition; a value None deletes one. Raises BrokerError or ConnectionLostError."""
    count = len(await partitions(target))
    records: dict[int, list[logs.KeyValue]] = {}
    for key, members in chunks.items():
        records.setdefault(holder_of(flow, key, count), []).extend(members)
    await logs.append(target, name_on(target), records)


async def prune(source: ClusterClient, target: ClusterClient, flow: str, keys: Collection[Key]) -> int:
    """Deletes chunks of source partitions ``keys`` before the source's log start; returns their number.

    Raises BrokerError or ConnectionLostError; doing it again does no harm.
    """
    await logs.leaders(source, sorted({topic for topic, _ in keys}))
    starts = await logs.begins(source, list(keys))
    count = len(await partitions(target))
    parts = [(name_on(target), n) for n in sorted({holder_of(flow, key, count) for key in keys})]
    by_partition: dict[Key, dict[int, tuple[bytes, int]]] = {key: {} for key in keys}
    """Beginning of a chunk -> its key and its end."""
    prefix = f"{flow}/".encode()
    async for name, value in logs.read_whole(target, parts):
        if not name.startswith(prefix):
            continue
        with suppress(codec.ChunkError):  # of a later release, which prunes it
            _, topic, partition, begin = codec.decode_key(name)
            chunks = by_partition.get((topic, partition), {})
            if value is None:
                chunks.pop(begin, None)
            else:
                chunks[begin] = (name, codec.end_of(name, value))
    gone: dict[Key, list[logs.KeyValue]] = {}
    for key, chunks in by_partition.items():
        last = max(chunks, default=0)
        if due := [name for begin, (name, end) in chunks.items() if begin != last and end <= starts[key]]:
            gone[key] = [(name, None) for name in due]
    if gone:
        await append(target, flow, gone)
    return sum(map(len, gone.values()))


async def cut(target: ClusterClient, flow: str, key: Key, end: int) -> None:
    """Removes entries of target offsets from ``end`` on, after the target lost these records: copied again, they get
    other offsets. ``key``: source partition. Raises BrokerError or ConnectionLostError; repeating it is harmless."""
    holder = (name_on(target), holder_of(flow, key, len(await partitions(target))))
    chunks: dict[bytes, bytes] = {}
    async for name, value in logs.read_whole(target, [holder]):
        with suppress(codec.ChunkError):
            if codec.decode_key(name)[:3] != (flow, *key):
                continue
            chunks.pop(name, None)
            if value is not None:
                chunks[name] = value
    changed: list[logs.KeyValue] = []
    for name, value in chunks.items():
        with suppress(codec.ChunkError):
            place, stretch = codec.decode(name, value)
            left = [
                run._replace(records=min(run.records, end - run.target)) for run in stretch.runs if run.target < end
            ]
            # A chunk across the cut keeps its key and its beginning, so that the shorter one replaces it when the topic
            # is compacted.
            if left and stretch.runs[-1].target_end > end:
                changed.append(
                    codec.encode(place, Stretch(stretch.begin, left[-1].source_end, tuple(left), stretch.first))
                )
            elif stretch.runs and not left:
                changed.append((name, None))
    if changed:
        await append(target, flow, {key: changed})


FIRST_WINDOW, LARGER, MOST_READ = 250, 4, 20_000
"""Records of the map: first window at the end of each partition, factor of the next window, and total. A copying
partition gets a chunk every second, so the last minutes are read first."""


async def last_committed(target: ClusterClient, flow: str, wanted: Mapping[Key, codec.Ids]) -> Mapping[Key, int]:
    """Source partition -> source offset up to which ``flow`` had committed it, at least, when the map was last written.

    The map is written a moment after each commit and read by Fetch, so it does not depend on what the group coordinator
    returns. In the map's log the newest chunk of a partition holds its position, also after a seek to an earlier
    offset; the chunk that reaches furthest would not.

    Without those that are not in the last ``MOST_READ`` records, and empty where there is no map or it may not be read.
    Raises BrokerError or ConnectionLostError; call again then.
    """
    return {key: codec.end_of(*chunk) for key, chunk in (await newest_chunks(target, flow, wanted)).items()}


async def newest_chunks(target: ClusterClient, flow: str, wanted: Mapping[Key, codec.Ids]) -> Mapping[Key, Record]:
    """Like ``last_committed``: the record of the newest chunk of each source partition."""
    # Not of a topic that was recreated since.
    newest = await _newest(target, flow, wanted)
    return {key: chunk for key, chunk in newest.items() if codec.place_of(*chunk).is_of(wanted[key])}


async def former_sources(target: ClusterClient, flow: str, wanted: Mapping[Key, codec.Ids]) -> Mapping[Key, UUID]:
    """Source partition -> id of the former topic of that name from which ``flow`` copied it last. As ``last_committed``
    otherwise."""
    places = {key: codec.place_of(*chunk) for key, chunk in (await _newest(target, flow, wanted)).items()}
    known = {key: place.source_id for key, place in places.items() if NO_ID not in (place.source_id, wanted[key][0])}
    return {key: source_id for key, source_id in known.items() if source_id != wanted[key][0]}


def copied_to(chunk: Record) -> int:
    """The target offset after the last record of a chunk; -1 without one, or for an unreadable chunk."""
    with suppress(codec.ChunkError):
        _, stretch = codec.decode(*chunk)
        return stretch.runs[-1].target_end if stretch.runs else -1
    return -1


async def _newest(target: ClusterClient, flow: str, wanted: Mapping[Key, codec.Ids]) -> Mapping[Key, Record]:
    """For any topics of these names. Empty if there is no map or it may not be read."""
    try:
        return await _read_newest(target, flow, wanted) if wanted else {}
    except BrokerError as error:
        if error.code != UNKNOWN_TOPIC and error.code not in DENIED:
            raise
        return {}


async def _read_newest(target: ClusterClient, flow: str, wanted: Mapping[Key, codec.Ids]) -> dict[Key, Record]:
    """The newest chunk of each partition, read backwards in growing windows: most are near the end of the topic. Gives
    up after ``MOST_READ`` offsets."""
    parts = await partitions(target)
    holders = {key: (name_on(target), holder_of(flow, key, len(parts))) for key in wanted}
    newest: dict[Key, Record] = {}
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
                if value is not None and name.startswith(prefix):
                    # An unreadable chunk of a later release or another program is ignored, and hides no earlier chunk.
                    with suppress(codec.ChunkError):
                        _, topic, partition, _ = codec.decode_key(name)
                        if (topic, partition) in missing and codec.end_of(name, value) >= 0:
                            newest[topic, partition] = (name, value)
        left -= sum(upper[part] - lower[part] for part in holding)
        upper |= lower
        window *= LARGER
    return newest


async def copied_before(target: ClusterClient, wanted: Mapping[Key, codec.Ids]) -> Mapping[Key, tuple[str, int]]:
    """Source partition -> the flow that copied it furthest, and the source offset up to which it did, at least. For
    partitions without a position: what the map says is at least true, since it is written a moment after each commit.

    Without those of which the map says nothing, and empty where there is no map or it may not be read. Raises
    BrokerError or ConnectionLostError; call again then.
    """
    if not wanted:
        return {}
    try:
        by_partition: dict[Key, dict[str, int]] = {key: {} for key in wanted}
        async for name, value in logs.read_whole(target, await partitions(target)):
            if value is None:
                continue
            with suppress(codec.ChunkError):  # a later release's format is unknown here
                flow, topic, number, _ = codec.decode_key(name)
                if (ids := wanted.get((topic, number))) is None:
                    continue
                # For the present topic ids, and with runs: a chunk without runs means that nothing was copied.
                place, stretch = codec.decode(name, value)
                if stretch.runs and place.is_of(ids):
                    flows = by_partition[topic, number]
                    flows[flow] = max(flows.get(flow, 0), stretch.end)
    except BrokerError as error:
        if error.code != UNKNOWN_TOPIC and error.code not in DENIED:
            raise
        return {}
    furthest = {key: max(flows.items(), key=lambda flow: flow[1]) for key, flows in by_partition.items() if flows}
    return {key: pair for key, pair in furthest.items() if pair[1] > 0}


_EMPTY = PartitionMap(())


class MapReader:
    """Reads what lanes have written; a lane writes within a second or two after each commit.

    ``target`` is open; everything runs on its event loop. ``topics``: source topics, all when None.
    """

    def __init__(self, target: ClusterClient, flow: str, topics: frozenset[str] | None = None) -> None:
        self._target = target
        self._prefix = f"{flow}/".encode()
        self._topics = topics
        self._read: dict[Key, int] = {}
        self._topic_id = NO_ID
        self._chunks: dict[Key, dict[int, tuple[codec.MapPartition, Stretch]]] = {}
        self._newest: dict[Key, codec.MapPartition] = {}
        self._maps: dict[Key, tuple[codec.Ids, PartitionMap]] = {}

    async def refresh(self) -> None:
        """Reads from the end of the last call to the present end.

        Raises BrokerError (also when the topic is missing) or ConnectionLostError; call again to go on.
        """
        target = self._target
        keys = await partitions(target)
        topic_id = target.topics[name_on(target)].topic_id
        if topic_id != self._topic_id:  # recreated
            self._topic_id = topic_id
            self._read.clear()
        begins = await logs.begins(target, keys)
        ends = await logs.ends(target, keys)
        self._read = {key: min(max(self._read.get(key, 0), begins[key]), ends[key]) for key in keys}
        async for answer in logs.read(target, self._read, ends):
            key = (answer.topic, answer.partition)
            for name, value in logs.key_values(answer):
                if name.startswith(self._prefix):
                    self.take(name, value)
            self._read[key] = logs.next_offset(answer, self._read[key])

    def partition(self, topic: str, partition: int, ids: codec.Ids) -> PartitionMap:
        """``topic``: the *source* topic. An empty map when nothing is known of it. The same object until it changes.

        ``ids``: topic ids of source and remote topic now; what was written for others is left out. Of a side that has
        no id (brokers before 2.8), or does not answer, those of what was written last count.
        """
        key = (topic, partition)
        chunks = self._chunks.get(key)
        if chunks is None:
            return _EMPTY
        newest = self._newest[key]
        now = (ids[0] if ids[0] != NO_ID else newest.source_id, ids[1] if ids[1] != NO_ID else newest.target_id)
        kept = self._maps.get(key)
        if kept is None or kept[0] != now:
            stretches = (stretch for place, stretch in chunks.values() if place.is_of(now))
            kept = self._maps[key] = (now, PartitionMap(stretches))
        return kept[1]

    def place(self, topic: str, partition: int) -> codec.MapPartition | None:
        """The place of the last chunk of a *source* partition; None if there is none."""
        return self._newest.get((topic, partition))

    def partitions(self, ids: Callable[[str], codec.Ids | None]) -> Mapping[Key, PartitionMap]:
        """By source topic and partition. ``ids``: by source topic; None where it or its remote topic is missing."""
        now = {topic: ids(topic) for topic in {topic for topic, _ in self._chunks}}
        return {key: self.partition(*key, of) for key in self._chunks if (of := now[key[0]]) is not None}

    @property
    def topics(self) -> frozenset[str]:
        """Source topics in the map."""
        return frozenset(topic for topic, _ in self._chunks)

    def take(self, key: bytes, value: bytes | None) -> None:
        """Takes a record of the map that was read or will be written."""
        try:
            _, topic, partition, begin = codec.decode_key(key)
            if self._topics is not None and topic not in self._topics:
                return
            where = (topic, partition)
            if value is None:  # pruned
                self._chunks.get(where, {}).pop(begin, None)
                self._maps.pop(where, None)
                return
            place, stretch = codec.decode(key, value)
        except codec.ChunkError:
            return  # a later release's format is unknown here, and unknown is safe
        self._chunks.setdefault(where, {})[begin] = (place, stretch)
        self._newest[where] = place
        self._maps.pop(where, None)
