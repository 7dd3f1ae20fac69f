"""A cluster as a client sees it: metadata, leaders, coordinators, and its topics from one listing to the next."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from reconciler.kafka.client.auth.settings import ConnectionSettings
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.connections import BrokerConnections
from reconciler.kafka.client.errors import BrokerError, ConnectionLostError, OtherClusterError, WireError, check
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import metadata_and_configs as topics
from reconciler.kafka.protocol.flexible import ResponseReader
from reconciler.kafka.protocol.groups.group_offsets import NO_GROUP
from reconciler.kafka.protocol.metadata_and_configs import TopicOf

Key = tuple[str, int]
NO_ID = UUID(int=0)
NO_LEADER = -1
EARLIEST, LATEST = -2, -1
"""Timestamps by which ListOffsets answers with the log start and the end."""
GROUP, TRANSACTION = 0, 1
"""Key types of FindCoordinator."""
ANSWER_WITHIN = 5.0
"""Seconds for metadata and coordinators, which a broker has in memory: a silent one must not hold up a lane."""


@dataclass(frozen=True, slots=True)
class Leader:
    """``node`` is NO_LEADER while an election runs."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """``error`` is Kafka's code for the topic (3: it does not exist, 29: we may not see it)."""

    name: str
    topic_id: UUID
    error: int
    leaders: Mapping[int, Leader] = field(default_factory=dict)
    """By partition; node -1: it has no leader now."""


@dataclass(frozen=True, slots=True)
class CommittedPosition:
    """A committed offset: ``offset`` is -1 where nothing is committed."""

    offset: int
    metadata: str


