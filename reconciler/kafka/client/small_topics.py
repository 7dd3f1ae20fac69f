"""Reads and appends to small topics, such as the offset map: a few records, from an offset to the end.

For a mirror's own records. Appending outside of a transaction is not idempotent: use it only for records that may be
duplicated.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from reconciler.kafka.client import log_ends
from reconciler.kafka.client.cluster import EARLIEST, LATEST, NO_ID, NO_LEADER, ClusterClient, Key
from reconciler.kafka.client.errors import DENIED, DUPLICATE_SEQUENCE, MOVED, BrokerError, MalformedResponseError
from reconciler.kafka.client.transactions import Identity
from reconciler.kafka.protocol import fetch as fetching
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol.fetch import FetchedPartition, FetchLimits, FetchSession, Want
from reconciler.kafka.protocol.produce import Produced
from reconciler.kafka.records.batches import Batch, CommittedFilter, scan, seal
from reconciler.kafka.records.codecs import GZIP, LZ4, NONE
from reconciler.kafka.records.records import Record, encode, key_and_value, records_of, tail_of

APPEND_TIMEOUT_MS = 10_000
READ_BYTES, PARTITION_BYTES, WAIT_MS = 16 << 20, 2 << 20, 200
HEADER_BYTES = 64 << 10
MOST_APPENDED = 5_000
REMOTE_S, TIMED_OUT = 30.0, 7
"""Seconds for which remote storage may give no record; then REQUEST_TIMED_OUT."""
NO_TIMESTAMP, INVALID_TIMESTAMP = -1, 32
_CHECKSUM_AT = 17
"""Position of the CRC in a batch's header."""
_NOT_APPENDED = frozenset({2, 87})
"""CORRUPT_MESSAGE, INVALID_RECORD."""

KeyValue = tuple[bytes, bytes | None]
"""None: a tombstone."""


async def append(
    cluster: ClusterClient, topic: str, records: Mapping[int, Sequence[KeyValue]], at_ms: int | None = None
) -> None:
    """Appends (key, value) to partitions, in order, with acks of all in-sync replicas.

    Without ``at_ms`` records have our time, or none where the broker refuses it: a clock that is further ahead than
    ``message.timestamp.after.max.ms`` must not keep them from being written. Raises BrokerError (for a missing
    topic, among others; for a time that is refused) or ConnectionLostError; then some may be written.
    """
    await leaders(cluster, [topic])
    now = int(time.time() * 1000) if at_ms is None else at_ms
    for begin in range(0, max(map(len, records.values())), MOST_APPENDED):
        some = {partition: members[begin : begin + MOST_APPENDED] for partition, members in records.items()}
        wanted = {partition: members for partition, members in some.items() if members}
        try:
            await _append(cluster, topic, wanted, now)
        except BrokerError as error:
            if error.code != INVALID_TIMESTAMP or at_ms is not None:
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
    """One batch a partition, without a producer id: a repeated append can appear twice, which is harmless in a
    compacted topic where the newest value of a key counts. If a topic has no leader, its metadata is forgotten, so the
    next try looks it up."""
    try:
        by_node = _by_leader(cluster, [(topic, partition) for partition in records])
    except BrokerError:
        cluster.topics.pop(topic, None)
        raise
    batches: dict[Key, memoryview] = {}
    for partition, members in records.items():
        raw = batches[topic, partition] = memoryview(_encoded(cluster, members, now, LZ4))
        seal(raw, (-1, -1), -1, transactional=False)
    await asyncio.gather(
        *(_append_at(cluster, node, {key: batches[key] for key in keys}) for node, keys in by_node.items())
    )


def _encoded(cluster: ClusterClient, members: Sequence[KeyValue], now: int, codec: int) -> bytearray:
    return encode(_records(members, now), NONE if cluster.uncompressed else codec)


def _records(members: Sequence[KeyValue], now: int) -> list[Record]:
    return [Record(i, now, 0, tail_of(*pair)) for i, pair in enumerate(members)]


