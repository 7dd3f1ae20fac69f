"""Sends batches to the target, for many partitions in one request.

Sequences keep the order in a partition: after a failure the sender repeats all its unacknowledged batches in order with
the same sequences, so that the target drops the ones it has (KIP-98).
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection
from functools import partial
from operator import attrgetter

from reconciler.kafka.client import errors
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.frames import Frame
from reconciler.kafka.client.hanging_transactions import look
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol import produce as producing
from reconciler.kafka.protocol.produce import Produced
from reconciler.kafka.records.batches import CorruptBatchError, next_sequence, seal, verify
from reconciler_mirror.lane.fetch.bandwidth import LONG, Flight
from reconciler_mirror.lane.partition import Partition
from reconciler_mirror.lane.produce.outbox import Piece
from reconciler_mirror.lane.produce.results import LOST, acknowledged, failed
from reconciler_mirror.lane.state import Lane, RestartError

PER_REQUEST, PER_REQUEST_FAR = 0.004, 0.001
"""Seconds of latency and of round trip that justify one more request in flight; see ``Sender._widen``."""
UNREACHABLE_PAUSE = 0.5
"""Seconds before the metadata request for a new leader."""
PRODUCE_TIMEOUT_MS = 15_000
"""How long a leader waits for its followers (acks=all)."""
# Transaction version 2 (KIP-890): the coordinator takes one change of a transaction at a time, and a broker that it
# turns away tries again only after 20 ms. If answers are quicker than this limit, partitions join in turn.
JOIN_IN_TURN = 0.01


class Sender:
    """Writes to one target broker until cancelled."""

    def __init__(self, lane: Lane, node: int) -> None:
        self._lane = lane
        self._node = node
        # Queue of partitions with something to send, each at most once (``Outbox.ready``).
        self._ready: deque[Partition] = deque()
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        # Requests in flight to this broker, and their bytes. ``_flight`` limits the bytes by bandwidth, ``_window`` the
        # requests, in total and per partition.
        self._requests = 0
        self._bytes = 0
        self._flight = Flight(lane.tuning.bytes_in_flight)
        self._latency = 0.0
        self._window = lane.tuning.requests_in_flight
        self._timer: asyncio.TimerHandle | None = None
        self._pumping = False
        # Requests in flight that add a partition to the transaction (KIP-890), and the partitions that wait for them.
        self._joining = 0
        self._late: set[Partition] = set()

    def offer(self, partition: Partition) -> None:
        """``partition`` has something to send to this broker. Partitions offered together share a request."""
        self.ready_again(partition)
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump_offered)

    def _pump_offered(self) -> None:
        self._pumping = False
        if not self._lane.failed.done():
            self._lane.resolve(self.pump)

    async def run(self) -> None:
        """Opens connections, and sends whenever ``pump`` cannot: without a connection, or while throttled."""
        while True:
            self._wake.clear()
            if self._ready:
                try:
                    self._connection = connection = await self._connected()
                    self._lane.far |= connection.round_trip >= LONG
                    self._widen()
                    await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
                    self._send_all(connection)
                except errors.ConnectionLostError:
                    # Other brokers take over the partitions of a lost one; new metadata routes them there.
                    waiting, self._ready = self._ready, deque()
                    for partition in waiting:
                        partition.outbox.ready = False
                        self._lane.routes.later(partition, UNREACHABLE_PAUSE, moved=True)
                    continue
            await self._wake.wait()

    async def _connected(self) -> Connection:
        """The connection to the broker. After the loss of an earlier one the broker may have restarted, and may lack
        markers of ended transactions: then the session begins again."""
        lane, before = self._lane, self._connection
        if before is not None and not before.in_flight and before.closed is None and before.expired:
            before = None  # it is not lost: only its SASL session expires (KIP-368)
        connection = await lane.target.connection(self._node, "produce")
        if before in (None, connection) or not lane.identity.transactional:
            return connection
        led = [p for p in lane.partitions.values() if (at := lane.target.leader(*p.target)) and at.node == self._node]
        if any(p in lane.touched or p in lane.added for p in led):
            raise RestartError(f"the connection to {connection.where} was lost within a transaction")
        if (await look(lane.target, [p.target for p in led])).of(lane.identity.producer_id):
            raise RestartError(f"a transaction hangs on {connection.where}")
        return connection

    def pump(self) -> None:
        """Sends as much as possible now, without waking ``run`` if the connection is open and not throttled."""
        connection = self._connection
        if connection is None or connection.closed is not None or connection.throttled_until > time.monotonic():
            self._wake.set()
        elif connection.expired:
            if not connection.in_flight:
                self._connection = None
                self._wake.set()
        else:
            self._send_all(connection)

    def _send_all(self, connection: Connection) -> None:
        while self._ready and self._requests < self._window and self._bytes < self._flight.limit:
            batch = self._next_request()
            if not batch:
                return
            self._send(connection, batch)

    def _widen(self) -> None:
        """Sets the requests in flight, in total and per partition: one per PER_REQUEST seconds of the quickest answer
        keeps a broker busy, one per PER_REQUEST_FAR of the round trip fills a long way, even with few batches each.

        Brokers remember five batches of a producer. They answer an older repeat with OUT_OF_ORDER_SEQUENCE_NUMBER, and
        the session begins again, so nothing is duplicated.
        """
        tuning = self._lane.tuning
        round_trip = self._connection.round_trip if self._connection is not None else 0.0
        wanted = max(self._latency / PER_REQUEST, round_trip / PER_REQUEST_FAR)
        self._window = max(tuning.requests_in_flight, min(tuning.most_in_flight, int(wanted)))

    def _next_request(self) -> dict[tuple[str, int], tuple[Partition, Piece]]:
        """Takes one piece of each ready partition, as far as request size and rate limit allow."""
        lane = self._lane
        chosen: dict[tuple[str, int], tuple[Partition, Piece]] = {}
        size, again, throttled = 0, [], []
        limited = lane.throttle.limited
        if limited:  # shares are fair in bytes, not in batches: the partition with the fewest is next
            self._ready = deque(sorted(self._ready, key=attrgetter("outbox.served")))
        # One round of the queue: each partition gives one batch, and queues up again if it has more.
        for _ in range(len(self._ready)):
            if size >= lane.tuning.request_bytes:
                break
            partition = self._ready.popleft()
            # A repeated batch was counted when it was first sent, so it never waits for the rate limit.
            if limited and not partition.outbox.resend and (delay := lane.throttle.delay()) > 0:
                throttled.append(partition)
                continue
            partition.outbox.ready = False
            piece = self._next_piece(partition)
            if piece is None:
                continue
            chosen[partition.target] = (partition, piece)
            size += len(piece.raw)
            if self._may_send(partition):
                again.append(partition)
        for partition in again:
            partition.outbox.ready = True
        self._ready.extend(again)
        # Held partitions keep their place in front; a timer pumps once the limit lets the first of them through.
        if throttled:
            self._ready.extendleft(reversed(throttled))
            lane.throttle.hold()
            self._timer = self._timer or asyncio.get_running_loop().call_later(delay, self._timer_over)
        return chosen

    def _timer_over(self) -> None:
        self._timer = None
        if not self._lane.failed.done():
            self._lane.resolve(self.pump)

    def _may_send(self, partition: Partition) -> bool:
        """Whether the partition's next piece may be sent now. A repeated piece may, even during a commit: the commit
        waits for its answer."""
        lane, outbox = self._lane, partition.outbox
        if outbox.failure is not None or outbox.outstanding >= self._window:
            return False
        if outbox.outstanding and not outbox.first_acked and not lane.identity.version_2:
            return False  # before KIP-890, a broker takes any first sequence of a producer that it does not know
        if outbox.resend:
            return True
        if not outbox.queue:
            return False
        # A new batch during a commit would be in the transaction, but not in its positions.
        if lane.closing:
            lane.blocked.add(partition)
            return False
        if self._joining and lane.joins(partition):
            self._late.add(partition)
            return False
        return lane.delivery.may_send(partition)

    def _next_piece(self, partition: Partition) -> Piece | None:
        """The next piece, or None if the partition may not send now. A repeated batch goes first, with its former
        sequence. The queue is dropped from a corrupt batch on, which is fetched and checked once more before it stops
        the partition."""
        if not self._may_send(partition):
            return None
        outbox = partition.outbox
        if outbox.resend:
            piece = outbox.resend.popleft()
        else:
            piece = outbox.queue.popleft()
            try:
                self._seal(partition, piece)
            except CorruptBatchError as error:
                outbox.queue.appendleft(piece)
                self._lane.drop_unsent(partition)
                self._lane.corrupt(partition, str(error))
                return None
        piece.sent_at = piece.sent_at or time.monotonic()
        outbox.outstanding += 1
        return piece

    def _seal(self, partition: Partition, piece: Piece) -> None:
        """Verifies the source's CRC, patches the header and computes a new CRC: a new one would hide any earlier damage
        in memory or in transit. Sequences count records, not batches, and have no gaps between batches (KIP-98)."""
        lane, outbox = self._lane, partition.outbox
        if piece.source is not None:
            verify(piece.raw, piece.source)
        producer = lane.delivery.sealed_as(partition)
        seal(piece.raw, producer, outbox.sequence, transactional=lane.identity.transactional)
        lane.throttle.take(len(piece.raw))
        lane.served = outbox.served
        outbox.served += len(piece.raw)
        piece.sequence = outbox.sequence
        outbox.sequence = next_sequence(outbox.sequence, piece.records)
        outbox.unacked.append(piece)
        lane.began(partition, len(piece.raw))

    def _send(self, connection: Connection, chosen: dict[tuple[str, int], tuple[Partition, Piece]]) -> None:
        """Sends one Produce request with a batch for each chosen partition. The callback gets time, join flag and
        bytes, to undo the counts whatever the answer is."""
        identity = self._lane.identity
        version = identity.produce_version
        raws = {key: piece.raw for key, (_, piece) in chosen.items()}
        body = producing.pack(version, identity.transactional_id, raws, PRODUCE_TIMEOUT_MS)
        joining = self._latency < JOIN_IN_TURN and any(self._lane.joins(partition) for partition, _ in chosen.values())
        if joining:
            self._joining += 1
            self._lane.joining(1)
        size = sum(map(len, raws.values()))
        self._requests += 1
        self._bytes += size
        flexible = version != producing.CLASSIC
        future = connection.send((protocol.PRODUCE, version, flexible), body, PRODUCE_TIMEOUT_MS / 1000 + 5)
        future.add_done_callback(partial(self._answered, connection, (time.monotonic(), joining, size), chosen))

    def _answered(
        self,
        connection: Connection,
        sent: tuple[float, bool, int],
        chosen: dict[tuple[str, int], tuple[Partition, Piece]],
        future: asyncio.Future[Frame],
    ) -> None:
        """Takes the answer in the event loop. After a lost connection every batch counts as LOST, and is repeated with
        its sequence, since the broker may have it. Then partitions that waited for this request's join queue up, and
        the next request follows without a turn of ``run``."""
        sent_at, joining, size = sent
        self._requests -= 1
        self._bytes -= size
        if future.cancelled() or self._lane.failed.done():
            return
        # A lost connection becomes an answer for each batch, so that ``_outcome`` handles all cases.
        try:
            answers = self._read(connection, future, chosen)
            self._flight.acknowledged(size, sent_at, now := time.monotonic(), connection.round_trip)
            self._measure(now - sent_at)
        except errors.WireError as error:
            answers = [Produced(topic, partition, LOST, -1, str(error)) for topic, partition in chosen]
        for answer in answers:
            partition, piece = chosen[answer.topic, answer.partition]
            partition.outbox.outstanding -= 1
            self._lane.resolve(self._outcome, partition, piece, answer)
        # The coordinator is free for the next join (``JOIN_IN_TURN``).
        if joining:
            self._joining -= 1
            self._lane.joining(-1)
            late, self._late = self._late, set()
            for partition in late:
                self.ready_again(partition)
        self.pump()

    def _read(
        self, connection: Connection, future: asyncio.Future[Frame], sent: Collection[tuple[str, int]]
    ) -> list[Produced]:
        """Raises MalformedResponseError unless the answer names each partition of the request once: a batch without an
        answer would stay unacknowledged for good."""
        frame = future.result()
        with connection.read(frame):
            throttle, answers = producing.unpack(self._lane.identity.produce_version, frame.body)
            named = {answer[:2] for answer in answers}
            if len(answers) != len(sent) or len(named) != len(sent) or not all(key in sent for key in named):
                raise errors.MalformedResponseError("a Produce response names other partitions than the request")
        connection.throttle(throttle)
        return answers

    def _measure(self, latency: float) -> None:
        """Tracks the quickest recent answer: the latency of network and broker, without time in the broker's queue."""
        self._latency = min(latency, self._latency * 1.02) if self._latency else latency
        self._widen()

    def _outcome(self, partition: Partition, piece: Piece, answer: Produced) -> None:
        """Handles one batch's answer. After a failure the partition waits for all outstanding answers, which show the
        batches to repeat. The oldest batch's failure counts: later ones fail because of it."""
        outbox = partition.outbox
        if answer.error in self._lane.delivery.written:
            acknowledged(self._lane, partition, piece, answer.base_offset if not answer.error else -1)
        elif answer.error in errors.FENCED:
            raise errors.FencedError(answer.error, f"writing {answer.topic}-{answer.partition}")
        elif outbox.unacked[0] is piece:
            outbox.failure = (answer.error, answer.message)
        elif outbox.failure is None:
            outbox.failure = (LOST, "an earlier batch failed")
        if outbox.failure is not None and not outbox.outstanding:
            failure, outbox.failure = outbox.failure, None
            failed(self._lane, partition, failure)
        elif outbox.failure is None and self._may_send(partition):
            self.ready_again(partition)

    def ready_again(self, partition: Partition) -> None:
        if not partition.outbox.ready:
            partition.outbox.ready = True
            partition.outbox.served = max(partition.outbox.served, self._lane.served)
            self._ready.append(partition)
