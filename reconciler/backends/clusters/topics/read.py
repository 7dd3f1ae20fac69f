"""Reads all or named topics of a cluster, with partitions and configs. Never auto-creates a topic.

``ReadAhead`` does so on a thread while the program loads its YAML. It only saves time: if it fails, ``read_cluster``
reads again and reports the error.
"""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import logging
import random
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from reconciler.backends.connections import errors
from reconciler.backends.connections.credentials import cleaned, client_settings, speaker_of
from reconciler.backends.connections.errors import Speaker
from reconciler.errors import ClusterError, ReconcilerError, Unknown
from reconciler.kafka.client.auth.settings import connection_settings
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.connections import BrokerConnections
from reconciler.kafka.client.errors import BrokerError, WireError
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol import metadata_and_configs as wire_topics
from reconciler.kafka.protocol.metadata_and_configs import ConfigOf
from reconciler.model.environment.topology import Cluster, Principal
from reconciler.model.live import Broker, ConfigValue, LiveCluster, LivePartition, LiveTopic, Source
from reconciler.text import batched

if TYPE_CHECKING:  # reads begin before kafka-python is imported
    from reconciler.backends.connections.requests import Requests

BATCH = 250
"""Topics of one DescribeConfigs request, names of one Metadata request, and requests in flight: a response about
thousands of topics would delay all others on the connection."""
NAMES = 2_000
IN_FLIGHT = 3
ANSWER_WITHIN = 15.0
CONNECT_WITHIN = 3.0
LEAVES_WITHIN = 1.0
"""Seconds for a cancelled read to end: closing connections takes no time, but a DNS lookup may still run."""
SWITCH_SECONDS = 0.0005
"""Interpreter's switch interval (GIL) while YAML is read. ``ReadAhead`` needs the GIL briefly after each response: with
Python's default of 5 ms, connecting alone takes 0.3 s."""

_FOR_URLS = bytes.maketrans(b"+/", b"-_")
_log = logging.getLogger("reconciler.kafka")
Answer = TypeVar("Answer")


def read_cluster(
    requests: Requests, topics: Collection[str] | None = None, config_broker: int | None = None
) -> LiveCluster:
    """All topics that the principal may describe, or only existing ones among ``topics``.

    ``config_broker``: the broker to ask for configs, None for any. Raises ClusterError.
    """
    names = None if topics is None else sorted(set(topics))
    return requests.query(
        errors.DESCRIBE_CLUSTER, lambda: _reading(requests.wire, requests.speaker, names, config_broker)
    )


async def _reading(
    wire: BrokerConnections, speaker: Speaker, names: list[str] | None = None, config_broker: int | None = None
) -> LiveCluster:
    """Raises WireError and ClusterError."""
    line = await wire.any_control()
    probe = await metadata(line, [VISIBILITY_PROBE])
    for broker in probe.brokers:
        wire.learn(broker.number, broker.host, broker.port)
    # All from one broker, so that responses are consistent. A bootstrap address that is no broker's own (a load
    # balancer) may lead to another broker each time.
    if probe.brokers and line.where not in {f"{broker.host}:{broker.port}" for broker in probe.brokers}:
        line = await wire.control(random.choice(probe.brokers).number)  # noqa: S311 - any of them
    wanted = [None] if names is None else batched(names, NAMES)
    described: dict[str, wire_topics.TopicOf] = {}
    denied: set[str] = set()
    for answer in [probe, *[await metadata(line, some) for some in wanted]]:
        for topic in answer.topics:
            if topic.error == 0:
                described[topic.name] = topic
            elif (kind := errors.kind_of(topic.error)) == "denied":
                denied.add(topic.name)
            elif kind not in ("missing", "invalid"):
                raise BrokerError(topic.error, f"metadata of {topic.name}")
    described.pop(VISIBILITY_PROBE, None)
    shelf, parts, topics = ConfigShelf(), _Partitions(), dict[str, LiveTopic]()
    if config_broker is not None:
        line = await wire.control(config_broker)
    async for some in _configs(line, sorted(described)):
        for pair in some:
            configs = _judged(speaker, pair, shelf)
            if configs is not None:
                topic = described[pair.name]
                # As Kafka itself prints an id: base64 for URLs, without its padding.
                topic_id = binascii.b2a_base64(topic.topic_id).translate(_FOR_URLS)[:22].decode()
                partitions = parts.of(topic.partitions)
                topics[pair.name] = LiveTopic(topic.name, topic_id, partitions, configs, topic.internal)
    hidden = {
        name: hidden_topic(speaker, name, errors.denied(speaker, errors.describe_topic(name)))
        for name in sorted(denied - {VISIBILITY_PROBE})
    }
    return LiveCluster(
        name=speaker.cluster,
        cluster_id=probe.cluster_id,
        brokers=tuple(Broker(*broker[:3], broker.rack or None) for broker in sorted(probe.brokers)),
        topics=MappingProxyType({name: topics[name] for name in sorted(topics)}),
        sees_all=not denied,
        hidden=MappingProxyType(hidden),
    )


