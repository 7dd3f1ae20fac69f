"""Reads the offset map of a flow from ``__mirror_offsets`` on its target, and keeps it up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.cluster import NO_ID, ClusterClient, Key
from reconciler.replication.names import OFFSETS_TOPIC
from reconciler.replication.offsets.codec import ChunkError, Ids, MapPartition, decode, decode_key
from reconciler.replication.offsets.map import PartitionMap, Stretch
from reconciler.replication.offsets.map_topic import partitions

_EMPTY = PartitionMap(())


class MapReader:
    """Reads what lanes have written; a lane writes within a second or two after each commit.

    ``target`` is an open ``wire.Cluster``; everything runs on its event loop. ``topics``: source topics, all when None.
    """

    def __init__(self, target: ClusterClient, flow: str, topics: frozenset[str] | None = None) -> None:
        self._target = target
        self._prefix = f"{flow}/".encode()
        self._topics = topics
        self._read: dict[Key, int] = {}
        self._topic_id = NO_ID
        self._chunks: dict[Key, dict[int, tuple[MapPartition, Stretch]]] = {}
        self._newest: dict[Key, MapPartition] = {}
        self._maps: dict[Key, tuple[Ids, PartitionMap]] = {}

    async def refresh(self) -> None:
        """Reads on from where the last call ended, to the end.

        Raises BrokerError (also when the topic is not there) or ConnectionLostError; call again to go on.
        """
        target = self._target
        keys = await partitions(target)
        topic_id = target.topics[OFFSETS_TOPIC].topic_id
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
                    self._chunk(name, value)
            self._read[key] = logs.next_offset(answer, self._read[key])

    def partition(self, topic: str, partition: int, ids: Ids) -> PartitionMap:
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

    def place(self, topic: str, partition: int) -> MapPartition | None:
        """Of what was written last of a *source* partition; None when nothing is known of it."""
        return self._newest.get((topic, partition))

    def partitions(self, ids: Callable[[str], Ids | None]) -> Mapping[Key, PartitionMap]:
        """By source topic and partition. ``ids``: by source topic; None where it or its remote topic is not there."""
        now = {topic: ids(topic) for topic in {topic for topic, _ in self._chunks}}
        return {key: self.partition(*key, of) for key in self._chunks if (of := now[key[0]]) is not None}

    @property
    def topics(self) -> frozenset[str]:
        """Source topics of which it says something."""
        return frozenset(topic for topic, _ in self._chunks)

    def _chunk(self, key: bytes, value: bytes | None) -> None:
        try:
            _, topic, partition, begin = decode_key(key)
            if self._topics is not None and topic not in self._topics:
                return
            where = (topic, partition)
            if value is None:  # pruned
                self._chunks.get(where, {}).pop(begin, None)
                self._maps.pop(where, None)
                return
            place, stretch = decode(key, value)
        except ChunkError:
            return  # a later release writes something else; what it says is unknown here, and unknown is safe
        self._chunks.setdefault(where, {})[begin] = (place, stretch)
        self._newest[where] = place
        self._maps.pop(where, None)