def _by_leader(cluster: ClusterClient, keys: Iterable[Key]) -> dict[int, list[Key]]:
    """Raises BrokerError for one without a leader."""
    by_node = cluster.by_leader(keys)
    if lost := by_node.get(NO_LEADER):
        raise BrokerError(5, f"{lost[0][0]}-{lost[0][1]} on {cluster.name}")
    return by_node


async def append_in(
    cluster: ClusterClient, key: Key, records: Sequence[KeyValue], writer: Identity, sequence: int
) -> None:
    """Into the open transaction of ``writer``; may be repeated with the same sequence number. Raises as ``append``."""
    await append_batch(cluster, key, _encoded(cluster, records, int(time.time() * 1000), GZIP), writer, sequence)


async def append_batch(cluster: ClusterClient, key: Key, batch: bytearray, writer: Identity, sequence: int) -> Produced:
    """Like ``append_in``, for records encoded by ``encode``; outside of a transaction for a ``writer`` without one."""
    await leaders(cluster, [key[0]])
    raw = memoryview(batch)
    seal(raw, (writer.producer_id, writer.epoch), sequence, transactional=writer.transactional)
    [node] = _by_leader(cluster, [key])
    [answer] = await _append_at(cluster, node, {key: raw}, writer)
    return answer


async def _append_at(
    cluster: ClusterClient, node: int, batches: Mapping[Key, memoryview], writer: Identity | None = None
) -> list[Produced]:
    """Raises for the first partition that is refused. A writer's duplicate is no error: the broker has that batch
    already, only its answer was lost."""
    answers = await _answers(cluster, node, batches, writer)
    for answer in answers:
        if answer.error and not (writer is not None and answer.error == DUPLICATE_SEQUENCE):
            raise _refused(cluster, answer)
    return answers


def _refused(cluster: ClusterClient, answer: Produced) -> BrokerError:
    if answer.error in MOVED:
        cluster.topics.pop(answer.topic, None)
    return BrokerError(answer.error, f"appending to {answer.topic}-{answer.partition} on {cluster.name}")


async def _answers(
    cluster: ClusterClient, node: int, batches: Mapping[Key, memoryview], writer: Identity | None = None
) -> list[Produced]:
    """One Produce request to one broker, on a separate connection, so that a slow append does not delay fetches."""
    connection = await cluster.connection(node, "append")
    await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
    version = writer.produce_version if writer is not None else producing.CLASSIC
    name = writer.transactional_id if writer is not None else None
    body = producing.pack(version, name, batches, APPEND_TIMEOUT_MS)
    patience = APPEND_TIMEOUT_MS / 1000 + 5
    frame = await connection.send((protocol.PRODUCE, version, version != producing.CLASSIC), body, patience)
    with connection.read(frame):
        throttle, answers = producing.unpack(version, frame.body)
    connection.throttle(throttle)
    return answers


async def let_write(cluster: ClusterClient, keys: Collection[Key]) -> frozenset[Key]:
    """Partitions that this login may write. Writes no record: brokers authorize before they validate a batch, and
    refuse one with a wrong checksum (CORRUPT_MESSAGE; INVALID_RECORD). Raises BrokerError."""
    try:
        await leaders(cluster, sorted({topic for topic, _ in keys}))
    except BrokerError as error:
        if error.code not in DENIED:
            raise
        return frozenset().union(*[await let_write(cluster, [key]) for key in keys]) if len(keys) > 1 else frozenset()
    corrupt = _encoded(cluster, [(b"", None)], NO_TIMESTAMP, GZIP)
    seal(memoryview(corrupt), (-1, -1), -1, transactional=False)
    corrupt[_CHECKSUM_AT] ^= 0xFF
    allowed: set[Key] = set()
    for node, led in _by_leader(cluster, keys).items():
        for answer in await _answers(cluster, node, dict.fromkeys(led, memoryview(corrupt))):
            if answer.error in _NOT_APPENDED:
                allowed.add((answer.topic, answer.partition))
            elif answer.error not in DENIED:
                raise _refused(cluster, answer)
    return frozenset(allowed)