def _judged(speaker: Speaker, pair: wire_topics.ConfigsOf, shelf: ConfigShelf) -> Configs | None:
    """Configs of a topic; None if it was deleted meanwhile."""
    if pair.error == 0:
        return shelf.mapping(pair.entries)
    failed = errors.translate(speaker, pair.error, errors.describe_configs(pair.name), pair.message)
    if failed.kind == "unreachable":
        raise failed
    return None if failed.kind == "missing" else unknown_configs(speaker, pair.name, failed)


async def metadata(line: Connection, names: Sequence[str] | None) -> wire_topics.ClusterOf:
    """Metadata of ``names``, or of every topic that the principal may describe. Raises WireError."""
    version = line.negotiated(
        wire_topics.METADATA, wire_topics.METADATA_LOWEST, wire_topics.METADATA_NEWEST, "Metadata"
    )
    await asyncio.sleep(max(0.0, line.throttled_until - time.monotonic()))
    sent = line.send((wire_topics.METADATA, version, True), [wire_topics.pack_metadata(names)], ANSWER_WITHIN)
    parts = _unpacked(await sent, wire_topics.unpack_metadata)
    await asyncio.sleep(parts.throttle / 1000)  # the broker mutes the connection meanwhile (KIP-219)
    return parts


async def _configs(line: Connection, names: Sequence[str]) -> AsyncIterator[list[wire_topics.ConfigsOf]]:
    """Yields response by response, so that decoding one overlaps with the broker's work on the next."""
    version = wire_topics.CONFIGS_VERSION
    line.negotiated(wire_topics.DESCRIBE_CONFIGS, version, version, "DescribeConfigs")
    reader = wire_topics.ConfigReader()
    batches, waiting = batched(names, BATCH), deque[asyncio.Future[Frame]]()
    while True:
        for batch in islice(batches, IN_FLIGHT - len(waiting)):
            api = (wire_topics.DESCRIBE_CONFIGS, version, True)
            waiting.append(line.send(api, [wire_topics.pack_describe_configs(batch)], ANSWER_WITHIN))
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
    """Interns equal partitions: most topics have one partition, and brokers are few."""

    def __init__(self) -> None:
        self._single: dict[wire_topics.PartitionOf, LivePartition] = {}
        # Keeps the lists alive, so that no other list gets the id of one.
        self._lists: dict[int, tuple[tuple[wire_topics.PartitionOf, ...], tuple[LivePartition, ...]]] = {}

    def of(self, parts: tuple[wire_topics.PartitionOf, ...]) -> tuple[LivePartition, ...]:
        """Partitions as values. Equal ones, and equal lists, are one object, so 100,000 partitions need little memory
        and compare quickly."""
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


async def _read_once(cluster: Cluster, principal: Principal) -> LiveCluster | None:
    """The cluster, or None if it cannot be read. A cancelled read leaves no connection open."""
    try:
        asked = connection_settings(client_settings(cluster, principal))
        settings = replace(asked, connect_timeout=min(asked.connect_timeout, CONNECT_WITHIN))
        with contextlib.closing(BrokerConnections(cluster.name, cluster.bootstrap_servers, settings)) as wire:
            return await _reading(wire, speaker_of(cluster, principal))
    except WireError as error:
        _log.debug("cluster %s cannot be read yet: %s", cluster.name, cleaned(str(error), cluster, principal))
        return None


