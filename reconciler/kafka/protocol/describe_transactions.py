"""DescribeTransactions (KIP-664, from Kafka 3.0): the state of a transaction."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from reconciler.kafka.client.connection import Connection
from reconciler.kafka.protocol.flexible import NO_TAGS, ResponseReader, count, reading, string

DESCRIBE_TRANSACTIONS, VERSION = 65, 0
_PRODUCER = struct.Struct(">iqqh")  # timeout, start, id, epoch
_UNDECIDED = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTED = frozenset({"Ongoing", "PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


@dataclass(frozen=True, slots=True)
class TransactionState:
    """``error`` is Kafka's code; the rest means nothing then. ``epoch`` as the coordinator has it now."""

    throttle_ms: int
    error: int
    state: str
    producer_id: int = -1
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
        """How the last transaction ends once its producer is fenced. None: there is none, or none is known."""
        if self.state in _COMMITTED:
            return True
        return False if self.state in _ABORTED else None

    def is_commit_of(self, producer_id: int, epoch: int) -> bool:
        """Version 2: whether a commit under ``epoch`` led here. If so the epoch it brought belongs to the same holder.

        A coordinator that has it from the log only, because the one that was asked is gone, does not know ``epoch``
        any more, and InitProducerId with it would be told PRODUCER_FENCED. The first epoch of a successor is the same
        number, but nothing is committed then: its first commit brings the next.
        """
        return self.state in _COMMITTED and (self.producer_id, self.epoch) == (producer_id, epoch + 1)

    def epochs(self, *, version_2: bool) -> tuple[int, ...]:
        """Which its records can carry: with KIP-890 version 2 the end of a transaction raises the epoch."""
        return (self.epoch, self.epoch - 1) if version_2 and self.state != "Ongoing" else (self.epoch,)


async def ask(connection: Connection, transactional_id: str) -> TransactionState | None:
    """Of its coordinator. None: the broker is older. Raises ConnectionLostError and MalformedResponseError."""
    _, newest = connection.versions.get(DESCRIBE_TRANSACTIONS, (0, -1))
    if newest < VERSION:
        return None
    transaction = await connection.ask((DESCRIBE_TRANSACTIONS, VERSION, True), pack(transactional_id), unpack)
    connection.throttle(transaction.throttle_ms)
    return transaction


def pack(transactional_id: str) -> bytes:
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