async def read(
    cluster: ClusterClient, offsets: Mapping[Key, int], ends: Mapping[Key, int], *, committed: bool = False
) -> AsyncIterator[FetchedPartition]:
    """Yields Fetch responses from ``offsets`` until each partition is read to its end in ``ends``, in order.

    Batches may begin before the requested offset and reach beyond the end. Records of a response are only valid until
    the next one is requested. Raises BrokerError or ConnectionLostError.
    """
    unread = {key: offset for key, offset in offsets.items() if offset < ends[key]}
    until = time.monotonic() + REMOTE_S
    while unread:
        for node, keys in _by_leader(cluster, unread).items():
            async for answer, nothing_left in _fetch(cluster, node, {key: unread[key] for key in keys}, committed):
                key = (answer.topic, answer.partition)
                yield answer
                after = next_offset(answer, unread[key])
                read_to = answer.last_stable if committed else answer.high_watermark
                if after > unread[key]:
                    until = time.monotonic() + REMOTE_S
                elif nothing_left and after < read_to:
                    # Compaction may have removed all that lies before the end. But a broker that waits for its remote
                    # storage answers just as well, without an error: then the records are still to come.
                    if (await log_ends.local_begins(cluster, [key])).get(key, 0) <= after:
                        after = read_to
                    elif time.monotonic() > until:
                        raise BrokerError(TIMED_OUT, f"reading {key[0]}-{key[1]} on {cluster.name} from remote storage")
                unread[key] = after
                if after >= ends[key]:
                    del unread[key]


async def fetched(
    cluster: ClusterClient, offsets: Mapping[Key, int], wait_ms: int, *, committed: bool = False
) -> AsyncIterator[FetchedPartition]:
    """The records from ``offsets`` on that exist now; waits no longer than ``wait_ms`` for the first. As ``read``."""
    for node, keys in _by_leader(cluster, offsets).items():
        async for answer, _ in _fetch(cluster, node, {key: offsets[key] for key in keys}, committed, wait_ms):
            yield answer


async def batches_at(cluster: ClusterClient, offsets: Mapping[Key, int]) -> dict[Key, Batch]:
    """Headers of the batches at ``offsets``, or of the next ones, since compaction may have removed batches. Requests
    only the bytes of a small batch; brokers return a larger one for the first partition of a request. Partitions
    without a readable batch are left out. Raises as ``read``."""
    held, unread, size = dict[Key, Batch](), dict(offsets), HEADER_BYTES
    while unread:
        before = len(held)
        for node, keys in _by_leader(cluster, unread).items():
            async for answer, _ in _fetch(cluster, node, {key: unread[key] for key in keys}, False, 0, size):
                with suppress(MalformedResponseError):
                    key = (answer.topic, answer.partition)
                    batches = (batch for batch in scan(answer.records) if batch.next_offset > offsets[key])
                    if (batch := next(batches, None)) is not None:
                        held[key] = batch
        if len(held) == before:
            break
        unread = {key: offset for key, offset in unread.items() if key not in held}
        size = min(2 * size, PARTITION_BYTES)
    return held


async def read_whole(cluster: ClusterClient, keys: Sequence[Key]) -> AsyncIterator[KeyValue]:
    """The records with a key that partitions hold now. Raises BrokerError or ConnectionLostError."""
    first, until = await begins(cluster, keys), await ends(cluster, keys)
    async for answer in read(cluster, first, until):
        for pair in key_values(answer):
            yield pair


def key_values(answer: FetchedPartition) -> Iterator[KeyValue]:
    """Keys and values of the records in an answer that have a key."""
    for record in delivered(answer):
        key, value = key_and_value(record)
        if key is not None:
            yield key, value


def delivered(
    answer: FetchedPartition, begin: int = 0, end: int = sys.maxsize, *, committed: bool = False
) -> Iterator[Record]:
    """Records of a response in [``begin``, ``end``) that a consumer would get. Decompresses no batch outside.

    ``committed``: the isolation level of the request; without aborted records. Raises CorruptBatchError."""
    for batch in delivered_batches(answer, begin, end, committed=committed):
        yield from (record for record in records_of(answer.records, batch) if begin <= record.offset < end)


def delivered_batches(answer: FetchedPartition, begin: int, end: int, *, committed: bool) -> Iterator[Batch]:
    """Batches that may contain a record of ``delivered``."""
    keep = CommittedFilter(answer.records, answer.aborted if committed else ())
    for batch in scan(answer.records):
        # A message of formats 0 and 1 has the offset of the last record inside it.
        apart = batch.next_offset <= begin or (batch.magic == 2 and batch.base >= end)
        if keep.delivers(batch) and not apart:
            yield batch


