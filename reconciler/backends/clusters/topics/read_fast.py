"""Reads all topics of a cluster over our own connection, at a tenth of the CPU that librdkafka's objects cost.

An optimisation only: what cannot be asked this way (settings only librdkafka knows, an old broker, a lost connection)
is None, and ``read`` asks again and reports what is wrong.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
import random
from asyncio import Future
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from types import MappingProxyType
from typing import TypeVar

from reconciler.backends.clusters.topics.config_cache import Configs, ConfigShelf, hidden_topic, unknown_configs
from reconciler.backends.clusters.topics.name_batches import VISIBILITY_PROBE, batched
from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import cleaned, client_settings, speaker_of
from reconciler.backends.connections.errors import Speaker
from reconciler.errors import Unknown
from reconciler.kafka.address import host_port
from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.buffers import BufferPool
from reconciler.kafka.client.connection import Connection as WireConnection
from reconciler.kafka.client.dial import connect
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError, WireError
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol import metadata_and_configs as wire_topics
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Broker, LiveCluster, LivePartition, LiveTopic

FROM_TOPICS = 250
"""Fewer named topics than this are not worth a connection of their own."""
BATCH = 250
NAMES = 2_000
CONNECTIONS = 2
IN_FLIGHT = 3
ANSWER_WITHIN = 15.0
CONNECT_WITHIN = 3.0

_FOR_URLS = bytes.maketrans(b"+/", b"-_")
_log = logging.getLogger("reconciler.kafka")
Answer = TypeVar("Answer")
Address = tuple[str, int]
Open = Callable[[Address], Awaitable[WireConnection]]
Told = tuple[wire_topics.PartitionOf, ...]


def read_in_bulk(cluster: Cluster, principal: Principal, topics: Collection[str] | None = None) -> LiveCluster | None:
    """As ``read.read_cluster``; None when this way is closed. Raises SecretError, and ClusterError where the cluster
    refuses what every plan needs."""
    clusters: list[LiveCluster | None] = []

    async def read() -> None:  # asyncio.run has what a task ends with spelled out: a second for ten thousand topics
        clusters.append(await reading_in_bulk(cluster, principal, topics))

    asyncio.run(read())
    return clusters[0]


async def reading_in_bulk(
    cluster: Cluster, principal: Principal, topics: Collection[str] | None = None, connections: int = CONNECTIONS
) -> LiveCluster | None:
    """As ``read_in_bulk``. When it is cancelled it leaves no connection behind."""
    settings = client_settings(cluster, principal)
    names = None if topics is None else sorted(set(topics))
    try:
        return await _Reading(cluster, speaker_of(cluster, principal), settings).read(names, connections)
    except WireError as error:
        _log.debug("cluster %s cannot be read in bulk: %s", cluster.name, cleaned(str(error), cluster, principal))
        return None


class _Reading:
    """One read. Raises WireError and ClusterError."""

    def __init__(self, cluster: Cluster, speaker: Speaker, settings: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._speaker = speaker
        self._settings = settings
        self._lines: list[WireConnection] = []

    async def read(self, names: list[str] | None, connections: int) -> LiveCluster:
        asked, pool = connection_settings(self._settings), BufferPool()
        settings = replace(asked, connect_timeout=min(asked.connect_timeout, CONNECT_WITHIN))
        try:
            return await self._read(partial(connect, settings=settings, pool=pool), names, connections)
        finally:
            for line in self._lines:
                line.close()

    async def _read(self, opened: Open, names: list[str] | None, connections: int) -> LiveCluster:
        """All of one broker, so that all answers are of one mind."""
        address = await self._first(opened)
        probe = await _metadata(self._lines[0], [VISIBILITY_PROBE])
        nodes = [(broker.host, broker.port) for broker in probe.brokers]
        if nodes and address not in nodes:  # it may lead to another broker each time
            address = random.choice(nodes)  # noqa: S311 - any of them
            self._lines.append(await opened(address))
            self._lines.pop(0).close()
        self._lines += [await opened(address) for _ in range(connections - 1)]
        asked = [None] if names is None else batched(names, NAMES)
        entries = [probe, *[await _metadata(self._lines[0], some) for some in asked]]
        described, denied = _described(topic for each in entries for topic in each.topics)
        shelf, parts, topics = ConfigShelf(), _Partitions(), dict[str, LiveTopic]()
        async for some in _configs(self._lines, sorted(described)):
            for pair in some:
                configs = self._judged(pair, shelf)
                if configs is not None:
                    topics[pair.name] = _live(described[pair.name], configs, parts)
        return LiveCluster(
            name=self._cluster.name,
            cluster_id=probe.cluster_id,
            brokers=tuple(Broker(*broker[:3], broker.rack or None) for broker in sorted(probe.brokers)),
            topics=MappingProxyType({name: topics[name] for name in sorted(topics)}),
            sees_all=not denied,
            hidden=MappingProxyType({name: self._hidden(name) for name in sorted(denied - {VISIBILITY_PROBE})}),
        )

    def _hidden(self, topic: str) -> Unknown:
        return hidden_topic(self._speaker, topic, errors.denied(self._speaker, errors.describe_topic(topic)))

    async def _first(self, opened: Open) -> Address:
        """The first bootstrap server that answers, in any order."""
        servers = map(host_port, self._cluster.bootstrap_servers)
        places = [(server.host, server.port) for server in servers]
        failed: WireError = ConnectionLostError("there is no bootstrap server")
        for address in random.sample(places, len(places)):
            try:
                self._lines.append(await opened(address))
                return address
            except ConnectionLostError as error:
                failed = error
        raise failed

    def _judged(self, pair: wire_topics.ConfigsOf, shelf: ConfigShelf) -> Configs | None:
        """None for a topic that was deleted meanwhile."""
        if pair.error == 0:
            return shelf.mapping(pair.entries)
        from confluent_kafka import KafkaError  # reads begin before this is imported

        error = KafkaError(pair.error, pair.message) if pair.message else KafkaError(pair.error)
        failed = errors.translate(self._speaker, error, errors.describe_configs(pair.name))
        if failed.kind == "unreachable":
            raise failed
        return None if failed.kind == "missing" else unknown_configs(self._speaker, pair.name, failed)


def _described(entries: Iterable[wire_topics.TopicOf]) -> tuple[dict[str, wire_topics.TopicOf], frozenset[str]]:
    """By name, those that are there; and those that were asked for and may not be seen. Raises BrokerError."""
    by_name: dict[str, wire_topics.TopicOf] = {}
    denied: set[str] = set()
    for topic in entries:
        if topic.error == 0:
            by_name[topic.name] = topic
        elif (kind := errors.KINDS_BY_CODE.get(topic.error)) == "denied":
            denied.add(topic.name)
        elif kind not in ("missing", "invalid"):
            raise BrokerError(topic.error, f"metadata of {topic.name}")
    by_name.pop(VISIBILITY_PROBE, None)
    return by_name, frozenset(denied)


async def _metadata(line: WireConnection, names: list[str] | None) -> wire_topics.ClusterOf:
    version = line.negotiated(
        wire_topics.METADATA, wire_topics.METADATA_LOWEST, wire_topics.METADATA_NEWEST, "Metadata"
    )
    sent = line.send((wire_topics.METADATA, version, True), [wire_topics.pack_metadata(names)], ANSWER_WITHIN)
    parts = _unpacked(await sent, wire_topics.unpack_metadata)
    await asyncio.sleep(parts.throttle / 1000)  # the broker does not listen meanwhile (KIP-219)
    return parts


async def _configs(lines: Sequence[WireConnection], names: Sequence[str]) -> AsyncIterator[list[wire_topics.ConfigsOf]]:
    """Answer by answer: what is made of one takes no time while the broker works on the next."""
    version = wire_topics.CONFIGS_VERSION
    for line in lines:
        line.negotiated(wire_topics.DESCRIBE_CONFIGS, version, version, "DescribeConfigs")
    reader = wire_topics.ConfigReader()
    batches, turns = batched(names, BATCH), cycle(lines)
    waiting: deque[Future[Frame]] = deque()
    while True:
        for batch in islice(batches, IN_FLIGHT * len(lines) - len(waiting)):
            api = (wire_topics.DESCRIBE_CONFIGS, version, True)
            waiting.append(next(turns).send(api, [wire_topics.pack_describe_configs(batch)], ANSWER_WITHIN))
        if not waiting:
            return
        throttle, some = _unpacked(await waiting.popleft(), reader.unpack)
        yield some
        await asyncio.sleep(throttle / 1000)


def _unpacked(frame: Frame, unpack: Callable[[memoryview], Answer]) -> Answer:
    try:
        return unpack(frame.body)
    finally:
        if frame.buffer is not None:
            frame.buffer.release()


class _Partitions:
    """Equal ones are one object: most topics have one partition, and brokers are few."""

    def __init__(self) -> None:
        self._single: dict[wire_topics.PartitionOf, LivePartition] = {}
        self._lists: dict[int, tuple[Told, tuple[LivePartition, ...]]] = {}  # keeps ``Told``, so that its id is its own

    def of(self, parts: Told) -> tuple[LivePartition, ...]:
        known = self._lists.get(id(parts))
        if known is None:
            known = self._lists[id(parts)] = parts, tuple(map(self._one, parts))
        return known[1]

    def _one(self, partition: wire_topics.PartitionOf) -> LivePartition:
        live_partition = self._single.get(partition)
        if live_partition is None:
            live_partition = self._single[partition] = LivePartition(*partition)
        return live_partition


def _live(topic: wire_topics.TopicOf, configs: Configs, parts: _Partitions) -> LiveTopic:
    """The id as Kafka itself prints it: base64 for URLs, without its padding."""
    topic_id = binascii.b2a_base64(topic.topic_id).translate(_FOR_URLS)[:22].decode()
    return LiveTopic(topic.name, topic_id, parts.of(topic.partitions), configs, topic.internal)