class ReadAhead:
    """Starts reads at once, for one principal. ``close`` cancels unfinished ones."""

    def __init__(self, clusters: Mapping[str, Cluster], principal: Principal) -> None:
        self._clusters = clusters
        self._principal = principal
        self._answers: dict[str, Future[LiveCluster | None]] = {name: Future() for name in clusters}
        self._loop = asyncio.new_event_loop()
        self._enough = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def reads(self, cluster: Cluster) -> bool:
        """Whether this cluster is being read, with the same settings."""
        return self._clusters.get(cluster.name) == cluster

    def take(self, name: str) -> LiveCluster | None:
        """Waits for a cluster. None if the read failed or was cancelled."""
        return self._answers[name].result()

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # the reads have ended and closed the loop
            self._loop.call_soon_threadsafe(self._enough.set)
        self._thread.join(LEAVES_WITHIN)

    def _run(self) -> None:
        """The thread: reads all clusters at once, until all have answered or no caller needs them."""

        async def read_one(cluster: Cluster) -> None:
            future = self._answers[cluster.name]
            try:
                future.set_result(await _read_once(cluster, self._principal))
            except ReconcilerError:
                future.set_result(None)
            except Exception as error:  # noqa: BLE001 - a slip of ours, for the thread that asks
                future.set_exception(error)

        async def read() -> None:
            # Reads that no caller needs any more are cancelled, instead of delaying the end of the command.
            enough = asyncio.create_task(self._enough.wait())
            reads = asyncio.gather(*map(read_one, self._clusters.values()))
            await asyncio.wait((enough, reads), return_when=asyncio.FIRST_COMPLETED)
            for item in (enough, reads):
                item.cancel()
            await asyncio.gather(enough, reads, return_exceptions=True)

        # Decoding yields to the main thread between topics, which would otherwise wait long for the GIL.
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


Configs = Mapping[str, ConfigValue] | Unknown

VISIBILITY_PROBE = "reconciler-visibility-probe"
"""An unused name. Only a principal with Describe on all topics gets UNKNOWN_TOPIC_OR_PARTITION for it; others are
denied."""
TOPIC, BUILT_IN = 1, 5
_SOURCES = {
    TOPIC: Source.TOPIC,
    2: Source.BROKER,
    3: Source.CLUSTER,
    4: Source.STATIC,
    BUILT_IN: Source.BUILT_IN,
}


class ConfigShelf:
    """Interns configs within one read of one cluster: ten thousand topics mostly share the same thirty entries."""

    def __init__(self) -> None:
        self._values: dict[ConfigOf, ConfigValue] = {}
        self._mappings: dict[tuple[tuple[str, int], ...], Mapping[str, ConfigValue]] = {}
        self._known: dict[int, tuple[tuple[ConfigOf, ...], Mapping[str, ConfigValue]]] = {}

    def mapping(self, entries: tuple[ConfigOf, ...]) -> Mapping[str, ConfigValue]:
        """Config name -> value, sorted. An identical tuple is found by its ``id``, without comparing entries."""
        known = self._known.get(id(entries))
        if known is not None:
            return known[1]
        configs: dict[str, ConfigValue] = {}
        for entry in sorted(entries, key=lambda config: config.name):
            value = self._values.get(entry)
            if value is None:
                source = _SOURCES.get(entry.source, Source.BUILT_IN)
                value = self._values[entry] = ConfigValue(entry.value, source, entry.sensitive, entry.read_only)
            configs[sys.intern(entry.name)] = value
        # the shelf keeps all values and lists alive, so an id stays unique
        made = self._mappings.setdefault(tuple((n, id(v)) for n, v in configs.items()), MappingProxyType(configs))
        self._known[id(entries)] = entries, made
        return made


def hidden_topic(speaker: Speaker, topic: str, failed: ClusterError) -> Unknown:
    description = f"{failed.what}, so it is not known whether it exists"
    todo = f"{failed.todo} (a Deny rule that names it wins over that: remove it)"
    return Unknown(f"{speaker.cluster}/{topic}", description, todo)


def unknown_configs(speaker: Speaker, topic: str, failed: ClusterError) -> Unknown:
    return Unknown(f"configs of {speaker.cluster}/{topic}", f"{failed.what}. {failed.why}", failed.todo)
