"""Interprets the Produce answer for a batch: written, to send again, or refused for good."""

import time
from collections import deque

from reconciler.kafka.client import errors
from reconciler_mirror.conditions.lane import DEFINITE, OF_ONE_RECORD, refused, unavailable
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.state import Lane, RestartError
from reconciler_mirror.model.counters import Loss
from reconciler_mirror.model.lane import Condition

LOST = -1000
"""The connection was lost before an answer."""
RETRY_PAUSE, CONCURRENT_PAUSE = 0.1, 0.005
"""Seconds before a refused batch is sent again. CONCURRENT_TRANSACTIONS lasts until the markers of the previous
transaction are written, which takes milliseconds."""
TRY_LARGER = 600.0
"""Seconds before a batch above the known limit is tried again: the target's limit may have been raised."""


def acknowledged(lane: Lane, partition: Partition, piece: Piece, base_offset: int) -> None:
    if not partition.outbox.unacked or partition.outbox.unacked[0] is not piece:
        raise RestartError(f"{partition.target[0]}-{partition.target[1]} was acknowledged out of order")
    lane.acknowledged(partition, piece, base_offset)
    lane.delivery.acknowledged(partition, piece, base_offset)


def failed(lane: Lane, partition: Partition, failure: tuple[int, str]) -> None:
    """Handles a failure once no answer is outstanding: repeats retriable batches in order, stops the partition for a
    final refusal, and leaves errors about the place in the log to the delivery."""
    code, message = failure
    oldest = partition.outbox.unacked[0]
    where = f"{partition.target[0]}-{partition.target[1]}"
    if code == LOST or code in errors.RETRIABLE:
        # The broker may still write an unanswered batch, so the partition cannot stop alone: a new session aborts it.
        if time.monotonic() - oldest.sent_at > lane.tuning.delivery_timeout:
            hold = unavailable(partition.spec, "target", message or errors.name_of(code))
            raise RestartError(f"{where} took no batch: {message}", (partition.source, hold))
        partition.outbox.resend = deque(partition.outbox.unacked)
        pause = CONCURRENT_PAUSE if code == errors.CONCURRENT_TRANSACTIONS else RETRY_PAUSE
        lane.routes.later(partition, pause, moved=code == LOST or code in errors.MOVED)
    elif code in DEFINITE or code in errors.TOO_LARGE:
        lane.give_up(partition)
        _refused(lane, partition, oldest, failure)
    else:
        lane.delivery.refused(partition, errors.BrokerError(code, f"{where}: {message}" if message else where))


def _refused(lane: Lane, partition: Partition, piece: Piece, failure: tuple[int, str]) -> None:
    """The target refuses a batch for one of its records. Smaller and smaller batches isolate that record: the records
    before it are copied, and it alone stops the partition or is left out."""
    code, _ = failure
    if code == errors.CORRUPT and partition.hold.strike():  # read and sent once more
        lane.routes.recheck(partition, "the target found a batch damaged")
    elif piece.records > 1 and code in errors.TOO_LARGE:
        partition.sizes.refused(len(piece.raw), TRY_LARGER)
        lane.routes.recheck(partition, "larger than the target takes")
    elif piece.records > 1 and code in OF_ONE_RECORD | {errors.CORRUPT}:
        partition.sizes.seek(len(piece.raw), piece.next_offset)
        lane.routes.recheck(partition, "a refused record is looked for")
    elif code in OF_ONE_RECORD and lane.goes_on("record_refused"):
        text = _condition(partition, piece, failure).text
        lane.delivery.left_out(partition, piece, Loss("record_refused", 1, 1, text=text))
        lane.routes.recheck(partition, "a refused record is left out")
    else:
        lane.stop(partition, _condition(partition, piece, failure), at=partition.log.reached)


def _condition(partition: Partition, piece: Piece, failure: tuple[int, str]) -> Condition:
    record = (piece.copied[0][0], len(piece.raw)) if piece.records == 1 else None
    return refused(partition.spec, *failure, partition.log.reached, record)
