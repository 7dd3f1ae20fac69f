"""What an answer to Produce means: a batch is there, has to be sent again, or is refused for good."""

from __future__ import annotations

import time
from collections import deque

from mirror.batch_lane import Lane, RestartError
from mirror.batch_partition import Partition, Piece
from mirror.batch_refusals import DEFINITE, OF_ONE_RECORD, refused, unavailable
from mirror.losses import Loss
from wire.errors import CONCURRENT_TRANSACTIONS, MOVED, RETRIABLE, TOO_LARGE, BrokerError, name_of

LOST = -1000
"""No answer came: the connection was lost."""
RETRY_PAUSE, CONCURRENT_PAUSE = 0.1, 0.005


def acknowledged(lane: Lane, partition: Partition, piece: Piece, base_offset: int) -> None:
    if not partition.unacked or partition.unacked[0] is not piece:
        raise RestartError(f"{partition.target[0]}-{partition.target[1]} was acknowledged out of order")
    partition.unacked.popleft()
    partition.first_acked = True
    lane.acknowledged(partition, piece, base_offset)


def failed(lane: Lane, partition: Partition, failure: tuple[int, str]) -> None:
    """All answers are in. Retriable: again, in order. Refused for good: only this partition stops."""
    code, message = failure
    partition.failure = None
    oldest = partition.unacked[0]
    where = f"{partition.target[0]}-{partition.target[1]}"
    if code == LOST or code in RETRIABLE:
        if time.monotonic() - oldest.sent_at > lane.tuning.delivery_timeout:
            hold = unavailable(partition, "target", message or name_of(code))
            raise RestartError(f"{where} took no batch: {message}", (partition.source, hold))
        partition.resend = deque(partition.unacked)
        pause = CONCURRENT_PAUSE if code == CONCURRENT_TRANSACTIONS else RETRY_PAUSE
        lane.routes.later(partition, pause, moved=code == LOST or code in MOVED)
    elif code in DEFINITE or code in TOO_LARGE:
        lane.give_up(partition)
        if code in TOO_LARGE and oldest.records > 1:
            partition.largest = len(oldest.raw) // 2
            lane.routes.look_again(partition, "larger than the target takes")
        elif code in OF_ONE_RECORD and lane.goes_on("record_refused"):
            _leave_out(lane, partition, oldest, refused(partition, code, message, len(oldest.raw)).text)
        else:
            lane.stop(partition, refused(partition, code, message, len(oldest.raw)))
    else:
        raise RestartError(str(BrokerError(code, f"{where}: {message}" if message else where)))


def _leave_out(lane: Lane, partition: Partition, piece: Piece, text: str) -> None:
    """The one record that is refused; in a batch of several it is looked for first, in smaller and smaller ones."""
    if piece.records > 1:
        partition.whole_again = partition.largest if partition.whole_again is None else partition.whole_again
        partition.largest = max(1, len(piece.raw) // 2)
        lane.routes.look_again(partition, "a refused record is looked for")
        return
    if partition.whole_again is not None:
        partition.largest, partition.whole_again = partition.whole_again, None
    lane.move_on(partition, piece.next_offset, Loss("record_refused", 1, 1, text=text))
    lane.routes.look_again(partition, "a refused record is left out")
