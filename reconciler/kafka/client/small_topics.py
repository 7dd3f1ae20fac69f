"""Small topics as logs: a few records appended, partitions read from an offset to their end.

For what a mirror keeps beside its records. Appending is neither idempotent nor transactional: write only what may
stand twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence

from wire import fetch_answers, fetching, producing, protocol
from wire.batches import scan, seal
from wire.cluster import EARLIEST, LATEST, NO_ID, Cluster, Key
from wire.codecs import LZ4
from wire.errors import MOVED, BrokerError, ConnectionLostError, MalformedResponseError
from wire.fetch_answers import FetchedPartition
from wire.fetching import FetchLimits, FetchSession, Want
from wire.records import Record, encode, tail_of

APPEND_TIMEOUT_MS = 10_000
READ_BYTES, PARTITION_BYTES, WAIT_MS = 16 << 20, 2 << 20, 200
MOST_APPENDED = 5_000
NO_TIMESTAMP, INVALID_TIMESTAMP = -1, 32

KeyValue = tuple[bytes, bytes | None]
"""None: a tombstone."""


async def append(cluster: Cluster, topic: str, records: Mapping[int, Sequence[KeyValue]]) -> None:
    """Appends (key, value) to partitions, in order, with acks of all in-sync replicas.

    Records have our time, or none where the broker refuses it: a clock that is further ahead than
    ``message.timestamp.after.max.ms`` must not keep them from being written. Raises BrokerError (for a topic that is
    not there, among others) or ConnectionLostError; then some may stand.
    """
    await leaders(cluster, [topic])
    now = int(time.time() * 1000)
    rounds = max(-(-len(members) // MOST_APPENDED) for members in records.values())
    for part in range(rounds):
        begin = part * MOST_APPENDED
        some = {partition: members[begin : begin + MOST_APPENDED] for partition, members in records.items()}
        wanted = {partition: members for partition, members in some.items() if members}
        try:
            await _append(cluster, topic, wanted, now)
        except BrokerError as error:
            if error.code != INVALID_TIMESTAMP:
                raise
            now = NO_TIMESTAMP
            await _append(cluster, topic, wanted, now)


async def leaders(cluster: Cluster, topics: Sequence[str]) -> None:
    """Metadata of topics that are not known yet. Raises BrokerError for one that does not exist or is hidden."""
    missing = [topic for topic in topics if topic not in cluster.topics or cluster.topics[topic].error]
    if missing:
        await cluster.refresh(missing)
    for topic in topics:
        if cluster.topics[topic].error:
            raise BrokerError(cluster.topics[topic].error, f"topic {topic} on {cluster.name}")


async def _append(cluster: Cluster, topic: str, records: Mapping[int, Sequence[KeyValue]], now: int) -> None:
    by_node: dict[int, dict[Key, memoryview]] = {}
    for partition, members in records.items():
        leader = cluster.leader(topic, partition)
        if leader is None or leader.node < 0:
            cluster.topics.pop(topic, None)
            raise BrokerError(5, f"{topic}-{partition} on {cluster.name}")
        raw = memoryview(encode([Record(i, now, 0, tail_of(*one)) for i, one in enumerate(members)], LZ4))
        seal(raw, (-1, -1), -1, transactional=False)
        by_node.setdefault(leader.node, {})[topic, partition] = raw
    await asyncio.gather(*(_append_at(cluster, node, batches) for node, batches in by_node.items()))


async def _append_at(cluster: Cluster, node: int, batches: Mapping[Key, memoryview]) -> None:
    connection = await cluster.connection(node, "append")
    await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
    body = producing.pack(producing.CLASSIC, None, batches, APPEND_TIMEOUT_MS)
    patience = APPEND_TIMEOUT_MS / 1000 + 5
    frame = await connection.send((protocol.PRODUCE, producing.CLASSIC, False), body, patience)
    try:
        throttle, answers = producing.unpack(producing.CLASSIC, frame.body)
    except MalformedResponseError as error:
        connection.close(error)
        raise ConnectionLostError(str(error)) from error
    finally:
        if frame.buffer is not None:
            frame.buffer.release()
    connection.throttle(throttle)
    for answer in answers:
        if answer.error:
            if answer.error in MOVED:
                cluster.topics.pop(answer.topic, None)
            raise BrokerError(answer.error, f"appending to {answer.topic}-{answer.partition} on {cluster.name}")


async def read(
    cluster: Cluster, offsets: Mapping[Key, int], ends: Mapping[Key, int], *, committed: bool = False
) -> AsyncIterator[FetchedPartition]:
    """Answers of Fetch from ``offsets`` until each partition has been read to its end in ``ends``, in order.

    Batches may begin before and reach behind what was asked for. The records of an answer are gone when the next one is
    asked for. Raises BrokerError or ConnectionLostError.
    """
    left = {key: offset for key, offset in offsets.items() if offset < ends[key]}
    while left:
        by_node: dict[int, dict[Key, int]] = {}
        for key, offset in left.items():
            leader = cluster.leader(*key)
            if leader is None or leader.node < 0:
                raise BrokerError(5, f"{key[0]}-{key[1]} on {cluster.name}")
            by_node.setdefault(leader.node, {})[key] = offset
        for node, wanted in by_node.items():
            async for answer in _fetch(cluster, node, wanted, committed):
                key = (answer.topic, answer.partition)
                if answer.error:
                    if answer.error in MOVED:
                        cluster.topics.pop(answer.topic, None)
                    raise BrokerError(answer.error, f"reading {key[0]}-{key[1]} on {cluster.name}")
                yield answer
                after = next_offset(answer, left[key])
                left[key] = after
                if after >= ends[key]:
                    del left[key]


def next_offset(answer: FetchedPartition, offset: int) -> int:
    """The offset after the last whole batch of an answer that was asked from ``offset``."""
    batches = scan(answer.records)
    return max(offset, batches[-1].next_offset) if batches else offset


async def _fetch(
    cluster: Cluster, node: int, wanted: Mapping[Key, int], committed: bool
) -> AsyncIterator[FetchedPartition]:
    connection = await cluster.connection(node, "read")
    await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
    ids = {topic: cluster.topics[topic].topic_id for topic, _ in wanted}
    by_name = any(topic_id == NO_ID for topic_id in ids.values())
    newest = fetch_answers.NAMES if by_name else fetch_answers.IDS
    version = connection.negotiated(protocol.FETCH, fetch_answers.NAMES, newest, "Fetch")
    version = version if version >= fetch_answers.IDS else fetch_answers.NAMES
    session = FetchSession()
    session.epoch = -1  # no session: everything is said in this one request
    for (topic, partition), offset in wanted.items():
        leader = cluster.leader(topic, partition)
        epoch = leader.epoch if leader is not None else -1
        session.want(Want(topic, ids[topic], partition, offset, epoch, PARTITION_BYTES))
    body = fetching.pack(version, session, FetchLimits(WAIT_MS, 1, READ_BYTES, committed))
    frame = await connection.send((protocol.FETCH, version, version >= fetch_answers.IDS), [body])
    try:
        names = {topic_id: topic for topic, topic_id in ids.items()}
        fetched = fetch_answers.unpack(version, frame.body, names)
        connection.throttle(fetched.throttle_ms)
        if fetched.error:
            raise BrokerError(fetched.error, f"reading from broker {node} of {cluster.name}")
        for answer in fetched.partitions:
            yield answer
    except MalformedResponseError as error:
        connection.close(error)
        raise ConnectionLostError(str(error)) from error
    finally:
        if frame.buffer is not None:
            frame.buffer.release()


async def ends(cluster: Cluster, keys: Sequence[Key], *, committed: bool = False) -> dict[Key, int]:
    """Where partitions end now: high watermark, or last stable offset. Raises BrokerError, ConnectionLostError."""
    return await _bounds(cluster, keys, LATEST, committed=committed)


async def _bounds(cluster: Cluster, keys: Sequence[Key], timestamp: int, *, committed: bool) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for key, offset in (await cluster.list_offsets(dict.fromkeys(keys, timestamp), committed=committed)).items():
        if isinstance(offset, BrokerError):
            if offset.code in MOVED:
                cluster.topics.pop(key[0], None)
            raise offset
        found[key] = offset
    return found


async def begins(cluster: Cluster, keys: Sequence[Key]) -> dict[Key, int]:
    """Log start offsets. Raises BrokerError, ConnectionLostError."""
    return await _bounds(cluster, keys, EARLIEST, committed=False)
