"""Reads all topics of a cluster over our own connection, at a tenth of the CPU that librdkafka's objects cost.

``ReadAhead`` does so on a thread, while the program still loads its YAML. Both only save time: the answer is None where
this way is closed (settings that only librdkafka knows, an old broker, a lost connection), and ``read`` asks again and
reports what is wrong.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import logging
import random
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from types import MappingProxyType
from typing import TypeVar

from reconciler.backends.clusters.topics.config_cache import (
    VISIBILITY_PROBE,
    Configs,
    ConfigShelf,
    hidden_topic,
    unknown_configs,
)
from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import cleaned, client_settings, speaker_of
from reconciler.backends.connections.errors import Speaker
from reconciler.errors import ReconcilerError
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
from reconciler.text import batched

FROM_TOPICS = 250
"""Fewer named topics than this are not worth a connection of their own."""
BATCH = 250
NAMES = 2_000
CONNECTIONS = 2
CONNECTIONS_AHEAD = 1
"""To each cluster. Nothing waits for these answers yet, and two requests at a time could take time from others."""
IN_FLIGHT = 3
ANSWER_WITHIN = 15.0
CONNECT_WITHIN = 3.0
LEAVES_WITHIN = 1.0
"""Seconds. To close connections takes none; the name of a server may still be looked up."""
SWITCH_SECONDS = 0.0005
"""How long the thread that reads YAML may keep the interpreter. ``ReadAhead`` wants it for a moment after each answer
of a broker: by Python's own 5 ms to connect alone takes 0.3 s."""

_FOR_URLS = bytes.maketrans(b"+/", b"-_")
_log = logging.getLogger("reconciler.kafka")
Answer = TypeVar("Answer")
Address = tuple[str, int]
Open = Callable[[Address], Awaitable[WireConnection]]


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
        # The first bootstrap server that answers, in any order.
        failed: WireError = ConnectionLostError("there is no bootstrap server")
        servers = map(host_port, self._cluster.bootstrap_servers)
        places = [(server.host, server.port) for server in servers]
        for address in random.sample(places, len(places)):
            try:
                self._lines.append(await opened(address))
                break
            except ConnectionLostError as error:
                failed = error
        else:
            raise failed
        # All of one broker, so that all answers are of one mind. A bootstrap address that no broker has itself may lead
        # to another broker each time.
        probe = await _metadata(self._lines[0], [VISIBILITY_PROBE])
        nodes = [(broker.host, broker.port) for broker in probe.brokers]
        if nodes and address not in nodes:
            address = random.choice(nodes)  # noqa: S311 - any of them
            self._lines.append(await opened(address))
            self._lines.pop(0).close()
        self._lines += [await opened(address) for _ in range(connections - 1)]
        wanted = [None] if names is None else batched(names, NAMES)
        described: dict[str, wire_topics.TopicOf] = {}
        denied: set[str] = set()
        for answer in [probe, *[await _metadata(self._lines[0], some) for some in wanted]]:
            for topic in answer.topics:
                if topic.error == 0:
                    described[topic.name] = topic
                elif (kind := errors.KINDS_BY_CODE.get(topic.error)) == "denied":
                    denied.add(topic.name)
                elif kind not in ("missing", "invalid"):
                    raise BrokerError(topic.error, f"metadata of {topic.name}")
        described.pop(VISIBILITY_PROBE, None)
        shelf, parts, topics = ConfigShelf(), _Partitions(), dict[str, LiveTopic]()
        async for some in _configs(self._lines, sorted(described)):
            for pair in some:
                configs = self._judged(pair, shelf)
                if configs is not None:
                    topic = described[pair.name]
                    # As Kafka itself prints an id: base64 for URLs, without its padding.
                    topic_id = binascii.b2a_base64(topic.topic_id).translate(_FOR_URLS)[:22].decode()
                    partitions = parts.of(topic.partitions)
                    topics[pair.name] = LiveTopic(topic.name, topic_id, partitions, configs, topic.internal)
        hidden = {
            name: hidden_topic(self._speaker, name, errors.denied(self._speaker, errors.describe_topic(name)))
            for name in sorted(denied - {VISIBILITY_PROBE})
        }
        return LiveCluster(
            name=self._cluster.name,
            cluster_id=probe.cluster_id,
            brokers=tuple(Broker(*broker[:3], broker.rack or None) for broker in sorted(probe.brokers)),
            topics=MappingProxyType({name: topics[name] for name in sorted(topics)}),
            sees_all=not denied,
            hidden=MappingProxyType(hidden),
        )

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
    waiting: deque[asyncio.Future[Frame]] = deque()
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
    """Keeps equal partitions once: most topics have one partition, and brokers are few."""

    def __init__(self) -> None:
        self._single: dict[wire_topics.PartitionOf, LivePartition] = {}
        # Keeps the lists that were read, so that no other list gets the id of one.
        self._lists: dict[int, tuple[tuple[wire_topics.PartitionOf, ...], tuple[LivePartition, ...]]] = {}

    def of(self, parts: tuple[wire_topics.PartitionOf, ...]) -> tuple[LivePartition, ...]:
        known = self._lists.get(id(parts))
        if known is None:
            live: list[LivePartition] = []
            for part in parts:
                kept = self._single.get(part)
                if kept is None:
                    kept = self._single[part] = LivePartition(*part)
                live.append(kept)
            known = self._lists[id(parts)] = parts, tuple(live)
        return known[1]


class ReadAhead:
    """Begins at once; for one principal. ``close`` breaks off what is still under way."""

    def __init__(self, clusters: Mapping[str, Cluster], principal: Principal) -> None:
        self._clusters = clusters
        self._principal = principal
        self._answers: dict[str, Future[LiveCluster | None]] = {name: Future() for name in clusters}
        self._loop = asyncio.new_event_loop()
        self._enough = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def reads(self, cluster: Cluster) -> bool:
        """False also where a cluster of this name is read with other settings."""
        return self._clusters.get(cluster.name) == cluster

    def take(self, name: str) -> LiveCluster | None:
        """Waits for it. None when it cannot be read this way, or was broken off."""
        return self._answers[name].result()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # all is read, and the loop is closed
            self._loop.call_soon_threadsafe(self._enough.set)
        self._thread.join(LEAVES_WITHIN)

    def _run(self) -> None:
        async def read_one(cluster: Cluster) -> None:
            future = self._answers[cluster.name]
            try:
                future.set_result(await reading_in_bulk(cluster, self._principal, connections=CONNECTIONS_AHEAD))
            except ReconcilerError:
                future.set_result(None)
            except Exception as error:  # noqa: BLE001 - a slip of ours, for the thread that asks
                future.set_exception(error)

        async def read() -> None:
            enough = asyncio.create_task(self._enough.wait())
            reads = asyncio.gather(*map(read_one, self._clusters.values()))
            await asyncio.wait((enough, reads), return_when=asyncio.FIRST_COMPLETED)
            for item in (enough, reads):
                item.cancel()
            await asyncio.gather(enough, reads, return_exceptions=True)

        before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(read())
        finally:
            sys.setswitchinterval(before)
            for future in self._answers.values():
                if not future.done():
                    future.set_result(None)
