"""Fetches batches for a lane by incremental fetch sessions, and has them sorted into pieces to produce.

``Fetchers`` chooses the session of a partition: its broker's quiet one, or one for partitions with a backlog.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any
from uuid import UUID

from reconciler.kafka.client.buffers import Buffer
from reconciler.kafka.client.cluster import NO_ID
from reconciler.kafka.client.connection import Connection
from reconciler.kafka.client.errors import CORRUPT, MOVED, OUT_OF_RANGE, ConnectionLostError, MalformedResponseError
from reconciler.kafka.protocol import fetch as fetch_answers
from reconciler.kafka.protocol import fetch as fetching
from reconciler.kafka.protocol import generated as protocol
from reconciler.kafka.protocol.fetch import Fetched, FetchedPartition, FetchLimits, FetchSession, Want
from reconciler.kafka.records.batches import CorruptBatchError
from reconciler_mirror.lane.fetch.bandwidth import BrokerLink
from reconciler_mirror.lane.fetch.pieces import pieces_of
from reconciler_mirror.lane.partition import Answers, Partition, Phase
from reconciler_mirror.lane.state import Lane

FOLLOWER_FOR = 300.0
"""Seconds to fetch from a preferred follower before asking the leader again."""
ANSWER_WITHIN = 10.0
"""Seconds after ``max_wait_ms`` without an answer; then the connection counts as lost."""
QUIET_FROM, QUIET_AFTER = 64, 3.0
"""Partitions of a broker above which backlogs get their own sessions; seconds without records after which a partition
returns to the quiet session."""
_PAUSED_WAIT_MS, _JOINED_WAIT_MS = 20, 50
"""``max_wait_ms`` while partitions wait for memory, or to join with the next request: shorter than usual, so that an
empty answer does not hold them up."""
LEAST_QUEUE = 256 << 10
"""Bytes that a partition may always queue, however many partitions share the lane's memory."""
EXPIRED_PAUSE = 0.02
"""Seconds between checks whether all sessions have left a connection with expired credentials."""


