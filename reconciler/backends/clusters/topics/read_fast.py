"""Reads a whole cluster over our own connection: librdkafka's objects cost ten times the CPU for the same answer.

Border: an optimisation and nothing else. What cannot be asked or answered this way (settings only librdkafka knows, an
old broker, a lost connection) is None, and ``reading`` asks again and finds the words for what is wrong.
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

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.asked_names import VISIBILITY_PROBE, batched
from reconciler.edges.kafka.config_shelf import Configs, ConfigShelf, hidden_topic, unknown_configs
from reconciler.edges.kafka.errors import Speaker
from reconciler.edges.kafka.identity import client_settings, secrets_in, speaker_of
from reconciler.errors import Unknown
from reconciler.live import Broker, LiveCluster, LivePartition, LiveTopic
from reconciler.topology import Cluster, Principal
from wire import topics as wire_topics
from wire.buffers import BufferPool
from wire.connection import Connection as WireConnection
from wire.dialing import connect
from wire.errors import BrokerError, ConnectionLostError, WireError
from wire.frames import Frame
from wire.settings import connection_settings

FROM_TOPICS = 250
"""Fewer named topics than this are not worth a connection of their own."""
BATCH = 250
NAMES = 2_000
CONNECTIONS = 2
IN_FLIGHT = 3
PATIENCE = 15.0
CONNECT_WITHIN = 3.0

_FOR_URLS = bytes.maketrans(b"+/", b"-_")
_log = logging.getLogger("reconciler.kafka")
Answer = TypeVar("Answer")
Address = tuple[str, int]
Open = Callable[[Address], Awaitable[WireConnection]]
Told = tuple[wire_topics.PartitionOf, ...]


def read_in_bulk(cluster: Cluster, principal: Principal, topics: Collection[str] | None = None) -> LiveCluster | None:
    """As ``reading.read_cluster``; None when this way is closed. Raises SecretError, and ClusterError where the cluster
    refuses what every plan needs."""
    found: list[LiveCluster | None] = []

    async def read() -> None:  # asyncio.run has what a task ends with spelled out: a second for ten thousand topics
        found.append(await reading_in_bulk(cluster, principal, topics))

    asyncio.run(read())
    return found[0]


async def reading_in_bulk(
    cluster: Cluster, principal: Principal, topics: Collection[str] | None = None, connections: int = CONNECTIONS
) -> LiveCluster | None:
    """As ``read_in_bulk``. When it is cancelled it leaves no connection behind."""
    settings = client_settings(cluster, principal)
    names = None if topics is None else sorted(set(topics))
    try:
        return await _Reading(cluster, speaker_of(cluster, principal), settings).read(names, connections)
    except WireError as error:
        words = str(error)
        for secret in secrets_in(cluster.client_for(principal), settings):
            words = words.replace(secret, "***")
        _log.debug("cluster %s cannot be read in bulk: %s", cluster.name, words)
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
        nodes = [(one.host, one.port) for one in probe.brokers]
        if nodes and address not in nodes:  # it may lead to another broker each time
            address = random.choice(nodes)  # noqa: S311 - any of them
            self._lines.append(await opened(address))
            self._lines.pop(0).close()
        self._lines += [await opened(address) for _ in range(connections - 1)]
        asked = [None] if names is None else batched(names, NAMES)
        told = [probe, *[await _metadata(self._lines[0], some) for some in asked]]
        described, denied = _described(one for each in told for one in each.topics)
        shelf, parts, found = ConfigShelf(), _Partitions(), dict[str, LiveTopic]()
        async for some in _configs(self._lines, sorted(described)):
            for one in some:
                configs = self._judged(one, shelf)
                if configs is not None:
                    found[one.name] = _live(described[one.name], configs, parts)
        return LiveCluster(
            name=self._cluster.name,
            cluster_id=probe.cluster_id,
            brokers=tuple(Broker(*one[:3], one.rack or None) for one in sorted(probe.brokers)),
            topics=MappingProxyType({name: found[name] for name in sorted(found)}),
            sees_all=not denied,
            hidden=MappingProxyType({name: self._hidden(name) for name in sorted(denied - {VISIBILITY_PROBE})}),
        )

    def _hidden(self, topic: str) -> Unknown:
        return hidden_topic(self._speaker, topic, errors.denied(self._speaker, errors.describe_topic(topic)))

    async def _first(self, opened: Open) -> Address:
        """The first bootstrap server that answers, in any order."""
        split = (server.rpartition(":") for server in self._cluster.bootstrap_servers)
        places = [(host.strip("[]"), int(port)) for host, _, port in split]
        failed: WireError = ConnectionLostError("there is no bootstrap server")
        for address in random.sample(places, len(places)):
            try:
                self._lines.append(await opened(address))
                return address
            except ConnectionLostError as error:
                failed = error
        raise failed

    def _judged(self, one: wire_topics.ConfigsOf, shelf: ConfigShelf) -> Configs | None:
        """None for a topic that was deleted meanwhile."""
        if one.error == 0:
            return shelf.mapping(one.entries)
        from confluent_kafka import KafkaError  # reads begin before this is imported

        error = KafkaError(one.error, one.message) if one.message else KafkaError(one.error)
        failed = errors.translate(self._speaker, error, errors.describe_configs(one.name))
        if failed.kind == "unreachable":
            raise failed
        return None if failed.kind == "missing" else unknown_configs(self._speaker, one.name, failed)


def _described(told: Iterable[wire_topics.TopicOf]) -> tuple[dict[str, wire_topics.TopicOf], frozenset[str]]:
    """By name, those that are there; and those that were asked for and may not be seen. Raises BrokerError."""
    found: dict[str, wire_topics.TopicOf] = {}
    denied: set[str] = set()
    for topic in told:
        if topic.error == 0:
            found[topic.name] = topic
        elif (kind := errors.KINDS_BY_CODE.get(topic.error)) == "denied":
            denied.add(topic.name)
        elif kind not in ("missing", "invalid"):
            raise BrokerError(topic.error, f"metadata of {topic.name}")
    found.pop(VISIBILITY_PROBE, None)
    return found, frozenset(denied)


async def _metadata(line: WireConnection, names: list[str] | None) -> wire_topics.ClusterOf:
    version = line.negotiated(
        wire_topics.METADATA, wire_topics.METADATA_LOWEST, wire_topics.METADATA_NEWEST, "Metadata"
    )
    sent = line.send((wire_topics.METADATA, version, True), [wire_topics.pack_metadata(names)], PATIENCE)
    told = _unpacked(await sent, wire_topics.unpack_metadata)
    await asyncio.sleep(told.throttle / 1000)  # the broker does not listen meanwhile (KIP-219)
    return told


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
            waiting.append(next(turns).send(api, [wire_topics.pack_describe_configs(batch)], PATIENCE))
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

    def of(self, told: Told) -> tuple[LivePartition, ...]:
        known = self._lists.get(id(told))
        if known is None:
            known = self._lists[id(told)] = told, tuple(map(self._one, told))
        return known[1]

    def _one(self, told: wire_topics.PartitionOf) -> LivePartition:
        found = self._single.get(told)
        if found is None:
            found = self._single[told] = LivePartition(*told)
        return found


def _live(topic: wire_topics.TopicOf, configs: Configs, parts: _Partitions) -> LiveTopic:
    """The id as Kafka itself prints it: base64 for URLs, without its padding."""
    topic_id = binascii.b2a_base64(topic.topic_id).translate(_FOR_URLS)[:22].decode()
    return LiveTopic(topic.name, topic_id, parts.of(topic.partitions), configs, topic.internal)
