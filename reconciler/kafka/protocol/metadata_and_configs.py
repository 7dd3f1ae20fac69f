"""Metadata and DescribeConfigs of very many topics, at a tenth of the usual cost.

Topics of one cluster mostly share the same thirty config entries. Lists with known bytes are not decoded again, and
equal lists are one object.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from reconciler.kafka.protocol.flexible import NO_TAGS, NULL, ResponseReader, count, reading, string

METADATA, METADATA_LOWEST, METADATA_NEWEST = 3, 11, 12
DESCRIBE_CONFIGS, CONFIGS_VERSION = 32, 4
SEEN_LISTS = 32
"""Most recent byte patterns to remember: most topics have the same few lists."""
SEEN_NODES = 6
KEPT_BYTES = 128
"""Longer patterns hardly ever come again."""

_NO_ID = bytes(16)
_TOPIC = b"\x02"
_FINE = b"\0\0\0" + _TOPIC, b"\0\0\1" + _TOPIC
"""The first bytes of a topic without an error, and with no message or an empty one."""
_HEAD = struct.Struct(">hiii")  # error, index, leader, leader epoch
_IDENTITY = struct.Struct(">16s?")  # topic id, internal


class PartitionOf(NamedTuple):
    """A partition in a Metadata response."""

    number: int
    leader: int
    """Broker id, -1 without one."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    """In-sync replicas."""


class TopicOf(NamedTuple):
    """A topic in a Metadata response."""

    name: str
    error: int
    """Kafka's code for the topic (3: it does not exist, 29: we may not see it)."""
    topic_id: bytes
    """16 bytes."""
    internal: bool
    partitions: tuple[PartitionOf, ...]


class BrokerOf(NamedTuple):
    """A broker in a Metadata response."""

    number: int
    """Its node id."""
    host: str
    """As advertised for the listener of this connection; ``port``: likewise."""
    port: int
    rack: str
    """``broker.rack``; empty without one."""


class ClusterOf(NamedTuple):
    """One response. ``throttle``: ms for which the broker mutes the connection."""

    throttle: int
    cluster_id: str
    brokers: tuple[BrokerOf, ...]
    topics: list[TopicOf]


class ConfigOf(NamedTuple):
    """A config in a DescribeConfigs response."""

    name: str
    value: str | None
    """None: the broker hides it."""
    source: int
    """The protocol's number (``DescribeConfigsResponse.ConfigSource``)."""
    sensitive: bool
    read_only: bool


class ConfigsOf(NamedTuple):
    """The entries of one topic; ``error`` and ``message`` as the broker returned them (0: none)."""

    name: str
    error: int
    message: str
    entries: tuple[ConfigOf, ...]


def pack_metadata(names: Sequence[str] | None) -> bytes:
    """Metadata of ``names``, or of every topic that the principal may describe. Never auto-creates."""
    topics = NULL if names is None else count(len(names)) + b"".join(_NO_ID + string(n) + NO_TAGS for n in names)
    return topics + b"\0\0" + NO_TAGS  # no auto-creation, no authorized operations


def unpack_metadata(frame: memoryview) -> ClusterOf:
    """Raises MalformedResponseError."""
    reader, parts = open_metadata(frame)
    return parts._replace(topics=unpack_topics(reader))