class ClusterClient(BrokerConnections):
    """Made inside a running loop; ``close`` before the loop ends. ``name`` appears in errors.

    ``controller``: the broker that takes requests for the controller, as the last metadata named it; -1 for none.
    ``cluster_id``: of the expected cluster, else of the one that answered first. No connection to another cluster
    is used, whatever the addresses lead to meanwhile. ``topic_prefix``: of the program's own topics there.
    ``uncompressed``: its brokers refuse compressed records.
    """

    def __init__(
        self,
        name: str,
        bootstrap: Sequence[str],
        settings: ConnectionSettings,
        cluster_id: str = "",
        topic_prefix: str = "",
        uncompressed: bool = False,
    ) -> None:
        super().__init__(name, bootstrap, settings)
        self.topic_prefix, self.uncompressed = topic_prefix, uncompressed
        self.topics: dict[str, TopicMetadata] = {}
        """By name, as ``refresh`` last read each; those that it was not asked about may be old. A caller that meets an
        error of ``MOVED`` removes the topic, so that the next one reads it again."""
        self.brokers: tuple[int, ...] = ()
        """Ids of the brokers that were up at the last ``refresh``."""
        self.controller = NO_LEADER
        self.cluster_id = cluster_id

    # metadata

    async def refresh(self, topics: Iterable[str] | None, connection: Connection | None = None) -> None:
        """Reads metadata of ``topics`` (None: of all we may see) into ``self.topics``, which brokers there are, and
        the cluster's id. ``connection``: to the broker that is asked, else any.

        Raises ConnectionLostError or BrokerError.
        """
        entries = None if topics is None else sorted(set(topics))
        answer = await self._metadata(entries, connection or await self.any_control())
        self.brokers = tuple(broker.node_id for broker in answer.brokers)
        self.controller = answer.controller_id
        for broker in answer.brokers:
            self.learn(broker.node_id, broker.host, broker.port)
        for topic in answer.topics:
            leaders = {p.partition_index: Leader(p.leader_id, p.leader_epoch) for p in topic.partitions}
            topic_id = getattr(topic, "topic_id", None) or NO_ID
            self.topics[topic.name] = TopicMetadata(topic.name, topic_id, topic.error_code, leaders)

    async def _metadata(self, entries: Sequence[str] | None, connection: Connection) -> Any:
        """Metadata of named topics, or of all for None. Never with auto-creation: asking about a missing topic must not
        make it with the broker's defaults. Also learns which cluster answered, so that another cluster behind the same
        address is noticed."""
        version = connection.version(protocol.MetadataRequest)
        entry = protocol.MetadataRequest.MetadataRequestTopic
        answer = await connection.call(
            protocol.MetadataRequest(
                topics=None if entries is None else [entry(topic_id=NO_ID, name=name) for name in entries],
                allow_auto_topic_creation=False,
                version=version,
            ),
            ANSWER_WITHIN,
        )
        self.answered(answer.cluster_id or "", connection)
        return answer

    def answered(self, cluster_id: str, connection: Connection) -> None:
        """``connection`` leads to the cluster with this id, empty where it does not say. Raises OtherClusterError, and
        closes it, where another one is expected."""
        cluster_id = cluster_id or self.cluster_id
        if self.cluster_id not in ("", cluster_id):
            error = OtherClusterError(
                f"another cluster answers at {connection.where} for {self.name}: {cluster_id}, not {self.cluster_id}. "
                "Nothing is read from it or written to it. Correct the address, name or tunnel that leads there; where "
                "it takes the other's place: reconciler plan ENV, reconciler mirror stop ENV FLOW, reconciler apply ENV"
            )
            connection.close(error)
            raise error
        self.cluster_id = cluster_id

    def mean(self, cluster_id: str) -> None:
        """Expects the cluster with this id from now on, unless it is empty."""
        if cluster_id and self.cluster_id != cluster_id:
            self.close()
            self.cluster_id = cluster_id

    async def _opened(self, connection: Connection) -> None:
        if self.cluster_id:
            try:
                await self._metadata((), connection)
            except WireError:
                connection.close()
                raise

    def leader(self, topic: str, partition: int) -> Leader | None:
        known = self.topics.get(topic)
        return known.leaders.get(partition) if known is not None else None

    async def coordinator(self, key: str, kind: int) -> int:
        """Node of the group (0) or transaction (1) coordinator, looked up again each time. Raises BrokerError."""
        connection = await self.any_control()
        answer = await connection.call(
            protocol.FindCoordinatorRequest(
                key=key, key_type=kind, version=connection.version(protocol.FindCoordinatorRequest)
            ),
            ANSWER_WITHIN,
        )
        check(answer.error_code, f"coordinator of {key} on {self.name}")
        self.learn(answer.node_id, answer.host, answer.port)
        return int(answer.node_id)

    # offsets

    async def list_offsets(self, wanted: Mapping[Key, int], *, committed: bool) -> dict[Key, int | BrokerError]:
        """Offset per partition for a timestamp, EARLIEST or LATEST; -1 where no record is that young.

        Partitions whose leader does not answer get a BrokerError; a lost connection raises.
        """
        request, offsets = protocol.ListOffsetsRequest, dict[Key, int | BrokerError]()
        topic_type, partition_type = request.ListOffsetsTopic, request.ListOffsetsTopic.ListOffsetsPartition
        async for connection, led in self.leaders_of(wanted, offsets):
            asked = [
                topic_type(
                    name=name,
                    partitions=[
                        partition_type(partition_index=p, current_leader_epoch=-1, timestamp=wanted[name, p])
                        for p in partitions
                    ],
                )
                for name, partitions in by_topic(led).items()
            ]
            # Isolation decides what LATEST is: the last stable offset, or the high watermark.
            version, isolation = connection.version(request), int(committed)
            answer = await connection.call(
                request(replica_id=-1, isolation_level=isolation, topics=asked, version=version)
            )
            for topic in answer.topics:
                for p in topic.partitions:
                    subject = f"offsets of {topic.name}-{p.partition_index} on {self.name}"
                    failure = BrokerError(p.error_code, subject) if p.error_code else None
                    offsets[topic.name, p.partition_index] = failure or p.offset
        return {key: offsets[key] if key in offsets else left_out(key, self.name) for key in wanted}

    async def positions(self, group: str, keys: Collection[Key]) -> dict[Key, CommittedPosition]:
        """Committed offsets, only stable ones (KIP-447). Raises BrokerError 88 while a transaction is undecided."""
        node = await self.coordinator(group, GROUP)
        connection = await self.control(node)
        topic_type = protocol.OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [topic_type(name=name, partition_indexes=ps) for name, ps in by_topic(keys).items()]
        version = connection.version(protocol.OffsetFetchRequest)
        answer = await connection.call(
            protocol.OffsetFetchRequest(group_id=group, topics=topics, require_stable=True, version=version)
        )
        positions = dict.fromkeys(keys, CommittedPosition(-1, ""))
        if answer.error_code == NO_GROUP:
            return positions
        check(answer.error_code, f"positions of group {group} on {self.name}")
        # A position that the answer leaves out would count as never committed, and its partition begin at ``start``.
        answered = {(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions}
        if answered and (missing := sorted(positions.keys() - answered)):
            raise left_out(missing[0], self.name)  # a group without offsets may be answered by naming none
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code == NO_GROUP:
                    continue
                check(p.error_code, f"position of {topic.name}-{p.partition_index} in group {group} on {self.name}")
                positions[topic.name, p.partition_index] = CommittedPosition(p.committed_offset, p.metadata or "")
        return positions

    def by_leader(self, keys: Iterable[Key]) -> dict[int, list[Key]]:
        """Partitions by the node that leads them; under NO_LEADER those without a leader now."""
        by_node: dict[int, list[Key]] = {}
        for key in keys:
            leader = self.leader(*key)
            by_node.setdefault(NO_LEADER if leader is None else leader.node, []).append(key)
        return by_node

    async def leaders_of(
        self, keys: Iterable[Key], failed: dict[Key, Any]
    ) -> AsyncIterator[tuple[Connection, list[Key]]]:
        """A connection to each leader with its partitions. ``failed`` gets a BrokerError for each one without a leader:
        code 5 while an election runs, 3 where the last metadata does not have it. Raises ConnectionLostError."""
        by_node = self.by_leader(keys)
        for key in by_node.pop(NO_LEADER, ()):
            failed[key] = BrokerError(5 if self.leader(*key) else 3, f"{key[0]}-{key[1]} on {self.name}")
        for node, led in by_node.items():
            yield await self.control(node), led


def left_out(key: Key, cluster: str) -> BrokerError:
    """The error of a partition that a response does not contain."""
    return BrokerError(5, f"an answer of {cluster} leaves out {key[0]}-{key[1]}")


def printed_id(topic_id: bytes) -> str:
    """A topic id as Kafka prints it; empty without one."""
    return "" if topic_id == NO_ID.bytes else base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def parsed_id(printed: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(f"{printed}==")) if printed else NO_ID


def by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    """Topic -> its partitions among ``keys``."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in keys:
        grouped.setdefault(topic, []).append(partition)
    return grouped


# Lists the topics of a cluster again and again; a response equal to the last one is not decoded.

LISTED_WITHIN = 15.0


class TopicListing:
    """``read`` returns the same object until the metadata changes, including leaders and in-sync replicas."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._last_frame = b""
        self._topics: Sequence[TopicOf] = ()

    async def read(self) -> Sequence[TopicOf]:
        """Raises WireError."""
        reader = await self._answer(None)
        frame = reader.frame[reader.at :]
        if frame != self._last_frame:
            self._topics = tuple(topics.unpack_topics(reader))
            self._last_frame = frame
        return self._topics

    async def of(self, names: Sequence[str]) -> Sequence[TopicOf]:
        """These topics, asked for by name: the answer has an error for a topic that we may not see.
        Raises WireError."""
        return topics.unpack_topics(await self._answer(names))

    async def _answer(self, names: Sequence[str] | None) -> ResponseReader:
        """A Metadata response, of which brokers and controller are taken over; topics are read by the caller as it
        needs them."""
        try:
            connection, frame = await self._ask(names)
        except ConnectionLostError:
            # The broker may have closed the connection, which was idle since the last read.
            connection, frame = await self._ask(names)
        try:
            reader, head = topics.open_metadata(frame.body)
        finally:
            frame.drop()
        connection.throttle(head.throttle)
        self._cluster.answered(head.cluster_id, connection)
        for broker in head.brokers:
            self._cluster.learn(broker.number, broker.host, broker.port)
        return reader

    async def _ask(self, names: Sequence[str] | None) -> tuple[Connection, Frame]:
        connection = await self._cluster.any_control()
        await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
        version = connection.negotiated(topics.METADATA, topics.METADATA_LOWEST, topics.METADATA_NEWEST, "Metadata")
        return connection, await connection.send(
            (topics.METADATA, version, True), [topics.pack_metadata(names)], LISTED_WITHIN
        )
