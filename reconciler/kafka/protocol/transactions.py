"""Requests to transaction coordinators: DescribeTransactions and ListTransactions (KIP-664, from Kafka 3.0), and
hand-packed AddPartitionsToTxn, TxnOffsetCommit and EndTxn, for lanes that end hundreds of transactions a second."""

import asyncio
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import check
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, count, reading, string, topics_of
from reconciler.kafka.protocol.groups.group_offsets import NO_MEMBER, CommittedOffset, Key, pack_offsets

DESCRIBE_TRANSACTIONS, VERSION = 65, 0
LIST_TRANSACTIONS = 66
ADD_PARTITIONS, ADD_VERSION = 24, 3
"""The last version for clients; 4 is the brokers' own."""
END, END_VERSION, END_NEWEST = 26, 3, 5
"""The last version that keeps the epoch, and that of KIP-890 version 2."""
COMMIT_OFFSETS, COMMIT_VERSION, COMMIT_NEWEST = 28, 3, 5
"""Likewise. Their layouts are the same."""
_ID = struct.Struct(">q")
_HOLDER = struct.Struct(">qh")  # producer id, epoch
_INDEX, _RESULT = struct.Struct(">i"), struct.Struct(">ih")
_PRODUCER = struct.Struct(">iqqh")  # timeout, start, id, epoch
# States by their names in Kafka's TransactionState. ``Ongoing`` counts as aborted, because a fence of its
# producer aborts it; ``PrepareEpochFence`` is that abort under way.
_UNDECIDED = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTED = frozenset({"Ongoing", "PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


class TransactionalProducer(NamedTuple):
    """Who speaks for a transactional.id."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TransactionState:
    """``error`` is Kafka's code; the rest means nothing then. ``epoch`` as the coordinator has it now."""

    throttle_ms: int
    error: int
    state: str
    """The coordinator's word: Empty, Ongoing, PrepareCommit, CompleteAbort, ..."""
    producer_id: int = -1
    """Of the transactional id now; a new one after epochs have run out."""
    epoch: int = -1

    @property
    def undecided(self) -> bool:
        """Ended, but the markers are not all written yet."""
        return self.state in _UNDECIDED

    @property
    def open(self) -> bool:
        """Its coordinator has something left to do for it."""
        return self.state == "Ongoing" or self.undecided

    @property
    def committed(self) -> bool | None:
        """Whether the last transaction is committed once its producer is fenced. None: there is none, or it is
        unknown."""
        if self.state in _COMMITTED:
            return True
        return False if self.state in _ABORTED else None

    def is_commit_of(self, producer_id: int, epoch: int) -> bool:
        """Version 2: whether a commit under ``epoch`` led here. If so the epoch it brought belongs to the same holder.

        A coordinator that has it from the log only, because the one that was asked is gone, does not know ``epoch``
        any more, and InitProducerId with it would get PRODUCER_FENCED. The first epoch of a successor is the same
        number, but nothing is committed then: its first commit brings the next.
        """
        return self.state in _COMMITTED and (self.producer_id, self.epoch) == (producer_id, epoch + 1)

    def epochs(self, *, version_2: bool) -> tuple[int, ...]:
        """Which its records can carry: with KIP-890 version 2 the end of a transaction raises the epoch."""
        return (self.epoch, self.epoch - 1) if version_2 and self.state != "Ongoing" else (self.epoch,)


async def ask(connection: Connection, transactional_id: str) -> TransactionState | None:
    """Asks the id's coordinator. None: the broker is older. Raises ConnectionLostError and MalformedResponseError."""
    _, newest = connection.versions.get(DESCRIBE_TRANSACTIONS, (0, -1))
    return None if newest < VERSION else await answered(connection, send(connection, transactional_id))


async def listed(connection: Connection, producer_ids: Sequence[int]) -> Mapping[int, str]:
    """Transactional ids of these producers that this broker coordinates and the principal may describe; empty for an
    older broker. Raises BrokerError, ConnectionLostError and MalformedResponseError."""
    _, newest = connection.versions.get(LIST_TRANSACTIONS, (0, -1))
    if newest < VERSION or not producer_ids:
        return {}
    error, ids = await connection.ask((LIST_TRANSACTIONS, VERSION, True), pack_list(producer_ids), unpack_list)
    check(error, f"transactions of {connection.where}")
    return ids


def send(connection: Connection, transactional_id: str) -> asyncio.Future[Frame]:
    """For ``answered``; other requests may be sent behind it."""
    return connection.send((DESCRIBE_TRANSACTIONS, VERSION, True), [pack(transactional_id)])


async def answered(connection: Connection, sent: asyncio.Future[Frame]) -> TransactionState:
    """The state in an answer that is awaited; its receive buffer is given back, also if it cannot be read."""
    frame = await sent
    try:
        transaction = unpack(frame.body)
    finally:
        frame.drop()
    connection.throttle(transaction.throttle_ms)
    return transaction


class PendingAbort(NamedTuple):
    """Both pending responses: partitions that join a transaction, if any, and its abort."""

    added: asyncio.Future[Frame] | None
    ended: asyncio.Future[Frame]


def send_abort(connection: Connection, holder: TransactionalProducer, joining: Collection[Key]) -> PendingAbort:
    """Classic protocol: partitions join a transaction, where ``joining`` has any, and it is aborted. Both requests are
    under way together, since a broker carries those of a connection out in order; so is what is sent behind them. For
    ``aborted``."""
    added = None
    with connection.gathered():
        if joining:
            added = connection.send((ADD_PARTITIONS, ADD_VERSION, True), [pack_add(holder, joining)])
        ended = connection.send((END, END_VERSION, True), [pack_end(holder, committed=False)])
    return PendingAbort(added, ended)


async def aborted(connection: Connection, sent: PendingAbort) -> tuple[Mapping[Key, int], int]:
    """The error codes of partitions that could not join, and of the end, or 0.

    Raises ConnectionLostError and MalformedResponseError; then either may have been carried out, or may be later.
    """
    errors: dict[tuple[str, int], int] = {}
    if sent.added is not None:
        frame = await sent.added
        with connection.read(frame):
            throttle, errors = unpack_add(frame.body)
        connection.throttle(throttle)
    frame = await sent.ended
    with connection.read(frame):
        throttle, ended = unpack_end(frame.body)
    connection.throttle(throttle)
    return errors, ended.error


def pack(transactional_id: str) -> bytes:
    """DescribeTransactions (KIP-664) of one transactional id."""
    return b"".join((count(1), string(transactional_id), NO_TAGS))


@reading("a DescribeTransactions")
def unpack(frame: memoryview) -> TransactionState:
    """Its topics are not read."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    if reader.count() != 1:
        raise ValueError("it is not about one transaction")
    error = reader.int16()
    reader.string()
    state = reader.string()
    if error:
        return TransactionState(throttle, error, state)
    _, _, producer_id, epoch = reader.fixed(_PRODUCER)
    return TransactionState(throttle, error, state, producer_id, epoch)


def pack_list(producer_ids: Sequence[int]) -> bytes:
    """ListTransactions of producers, in any state."""
    return b"".join((count(0), count(len(producer_ids)), struct.pack(f">{len(producer_ids)}q", *producer_ids), NO_TAGS))


@reading("a ListTransactions")
def unpack_list(frame: memoryview) -> tuple[int, tuple[int, dict[int, str]]]:
    """(throttle in ms, (Kafka's error code, transactional id by producer id))."""
    reader = ResponseReader(frame)
    throttle, error, ids = reader.int32(), reader.int16(), dict[int, str]()
    for _ in range(reader.count()):
        reader.string()  # a state that it does not know
    for _ in range(reader.count()):
        name = reader.string()
        (producer_id,) = reader.fixed(_ID)
        reader.string()
        reader.tags()
        ids[producer_id] = name
    reader.finish()
    return throttle, (error, ids)


def pack_add(holder: TransactionalProducer, keys: Iterable[Key]) -> bytes:
    """``keys``: partitions that join the transaction."""
    topics = topics_of({key: _INDEX.pack(key[1]) for key in keys})
    producer = _HOLDER.pack(holder.producer_id, holder.epoch)
    return b"".join((string(holder.transactional_id), producer, topics, NO_TAGS))


@reading("an AddPartitionsToTxn")
def unpack_add(frame: memoryview) -> tuple[int, dict[tuple[str, int], int]]:
    """(throttle in ms, Kafka's error code of partitions that have one)."""
    reader = ResponseReader(frame)
    throttle = reader.int32()
    errors = {(topic, partition): error for topic, (partition, error) in reader.by_partition(_RESULT) if error}
    reader.finish()
    return throttle, errors


def pack_commit(holder: TransactionalProducer, group: str, offsets: Mapping[Key, CommittedOffset]) -> bytes:
    """As ``group_offsets.pack_commit``, within the transaction; ``group_offsets.unpack_commit`` reads the answer."""
    producer = _HOLDER.pack(holder.producer_id, holder.epoch)
    parts = (string(holder.transactional_id), string(group), producer, NO_MEMBER, pack_offsets(offsets), NO_TAGS)
    return b"".join(parts)


def pack_end(holder: TransactionalProducer, *, committed: bool) -> bytes:
    """EndTxn. Versions 3 and 5 have one layout; the version alone says whether the epoch moves on (KIP-890)."""
    producer = _HOLDER.pack(holder.producer_id, holder.epoch)
    return b"".join((string(holder.transactional_id), producer, bytes((committed,)), NO_TAGS))


class EndedTransaction(NamedTuple):
    """``error`` is Kafka's code. From version 5 on: the producer id and epoch of the next transaction."""

    error: int
    producer_id: int = -1
    epoch: int = -1


@reading("an EndTxn")
def unpack_end(frame: memoryview, version: int = END_VERSION) -> tuple[int, EndedTransaction]:
    """(throttle in ms, result)."""
    reader = ResponseReader(frame)
    throttle, error = reader.int32(), reader.int16()
    ended = EndedTransaction(error, *(reader.fixed(_HOLDER) if version >= END_NEWEST else ()))
    reader.finish()
    return throttle, ended