@reading("a Metadata")
def open_metadata(frame: memoryview) -> tuple[ResponseReader, ClusterOf]:
    """What comes before the topics, and the reader there, for ``unpack_topics``. Raises MalformedResponseError."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    brokers = tuple(_broker(reader) for _ in range(reader.count()))
    cluster_id = reader.string()
    reader.int32()
    return reader, ClusterOf(throttle, cluster_id, brokers, [])


@reading("a Metadata")
def unpack_topics(reader: ResponseReader) -> list[TopicOf]:
    """Raises MalformedResponseError."""
    lists = _PartitionLists()
    topics = []
    for _ in range(reader.count()):
        error, name = reader.int16(), reader.string()
        topic_id, internal = reader.fixed(_IDENTITY)
        topics.append(TopicOf(name, error, topic_id, internal, lists.read(reader)))
    reader.finish()
    return topics


def _broker(reader: ResponseReader) -> BrokerOf:
    broker = BrokerOf(reader.int32(), reader.string(), reader.int32(), reader.string())
    reader.tags()
    return broker


class _PartitionLists:
    """Partitions of a topic, up to the topic's end. Most topics have one partition and brokers are few, so short lists
    with known bytes are not decoded again."""

    def __init__(self) -> None:
        self._seen: dict[bytes, tuple[PartitionOf, ...]] = {}
        self._size = 0  # of the last one kept: where factors are equal, most have it
        self._nodes = _NodeLists()

    def read(self, reader: ResponseReader) -> tuple[PartitionOf, ...]:
        """The partitions of one topic. Thousands of topics have equal lists, so the bytes of earlier ones are looked up
        before they are read."""
        raw = reader.frame[reader.at : reader.at + self._size]
        known = self._seen.get(raw)
        if known is not None:  # the bytes themselves say where a list ends
            reader.at += len(raw)
            return known
        begin = reader.at
        read = [self._partition(reader) for _ in range(reader.count())]
        reader.at += 4  # authorized operations, which were not requested
        reader.tags()
        if len(read) > 1:
            read.sort()
        partitions, size = tuple(read), reader.at - begin
        if size > KEPT_BYTES:
            return partitions
        self._size = size
        return self._seen.setdefault(reader.frame[begin : reader.at], partitions)

    def _partition(self, reader: ResponseReader) -> PartitionOf:
        _, index, leader, _ = reader.fixed(_HEAD)
        return PartitionOf(index, leader, *self._nodes.read(reader))


class _NodeLists:
    """Replicas, replicas in sync and offline ones of a partition. Bytes that were seen of late are not read again."""

    def __init__(self) -> None:
        self._seen: list[tuple[bytes, tuple[tuple[int, ...], tuple[int, ...]]]] = []
        self._lists: dict[bytes, tuple[int, ...]] = {}

    def read(self, reader: ResponseReader) -> tuple[tuple[int, ...], tuple[int, ...]]:
        for raw, known in self._seen:
            if reader.frame.startswith(raw, reader.at):  # the bytes themselves say where they end
                reader.at += len(raw)
                return known
        begin = reader.at
        replicas, isr, _ = self._list(reader), self._list(reader), self._list(reader)
        reader.tags()
        self._seen.insert(0, (reader.frame[begin : reader.at], (replicas, isr)))
        del self._seen[SEEN_NODES:]
        return replicas, isr

    def _list(self, reader: ResponseReader) -> tuple[int, ...]:
        size = reader.count()
        raw = reader.take(4 * size)
        known = self._lists.get(raw)
        if known is None:
            known = self._lists[raw] = struct.unpack(f">{size}i", raw)
        return known


def pack_describe_configs(names: Sequence[str]) -> bytes:
    """All config keys of these topics, without their synonyms and documentation: they are half of an answer."""
    topics = b"".join(_TOPIC + string(name) + NULL + NO_TAGS for name in names)
    return count(len(names)) + topics + b"\0\0" + NO_TAGS


class ConfigReader:
    """Reads responses of one cluster; remembers recent lists of entries."""

    def __init__(self) -> None:
        self._seen: list[tuple[bytes, tuple[ConfigOf, ...]]] = []
        self._lists: dict[tuple[ConfigOf, ...], tuple[ConfigOf, ...]] = {}
        self._entries: dict[ConfigOf, ConfigOf] = {}

    @reading("a DescribeConfigs")
    def unpack(self, frame: memoryview) -> tuple[int, list[ConfigsOf]]:
        """(throttle in ms, configs). Raises MalformedResponseError."""
        reader = ResponseReader(frame)
        throttle = reader.int32()
        entries = []
        for _ in range(reader.count()):
            error, message = 0, ""
            if reader.frame.startswith(_FINE, reader.at):
                reader.at += len(_FINE[0])
            else:
                error, message = reader.int16(), reader.string()
                reader.int8()
            name = reader.string()
            entries.append(ConfigsOf(name, error, message, self._list(reader)))
            reader.tags()
        reader.finish()
        return throttle, entries

    def _list(self, reader: ResponseReader) -> tuple[ConfigOf, ...]:
        for place, (raw, entries) in enumerate(self._seen):
            if reader.frame.startswith(raw, reader.at):  # the bytes themselves say where a list ends
                reader.at += len(raw)
                if place:
                    self._seen.insert(0, self._seen.pop(place))
                return entries
        begin = reader.at
        entries = tuple(self._entry(reader) for _ in range(reader.count()))
        entries = self._lists.setdefault(entries, entries)
        self._seen.insert(0, (reader.frame[begin : reader.at], entries))
        del self._seen[SEEN_LISTS:]
        return entries

    def _entry(self, reader: ResponseReader) -> ConfigOf:
        """One config of DescribeConfigs version 4. Synonyms, type and documentation are passed over. Equal entries
        become one object: thousands of topics have the same hundred."""
        name = reader.string()
        size = reader.uint() - 1
        value = None if size < 0 else reader.take(size).decode()
        read_only, source, sensitive = reader.take(3)
        for _ in range(reader.count()):
            reader.string()
            reader.string()
            reader.int8()
            reader.tags()
        reader.int8()
        reader.string()
        reader.tags()
        entry = ConfigOf(name, value, source, sensitive == 1, read_only == 1)
        return self._entries.setdefault(entry, entry)
