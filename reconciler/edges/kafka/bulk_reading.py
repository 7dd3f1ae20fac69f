"""Reads a whole cluster over our own connection: librdkafka's objects cost ten times the CPU for the same answer.

Border: an optimisation and nothing else. What cannot be asked or answered this way (settings only librdkafka knows, an
old broker, a lost connection) is None, and ``reading`` asks again and finds the words for what is wrong.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
from asyncio import Future
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import KafkaError

from reconciler.edges.kafka import errors
from reconciler.edges.kafka.config_shelf import ConfigShelf
from reconciler.edges.kafka.connection import CONNECT_SECONDS, Connection, client_settings
from reconciler.edges.kafka.reading import VISIBILITY_PROBE, Configs, batched, brokers_of, unknown_configs
from reconciler.live import LiveCluster, LivePartition, LiveTopic
from reconciler.topology import Cluster, Principal
from wire import topics as wire_topics
from wire.buffers import BufferPool
from wire.connection import Connection as WireConnection
from wire.connection import Frame
from wire.dialing import connect
from wire.errors import BrokerError, WireError
from wire.settings import connection_settings

FROM_TOPICS = 250
"""Fewer named topics than this are not worth a connection of their own."""
BATCH = 250
NAMES = 2_000
CONNECTIONS = 2
IN_FLIGHT = 3
PATIENCE = 15.0
CONNECT_WITHIN = 5.0

_log = logging.getLogger("reconciler.kafka")
Answer = TypeVar("Answer")


def read_in_bulk(
    connection: Connection, cluster: Cluster, principal: Principal, topics: Collection[str] | None = None
) -> LiveCluster | None:
    """As ``reading.read_cluster``; None when this way is closed. Raises ClusterError where no broker can be spoken to,
    or where the cluster refuses what every plan needs."""
    connection.wait_out_throttle()
    request = connection.admin.describe_cluster(request_timeout=CONNECT_SECONDS)
    described = connection.first(request, errors.DESCRIBE_CLUSTER)
    if not described.nodes:
        return None
    address = _address(described.nodes, cluster.bootstrap_servers)
    names = None if topics is None else sorted(set(topics))
    try:
        found = asyncio.run(_Reading(connection, client_settings(cluster, principal)).read(address, names))
    except WireError as error:
        _log.debug("cluster %s cannot be read in bulk: %s", cluster.name, connection.clean(str(error)))
        return None
    told = found.topics
    return LiveCluster(
        name=cluster.name,
        cluster_id=described.cluster_id,
        brokers=brokers_of(described),
        topics=MappingProxyType({name: told[name] for name in sorted(told)}),
        sees_all=found.sees_all,
    )


def _address(nodes: Sequence[Any], bootstrap: Sequence[str]) -> tuple[str, int]:
    """One broker, so that all answers are of one mind; where possible one whose address is known to lead there."""
    known = [node for node in nodes if f"{node.host}:{node.port}" in bootstrap]
    chosen = random.choice(known or list(nodes))  # noqa: S311 - any of them
    return str(chosen.host), int(chosen.port)


@dataclass(slots=True)
class _Found:
    topics: dict[str, LiveTopic] = field(default_factory=dict)
    sees_all: bool = True


class _Reading:
    """One read. Raises WireError and ClusterError."""

    def __init__(self, connection: Connection, settings: Mapping[str, str]) -> None:
        self._of = connection
        self._settings = settings

    async def read(self, address: tuple[str, int], names: list[str] | None) -> _Found:
        asked, pool = connection_settings(self._settings), BufferPool()
        settings = replace(asked, connect_timeout=min(asked.connect_timeout, CONNECT_WITHIN))
        lines: list[WireConnection] = []
        try:
            for _ in range(CONNECTIONS):
                lines.append(await connect(address, settings, pool))
            return await self._read(lines, names)
        finally:
            for line in lines:
                line.close()

    async def _read(self, lines: list[WireConnection], names: list[str] | None) -> _Found:
        asked = [[VISIBILITY_PROBE], *([None] if names is None else batched(names, NAMES))]
        found = _Found()
        described: dict[str, wire_topics.TopicOf] = {}
        for some in asked:
            for topic in await _metadata(lines[0], some):
                if topic.error == 0:
                    described[topic.name] = topic
                elif (kind := errors.KINDS_BY_CODE.get(topic.error)) == "denied":
                    found.sees_all = False
                elif kind not in ("missing", "invalid"):
                    raise BrokerError(topic.error, f"metadata of {topic.name}")
        described.pop(VISIBILITY_PROBE, None)
        shelf = ConfigShelf()
        for one in await _configs(lines, sorted(described)):
            configs = self._judged(one, shelf)
            if configs is not None:
                found.topics[one.name] = _live(described[one.name], configs)
        return found

    def _judged(self, one: wire_topics.ConfigsOf, shelf: ConfigShelf) -> Configs | None:
        """None for a topic that was deleted meanwhile."""
        if one.error == 0:
            return shelf.mapping(one.entries)
        error = KafkaError(one.error, one.message) if one.message else KafkaError(one.error)
        failed = self._of.error(error, errors.describe_configs(one.name))
        if failed.kind == "unreachable":
            raise failed
        return None if failed.kind == "missing" else unknown_configs(self._of, one.name, failed)


async def _metadata(line: WireConnection, names: list[str] | None) -> list[wire_topics.TopicOf]:
    version = line.negotiated(
        wire_topics.METADATA, wire_topics.METADATA_LOWEST, wire_topics.METADATA_NEWEST, "Metadata"
    )
    sent = line.send((wire_topics.METADATA, version, True), [wire_topics.pack_metadata(names)], PATIENCE)
    throttle, topics = _unpacked(await sent, wire_topics.unpack_metadata)
    await asyncio.sleep(throttle / 1000)  # the broker does not listen meanwhile (KIP-219)
    return topics


async def _configs(lines: Sequence[WireConnection], names: Sequence[str]) -> list[wire_topics.ConfigsOf]:
    version = wire_topics.CONFIGS_VERSION
    for line in lines:
        line.negotiated(wire_topics.DESCRIBE_CONFIGS, version, version, "DescribeConfigs")
    reader = wire_topics.ConfigReader()
    batches, turns = batched(names, BATCH), cycle(lines)
    waiting: deque[Future[Frame]] = deque()
    found: list[wire_topics.ConfigsOf] = []
    while True:
        for batch in islice(batches, IN_FLIGHT * len(lines) - len(waiting)):
            api = (wire_topics.DESCRIBE_CONFIGS, version, True)
            waiting.append(next(turns).send(api, [wire_topics.pack_describe_configs(batch)], PATIENCE))
        if not waiting:
            return found
        throttle, some = _unpacked(await waiting.popleft(), reader.unpack)
        found += some
        await asyncio.sleep(throttle / 1000)


def _unpacked(frame: Frame, unpack: Callable[[memoryview], Answer]) -> Answer:
    try:
        return unpack(frame.body)
    finally:
        if frame.buffer is not None:
            frame.buffer.release()


def _live(topic: wire_topics.TopicOf, configs: Configs) -> LiveTopic:
    topic_id = base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")  # as Kafka itself prints it
    partitions = tuple(LivePartition(*part) for part in topic.partitions)
    return LiveTopic(topic.name, topic_id, partitions, configs, topic.internal)