class Fetcher:
    """Reads from one source broker until cancelled.

    A broker checks every partition of a session at each request. With many partitions, those with records get a session
    of their own, so that they do not wait for the quiet ones; with a distant broker they get several, which share a
    connection. ``place``: the broker, and 0 for the quiet session or the number of a busy one.
    """

    def __init__(
        self, lane: Lane, place: tuple[int, int], line: BrokerLink, fetchers: Mapping[tuple[int, int], Fetcher]
    ) -> None:
        self._lane = lane
        self._node, self._number = place
        # Session 0 is the broker's quiet one, with all partitions that have caught up; the others read backlogs. In the
        # quiet session a backlog would make every answer large, and delay the new records of all others.
        self._busy = self._number > 0
        self._line = line
        self._empty = False
        self._looked = time.monotonic()
        # All fetchers of the lane by (broker, number), to move partitions between.
        self._peers = fetchers
        # KIP-227: the broker remembers the partitions of a session, and requests name only changes. ``_paused`` members
        # are left out of the session until the lane has memory.
        self._session = FetchSession()
        self._members: set[Partition] = set()
        self._paused: set[Partition] = set()
        self._changed = asyncio.Event()
        self._answers = Answers()
        # From version 13 on answers name topics by id (KIP-516), so a recreated topic has another key here.
        self._names: dict[UUID, str] = {}
        self._by_name = False

    def add(self, partition: Partition) -> None:
        self._members.add(partition)
        self._by_name |= partition.log.topic_id == NO_ID
        self._want(partition)
        self._changed.set()
        self._lane.room.set()

    def remove(self, partition: Partition) -> None:
        self._members.discard(partition)
        self._paused.discard(partition)
        self._forget(partition)
        self._lane.room.set()

    def _forget(self, partition: Partition) -> None:
        """The session's answers no longer cover the partition."""
        if partition.log.answers is self._answers:
            partition.freeze_end()
            partition.log.answers = None
        self._session.forget(partition.source)

    def members(self) -> Iterable[Partition]:
        return tuple(self._members)

    @property
    def size(self) -> int:
        return len(self._members)

    async def run(self) -> None:
        """Fetches, one request at a time, whenever the session has partitions and the lane has memory."""
        lane = self._lane
        while True:
            if not self._session.wanted and not self._paused:
                self._changed.clear()
                await self._changed.wait()
            # Busy partitions without new records for a while return to the quiet session.
            now = time.monotonic()
            if self._busy and now - self._looked > QUIET_AFTER:
                self._looked = now
                for partition in self.members():
                    if partition.caught_up and now - partition.log.data_at > QUIET_AFTER:
                        self._move(partition, busy=False)
            await self._room()
            if not self._session.wanted:
                continue
            try:
                busy = f"fetch busy {self._number}" if self._line.narrow else "fetch busy"
                connection = await lane.source.connection(self._node, busy if self._busy else "fetch")
                if connection.in_flight and time.monotonic() > connection.expires_at:
                    await asyncio.sleep(EXPIRED_PAUSE)  # once all sessions have left it, it is replaced
                else:
                    await self._once(connection)
            except ConnectionLostError:
                # The leaders may have moved away, so the start checks each partition before it is fetched elsewhere.
                self._session.reset()
                for partition in self.members():
                    self.remove(partition)
                    lane.routes.recheck(partition, "the source broker is not reachable")

    async def _room(self) -> None:
        """Waits until memory is free and not every partition is paused."""
        lane = self._lane
        while True:
            limit = self._queue_limit() // 2
            for partition in [p for p in self._paused if p.outbox.queued_bytes <= limit]:
                self._paused.discard(partition)
                self._want(partition)
            if not self._members or (lane.room_left() > 0 and self._session.wanted):
                return
            lane.room.clear()
            await lane.room.wait()

    def _queue_limit(self) -> int:
        """Bytes that one partition may queue: more if few share the memory."""
        lane, members = self._lane, max(1, len(self._members))
        if lane.throttle.limited:
            return max(LEAST_QUEUE, lane.memory // (2 * members))
        return max(lane.memory // lane.tuning.partition_share, lane.memory // (2 * members))

    def _want(self, partition: Partition) -> None:
        """Adds the partition to the session, or updates its fetch offset. With the leader epoch, a broker that lags or
        no longer leads refuses the partition, instead of answering from an old log (KIP-320)."""
        lane = self._lane
        leader = lane.source.leader(*partition.source)
        partition.log.answers = self._answers
        self._names[partition.log.topic_id] = partition.spec.topic
        self._session.want(
            Want(
                partition.spec.topic,
                partition.log.topic_id,
                partition.spec.partition,
                partition.log.covered,
                leader.epoch if leader else -1,
                self._partition_bytes(),
            )
        )

    def _partition_bytes(self) -> int:
        """Bytes per partition and response: few under a rate limit, so that every partition has records queued."""
        tuning, members = self._lane.tuning, max(1, len(self._members))
        if self._lane.throttle.limited:
            return max(LEAST_QUEUE // 4, self._lane.memory // (4 * members))
        return max(tuning.partition_bytes, self._fetch_bytes() // members)

    def _fetch_bytes(self) -> int:
        """Bytes per response. All fetchers together ask for half of the memory; the other half holds received batches.
        A distant broker gets three quarters: its batches arrive more slowly than the target takes them."""
        share = self._lane.memory * 3 // 4 if self._line.long else self._lane.memory // 2
        return min(self._line.fetch_bytes(), share // max(1, len(self._peers)))

    def _wait_ms(self) -> int:
        """``max_wait_ms``. A held request blocks later ones on the same connection, so busy sessions with a distant
        broker do not wait but ask again."""
        if self._busy and self._line.pipelined:
            return _PAUSED_WAIT_MS if self._empty else 0
        if self._busy and not self._paused:
            return _JOINED_WAIT_MS  # partitions with new records join with the next request
        return _PAUSED_WAIT_MS if self._paused else self._lane.tuning.fetch_wait_ms

    async def _once(self, connection: Connection) -> None:
        """Sends one request and takes its answer. ``max_bytes`` count as requested memory until then, whatever happens:
        otherwise concurrent fetchers would exceed the lane's memory. Records are views into the connection's receive
        buffer, which ``connection.read`` keeps until the pieces are made."""
        lane = self._lane
        await asyncio.sleep(max(0.0, connection.throttled_until - time.monotonic()))
        version = fetch_answers.version_for(connection.negotiated, by_name=self._by_name)
        limits = FetchLimits(
            max_wait_ms=self._wait_ms(),
            min_bytes=1,
            max_bytes=self._fetch_bytes(),
            committed=lane.committed_only,
            rack=lane.source.settings.rack,
        )
        body = fetching.pack(version, self._session, limits)
        # The broker may hold the request for ``fetch_wait_ms`` without being lost.
        patience = lane.tuning.fetch_wait_ms / 1000 + ANSWER_WITHIN
        lane.requested += limits.max_bytes
        try:
            frame = await connection.send((protocol.FETCH, version, version >= fetch_answers.IDS), [body], patience)
        finally:
            lane.requested -= limits.max_bytes
            lane.room.set()
        self._line.answered(len(frame.body), frame.seconds)
        with connection.read(frame):
            fetched = fetch_answers.unpack(version, frame.body, self._names)
            connection.throttle(fetched.throttle_ms)
            self._take(fetched, frame.buffer)

    def _take(self, fetched: Fetched, buffer: Buffer | None) -> None:
        """Hands each partition's records on. A session error restarts the session, and is no error of any partition. An
        answer for another offset than the present one is dropped: the partition was moved meanwhile. A leader that
        names a preferred replica (KIP-392) sends no records; for ``FOLLOWER_FOR`` seconds they come from there."""
        if not self._session.accept(fetched):
            if fetched.error not in fetching.SESSION_ERRORS:
                self._lane.source_failed(self.members(), fetched.error)
            return
        self._answers.at = time.monotonic()
        self._empty = not any(answer.records for answer in fetched.partitions)
        for answer in fetched.partitions:
            partition = self._lane.partitions.get((answer.topic, answer.partition))
            if partition is None or partition not in self._members or partition.hold.phase is not Phase.COPYING:
                continue
            if not self._session.answers(partition.source, partition.log.covered):
                continue
            if answer.error:
                self._refused(partition, answer)
            elif answer.preferred_replica >= 0 and not answer.records:
                partition.log.read_from = (answer.preferred_replica, time.monotonic() + FOLLOWER_FOR)
                self.remove(partition)
                self._lane.routes.place(partition)
            else:
                self._accept(partition, answer, buffer)

    def _accept(self, partition: Partition, answer: FetchedPartition, buffer: Buffer | None) -> None:
        """Queues the pieces of one partition's answer, and decides which session asks for it next."""
        lane = self._lane
        lane.changed.add(partition)
        partition.log.end = answer.high_watermark
        if lane.committed_only and answer.last_stable >= 0:
            partition.log.end = answer.last_stable
            lane.held.seen(partition, answer.last_stable, answer.high_watermark)
        if not answer.records:
            return
        try:
            pieces, covered = pieces_of(partition, answer, buffer, lane.delivery.pieces)
        except (CorruptBatchError, MalformedResponseError) as error:
            self.remove(partition)
            lane.corrupt(partition, str(error))
            return
        if not lane.delivery.continues(partition, pieces):
            return
        # The position moves even without pieces, past aborted records and markers.
        partition.log.covered = covered
        partition.log.data_at = time.monotonic()
        lane.queue_up(partition, pieces)
        if pieces:
            lane.routes.offer(partition)
        else:
            lane.cover(partition)
        # Among many partitions, one with records leaves the quiet session, because a broker checks all partitions of a
        # session for each answer. A partition with a full queue leaves the session until the queue has drained.
        if not self._busy and (len(self._members) > QUIET_FROM or (self._line.long and covered < partition.log.end)):
            self._move(partition, busy=True)
        elif self._busy and self.size > 1 and (self._node, self._line.sessions()) not in self._peers:
            self._move(partition, busy=True)  # to a session that may be opened but does not exist yet
        elif partition.outbox.queued_bytes > self._queue_limit():
            self._paused.add(partition)
            self._forget(partition)
        else:
            self._want(partition)

    def _move(self, partition: Partition, *, busy: bool) -> None:
        partition.log.busy = busy
        self.remove(partition)
        self._lane.routes.place(partition)

    def _refused(self, partition: Partition, answer: FetchedPartition) -> None:
        """OFFSET_OUT_OF_RANGE and a moved leader send the partition back to the start, which judges its position. A
        batch that the broker finds corrupt is a condition; other errors are the broker's."""
        lane = self._lane
        self.remove(partition)
        if answer.error == OUT_OF_RANGE or answer.error in MOVED:
            partition.log.read_from = (-1, 0.0)
            lane.routes.recheck(partition, "")
        elif answer.error == CORRUPT:
            lane.corrupt(partition, "the source broker found it corrupt")
        else:
            lane.source_failed((partition,), answer.error)


class Fetchers:
    """The fetchers of one lane, made on demand. ``start`` runs one until the lane ends."""

    def __init__(self, lane: Lane, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        self._lane = lane
        self._start = start
        self._lines: dict[int, BrokerLink] = {}
        self._fetchers: dict[tuple[int, int], Fetcher] = {}

    def place(self, node: int, partition: Partition) -> None:
        """Fetches the partition from broker ``node``. A backlog goes to the busy session with the fewest partitions."""
        line, tuning = self._lines.get(node), self._lane.tuning
        if line is None:
            line = self._lines[node] = BrokerLink(tuning.fetch_bytes, tuning.fetch_bytes_far)
        line.round_trip = self._lane.source.round_trip(node)
        self._lane.far |= line.long
        partition.log.busy |= line.long and not partition.caught_up
        number = 0
        if partition.log.busy:
            sizes = {each: fetcher.size for (of, each), fetcher in self._fetchers.items() if of == node}
            number = min(range(1, line.sessions() + 1), key=lambda number: sizes.get(number, 0))
        fetcher = self._fetchers.get((node, number))
        if fetcher is None:
            fetcher = self._fetchers[node, number] = Fetcher(self._lane, (node, number), line, self._fetchers)
            self._start(fetcher.run())
        fetcher.add(partition)

    def forget(self, partition: Partition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.remove(partition)
