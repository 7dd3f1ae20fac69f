"""Reads and appends to small topics, such as the offset map: a few records, from an offset to the end.

For what a mirror keeps beside its records. Appending is neither idempotent nor transactional: write only what may
stand twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

from reconciler.kafka.client.cluster import EARLIEST, LATEST, NO_ID, NO_LEADER, ClusterClient, Key
from reconciler.kafka.client.errors import MOVED, BrokerError
from reconciler.kafka.protocol import fetch_request as fetching
from reconciler.kafka.protocol import fetch_response as fetch_answers
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol.fetch_request import FetchLimits, FetchSession, Want
from reconciler.kafka.protocol.fetch_response import FetchedPartition
from reconciler.kafka.records.batches import CONTROL, scan, seal
from reconciler.kafka.records.codecs import LZ4
from reconciler.kafka.records.records import Record, encode, key_and_value, records_of, tail_of

APPEND_TIMEOUT_MS = 10_000
READ_BYTES, PARTITION_BYTES, WAIT_MS = 16 << 20, 2 << 20, 200
MOST_APPENDED = 5_000
NO_TIMESTAMP, INVALID_TIMESTAMP = -1, 32

KeyValue = tuple[bytes, bytes | None]
"""None: a tombstone."""


async def append(cluster: ClusterClient, topic: str, records: Mapping[int, Sequence[KeyValue]]) -> None:
    """Appends (key, value) to partitions, in order, with acks of all in-sync replicas.

    Records have our time, or none where the broker refuses it: a clock that is further ahead than
    ``message.timestamp.after.max.ms`` must not keep them from being written. Raises BrokerError (for a topic that is
    not there, among others) or ConnectionLostError; then some may be written.
    """
    await leaders(cluster, [topic])
    now = int(time.time() * 1000)
    for begin in range(0, max(map(len, records.values())), MOST_APPENDED):
        some = {partition: members[begin : begin + MOST_APPENDED] for partition, members in records.items()}
        wanted = {partition: members for partition, members in some.items() if members}
        try:
            await _append(cluster, topic, wanted, now)
        except BrokerError as error:
            if error.code != INVALID_TIMESTAMP:
                raise
            now = NO_TIMESTAMP
            await _append(cluster, topic, wanted, now)


async def leaders(cluster: ClusterClient, topics: Sequence[str]) -> None:
    """Metadata of topics that are not known yet. Raises BrokerError for one that does not exist or is hidden."""
    missing = [topic for topic in topics if topic not in cluster.topics or cluster.topics[topic].error]
    if missing:
        await cluster.refresh(missing)
    for topic in topics:
        if cluster.topics[topic].error:
            raise BrokerError(cluster.topics[topic].error, f"topic {topic} on {cluster.name}")


async def _append(cluster: ClusterClient, topic: str, records: Mapping[int, Sequence[KeyValue]], now: int) -> None:
    try:
        by_node = _by_leader(cluster, [(topic, partition) for partition in records])
    except BrokerError:
        cluster.topics.pop(topic, None)
        raise
    batches = {(topic, partition): _batch(members, now) for partition, members in records.items()}
    await asyncio.gather(
        *(_append_at(cluster, node, {key: batches[key] for key in keys}) for node, keys in by_node.items())
    )


def _batch(members: Sequence[KeyValue], now: int) -> memoryview:
    raw = memoryview(encode([Record(i, now, 0, tail_of(*pair)) for i, pair in enumerate(members)], LZ4))
    seal(raw, (-1, -1), -1, transactional=False)
    return raw


def _by_leader(cluster: ClusterClient, keys: Iterable[Key]) -> dict[int, list[Key]]:
    """Raises BrokerError for one without a leader."""
    by_node = cluster.by_leader(keys)
    if lost := by_node.get(NO_LEADER):
        raise BrokerError(5, f"{lost[0][0]}-{lost[0][1]} on {cluster.name}")
    return by_node


async def _append_at(cluster: ClusterClient, node: int, batches: Mapping[Key, memoryview]) -> None:
    connection = await cluster.connection(node, "append")
    await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
    body = producing.pack(producing.CLASSIC, None, batches, APPEND_TIMEOUT_MS)
    patience = APPEND_TIMEOUT_MS / 1000 + 5
    frame = await connection.send((protocol.PRODUCE, producing.CLASSIC, False), body, patience)
    with connection.read(frame):
        throttle, answers = producing.unpack(producing.CLASSIC, frame.body)
    connection.throttle(throttle)
    for answer in answers:
        if answer.error:
            if answer.error in MOVED:
                cluster.topics.pop(answer.topic, None)
            raise BrokerError(answer.error, f"appending to {answer.topic}-{answer.partition} on {cluster.name}")


async def read(
    cluster: ClusterClient, offsets: Mapping[Key, int], ends: Mapping[Key, int], *, committed: bool = False
) -> AsyncIterator[FetchedPartition]:
    """Answers of Fetch from ``offsets`` until each partition has been read to its end in ``ends``, in order.

    Batches may begin before and reach behind what was asked for. The records of an answer are gone when the next one is
    asked for. Raises BrokerError or ConnectionLostError.
    """
    unread = {key: offset for key, offset in offsets.items() if offset < ends[key]}
    while unread:
        for node, keys in _by_leader(cluster, unread).items():
            async for answer in _fetch(cluster, node, {key: unread[key] for key in keys}, committed):
                key = (answer.topic, answer.partition)
                if answer.error:
                    if answer.error in MOVED:
                        cluster.topics.pop(answer.topic, None)
                    raise BrokerError(answer.error, f"reading {key[0]}-{key[1]} on {cluster.name}")
                yield answer
                after = next_offset(answer, unread[key])
                unread[key] = after
                if after >= ends[key]:
                    del unread[key]


async def read_whole(cluster: ClusterClient, keys: Sequence[Key]) -> AsyncIterator[KeyValue]:
    """The records with a key that partitions hold now. Raises BrokerError or ConnectionLostError."""
    first, until = await begins(cluster, keys), await ends(cluster, keys)
    async for answer in read(cluster, first, until):
        for pair in key_values(answer):
            yield pair


def key_values(answer: FetchedPartition) -> Iterator[KeyValue]:
    """Of its records that have a key."""
    for batch in scan(answer.records):
        if not batch.attributes & CONTROL:
            for record in records_of(answer.records, batch):
                key, value = key_and_value(record)
                if key is not None:
                    yield key, value


def next_offset(answer: FetchedPartition, offset: int) -> int:
    """The offset after the last whole batch of an answer that was asked from ``offset``."""
    batches = scan(answer.records)
    return max(offset, batches[-1].next_offset) if batches else offset


async def _fetch(
    cluster: ClusterClient, node: int, wanted: Mapping[Key, int], committed: bool
) -> AsyncIterator[FetchedPartition]:
    connection = await cluster.connection(node, "read")
    await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
    ids = {topic: cluster.topics[topic].topic_id for topic, _ in wanted}
    by_name = any(topic_id == NO_ID for topic_id in ids.values())
    version = fetch_answers.version_for(connection.negotiated, by_name=by_name)
    session = FetchSession()
    session.epoch = -1  # no session: everything is said in this one request
    for (topic, partition), offset in wanted.items():
        leader = cluster.leader(topic, partition)
        epoch = leader.epoch if leader is not None else -1
        session.want(Want(topic, ids[topic], partition, offset, epoch, PARTITION_BYTES))
    body = fetching.pack(version, session, FetchLimits(WAIT_MS, 1, READ_BYTES, committed))
    frame = await connection.send((protocol.FETCH, version, version >= fetch_answers.IDS), [body])
    with connection.read(frame):
        names = {topic_id: topic for topic, topic_id in ids.items()}
        fetched = fetch_answers.unpack(version, frame.body, names)
        connection.throttle(fetched.throttle_ms)
        if fetched.error:
            raise BrokerError(fetched.error, f"reading from broker {node} of {cluster.name}")
        for answer in fetched.partitions:
            yield answer


async def ends(cluster: ClusterClient, keys: Sequence[Key], *, committed: bool = False) -> dict[Key, int]:
    """Where partitions end now: high watermark, or last stable offset. Raises BrokerError, ConnectionLostError."""
    return await bounds(cluster, keys, LATEST, committed=committed)


async def bounds(cluster: ClusterClient, keys: Iterable[Key], timestamp: int, *, committed: bool) -> dict[Key, int]:
    """As ``ClusterClient.list_offsets``, of all or none. Raises BrokerError, ConnectionLostError."""
    offsets: dict[Key, int] = {}
    for key, offset in (await cluster.list_offsets(dict.fromkeys(keys, timestamp), committed=committed)).items():
        if isinstance(offset, BrokerError):
            if offset.code in MOVED:
                cluster.topics.pop(key[0], None)
            raise offset
        offsets[key] = offset
    return offsets


async def begins(cluster: ClusterClient, keys: Sequence[Key]) -> dict[Key, int]:
    """Log start offsets. Raises BrokerError, ConnectionLostError."""
    return await bounds(cluster, keys, EARLIEST, committed=False)