def next_offset(answer: FetchedPartition, offset: int) -> int:
    """The offset after the last whole batch of an answer that was asked from ``offset``."""
    batches = scan(answer.records)
    return max(offset, batches[-1].next_offset) if batches else offset


async def _fetch(
    cluster: ClusterClient,
    node: int,
    wanted: Mapping[Key, int],
    committed: bool,
    wait_ms: int = WAIT_MS,
    partition_bytes: int = PARTITION_BYTES,
) -> AsyncIterator[tuple[FetchedPartition, bool]]:
    """Each partition's answer, and whether its broker has no records for any: an answer that is full has none for
    some."""
    connection = await cluster.connection(node, "read")
    await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
    ids = {topic: cluster.topics[topic].topic_id for topic, _ in wanted}
    by_name = any(topic_id == NO_ID for topic_id in ids.values())
    version = fetching.version_for(connection.negotiated, by_name=by_name)
    session = FetchSession()
    session.epoch = -1  # no session: everything is said in this one request
    for (topic, partition), offset in wanted.items():
        leader = cluster.leader(topic, partition)
        epoch = leader.epoch if leader is not None else -1
        session.want(Want(topic, ids[topic], partition, offset, epoch, partition_bytes))
    body = fetching.pack(version, session, FetchLimits(wait_ms, 1, READ_BYTES, committed))
    frame = await connection.send((protocol.FETCH, version, version >= fetching.IDS), [body])
    with connection.read(frame):
        names = {topic_id: topic for topic, topic_id in ids.items()}
        answers = fetching.unpack(version, frame.body, names)
        connection.throttle(answers.throttle_ms)
        if answers.error:
            raise BrokerError(answers.error, f"reading from broker {node} of {cluster.name}")
        nothing_left = not any(len(answer.records) for answer in answers.partitions)
        for answer in answers.partitions:
            if answer.error:
                if answer.error in MOVED:
                    cluster.topics.pop(answer.topic, None)
                raise BrokerError(answer.error, f"reading {answer.topic}-{answer.partition} on {cluster.name}")
            yield answer, nothing_left


async def ends(cluster: ClusterClient, keys: Sequence[Key], *, committed: bool = False) -> dict[Key, int]:
    """Present ends of partitions: high watermark, or last stable offset. Raises BrokerError, ConnectionLostError."""
    return await bounds(cluster, keys, LATEST, committed=committed)


async def bounds(cluster: ClusterClient, keys: Iterable[Key], timestamp: int, *, committed: bool) -> dict[Key, int]:
    """``ClusterClient.list_offsets``, all or none. Raises BrokerError, ConnectionLostError."""
    offsets: dict[Key, int] = {}
    for key, offset in (await cluster.list_offsets(dict.fromkeys(keys, timestamp), committed=committed)).items():
        if isinstance(offset, BrokerError):
            if offset.code in MOVED:
                cluster.topics.pop(key[0], None)
            raise offset
        offsets[key] = offset
    return offsets


async def log_bounds(
    cluster: ClusterClient, keys: Collection[Key], *, committed: bool
) -> dict[Key, tuple[int, int] | BrokerError]:
    """Log start, and end at the isolation level; a BrokerError where the leader does not answer one of them. Raises
    ConnectionLostError."""
    lows, ends = await asyncio.gather(
        *(cluster.list_offsets(dict.fromkeys(keys, at), committed=committed) for at in (EARLIEST, LATEST))
    )
    bounds: dict[Key, tuple[int, int] | BrokerError] = {}
    for key, low in lows.items():
        end = ends[key]
        bounds[key] = low if isinstance(low, BrokerError) else end if isinstance(end, BrokerError) else (low, end)
    return bounds


async def begins(cluster: ClusterClient, keys: Sequence[Key]) -> dict[Key, int]:
    """Log start offsets. Raises BrokerError, ConnectionLostError."""
    return await bounds(cluster, keys, EARLIEST, committed=False)
