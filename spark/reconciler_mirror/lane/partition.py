"""The state of one partition in a lane. Each part keeps one invariant: the place in the source's log, the queue and the
batches in flight (``produce.outbox``), the phase with its condition, and the figures.

Mutable, owned by the event loop of the lane, and free of connections. Times are monotonic seconds, except for record
timestamps, which are milliseconds since 1970.
"""

import time
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import UUID

from reconciler.kafka.client.cluster import NO_ID, Key, printed_id
from reconciler.kafka.records.batches import Batch
from reconciler_mirror.lane.copied_runs import Copied
from reconciler_mirror.lane.produce.outbox import BatchSizes, Outbox, Piece
from reconciler_mirror.model.counters import Loss, Losses, OnceCommitted, added
from reconciler_mirror.model.lane import Condition, LastBatch, PartitionSpec
from reconciler_mirror.record_work.on_bytes import RecordWorker


@dataclass(frozen=True, slots=True)
class Tuning:
    """Bytes and seconds. ``memory`` bounds the fetched and unacknowledged bytes of the whole lane; one partition may
    take 1/``partition_share`` of it. A high round-trip time needs more in flight: then ``memory_far`` applies.

    A nearby broker gets ``requests_in_flight`` requests, a distant one up to ``most_in_flight``.
    """

    memory: int = 32 << 20
    memory_far: int = 96 << 20
    fetch_bytes: int = 4 << 20
    fetch_bytes_far: int = 32 << 20
    """The most that one Fetch answer may bring, from a nearby and from a distant broker."""
    partition_bytes: int = 256 << 10
    """The least that a partition may bring in one Fetch answer, however many share it."""
    partition_share: int = 16
    fetch_wait_ms: int = 500
    """Time that a source broker may hold a request without new records."""
    request_bytes: int = 4 << 20
    """Size at which a Produce request takes no further batch."""
    requests_in_flight: int = 4
    most_in_flight: int = 256
    bytes_in_flight: int = 48 << 20
    commit_interval: float = 0.003
    """The least time between commits once all partitions of a transaction are caught up: latency counts then."""
    transaction_age: float = 0.4
    """Age at which a transaction of partitions with a lag is committed: throughput counts then."""
    transaction_bytes: int = 128 << 20
    """Size at which a transaction is committed, whatever its age."""
    idle_commit: float = 1.0
    """Delay of a commit that only moves positions, since no reader waits for one."""
    delivery_timeout: float = 20.0
    """Time without any answer of the target after which a partition, or the session, begins again."""
    retry_stopped: float = 5.0
    """Pause before a partition that a condition stopped is tried again."""
    poll_paused: float = 2.0
    """How often a paused partition's end is asked for, at most."""


UNKNOWN = -1
"""A position that has not been read yet."""


class Answers:
    """``at``: when a source broker last answered a fetch session. All partitions of the session share this object: a
    partition that the answer leaves out has not changed (KIP-227)."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0


class Phase(StrEnum):
    """STARTING: the position is unread or unchecked. STOPPED by a condition. PAUSED by the user. LEAVING: the
    lane has lost the partition, and only commits what is acknowledged."""

    STARTING = "starting"
    COPYING = "copying"
    STOPPED = "stopped"
    PAUSED = "paused"
    LEAVING = "leaving"


@dataclass(slots=True, eq=False)
class SourceLog:
    """Where copying is in the source partition's log, and what the source last reported. Offsets and epochs are the
    source's; -1: not known yet."""

    topic_id: UUID = NO_ID
    """From the source's metadata when the partition last started."""
    committed: int = -1
    """Next offset to copy, by the committed position at the target; -1 before a fresh partition's first commit."""
    reached: int = -1
    """Next offset to copy once everything acknowledged is committed."""
    covered: int = -1
    """Next offset to fetch: every earlier record is acknowledged, sent, queued or skipped."""
    leader_epoch: int = -1
    """Largest epoch of a batch before ``reached`` (KIP-320)."""
    covered_epoch: int = -1
    """Largest epoch of a batch before ``covered``; sorting of fetched batches advances it."""
    last: Batch | LastBatch | None = None
    """The last batch copied before ``reached``, where known."""
    covered_last: Batch | None = None
    """The last batch that sorting has taken or skipped."""
    validated_epoch: int = -1
    """Epoch of the leader that has confirmed the copied part of the log (KIP-320); each leader is asked once."""
    end: int = -1
    """The source's last stable offset, for read_uncommitted its high watermark; from Fetch or ListOffsets."""
    end_at: float = 0.0
    """When ListOffsets last returned ``end``; see ``Partition.end_known_at``."""
    answers: Answers | None = None
    """Of the fetch session with this partition: an answer without the partition confirms ``end``."""
    silent_since_ms: int | None = None
    """When the source last confirmed ``end``, set once that is too long ago to report ``end`` as the end."""
    read_from: tuple[int, float] = (-1, 0.0)
    """The follower that the leader prefers for this rack (KIP-392), and until when; -1 for the leader."""
    busy: bool = False
    """It has a backlog: the broker's fetch session for busy partitions reads it, not the one for quiet ones."""
    data_at: float = 0.0
    """When records last arrived."""
    doubted: tuple[int, int] = (-1, -1)
    """The expected base offset, and the later one that the last answer had; a second such answer is believed."""

    @property
    def in_order(self) -> bool:
        """The invariant. Only a reported loss moves ``reached`` back behind ``committed``, until the next commit."""
        return self.committed <= self.reached <= self.covered

    def begin(self, position: int, leader_epoch: int, last: LastBatch | None = None) -> None:
        """Starts at a committed position."""
        self.committed = self.reached = self.covered = position
        self.last = last
        self.leader_epoch = self.covered_epoch = leader_epoch

    def begin_fresh(self, position: int) -> None:
        """Starts at a position that is not committed yet."""
        self.committed = -1
        self.reached = self.covered = position

    def resume(self, reached: int, leader_epoch: int, last: LastBatch | None = None) -> None:
        """``reached``: the committed position, -1 for a fresh partition. ``place`` then sets the fetch position, which
        depends on the target's log."""
        self.committed = self.reached = reached
        self.leader_epoch = self.covered_epoch = leader_epoch
        self.last = last

    def place(self, reached: int, fetched_from: int | None = None) -> None:
        """The target's log has every record before ``reached``."""
        self.committed = self.reached = reached
        if fetched_from is not None:
            self.covered = fetched_from

    def move(self, position: int, fetched_from: int | None = None) -> None:
        """Continues at ``position``, which may be an earlier one; nothing is queued or unacknowledged.
        ``fetched_from``: past a hole that is being filled."""
        self.reached = position
        self.covered = position if fetched_from is None else fetched_from

    def reach(self, offset: int, leader_epoch: int = -1, last: Batch | None = None) -> None:
        """Everything before ``offset`` is acknowledged."""
        self.reached = offset
        self.last = last or self.last
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch

    def sorted_to(self, batch: Batch) -> None:
        """``batch``: the last one of an answer, taken or skipped."""
        self.covered_last = batch

    def commit(self, offset: int) -> None:
        self.committed = offset

    def fall_back(self, offset: int, leader_epoch: int) -> None:
        """Drops everything fetched from ``offset`` on; the next fetch starts there."""
        self.covered, self.covered_epoch = offset, leader_epoch

    def forget_epochs(self) -> None:
        """The position no longer follows the last copied batch, so that batch proves nothing about it."""
        self.leader_epoch = self.covered_epoch = self.validated_epoch = -1
        self.last = self.covered_last = None

    def unread(self) -> None:
        """The start must read the position again: a seek may have moved it."""
        self.reached = self.covered = -1
        self.forget_epochs()

    def ends_at(self, end: int, now: float) -> None:
        """ListOffsets returned ``end``."""
        self.end, self.end_at = end, now


@dataclass(slots=True, eq=False)
class Hold:
    """Whether the partition is being copied; if not, why and until when. ``retry_at`` is set while STOPPED,
    ``recheck_at`` while PAUSED. LEAVING is final: what still waits for an answer about the partition must not copy it
    again, perhaps beside its successor."""

    phase: Phase = Phase.STARTING
    condition: Condition | None = None
    """What is wrong with the partition now. Not every condition stops it."""
    held_at: int | None = None
    """Position at which copying itself failed, UNKNOWN before it is read. The condition stays while that position is
    tried again, and ends at any other. None: the checks of the start set and clear the condition."""
    strikes: int = 0
    """Failures in a row; each stop doubles the pause."""
    retry_at: float = 0.0
    waits_since: float = 0.0
    """When the source first failed to serve the partition, else 0.0; the start reports it after ``REPORT_AFTER``."""
    pausing: bool = False
    """The user wants it paused."""
    recheck_at: float = 0.0
    """When the source is next asked for its end."""
    left_waiting: int | None = None
    """Timestamp of the oldest record that a stop or pause leaves uncopied, else the time of the stop or pause."""
    checking: bool = False
    """Until something is copied, checksums are verified before queueing, so that corrupt batches can be left out."""
    why: str = ""
    """A short reason why its last records were encoded again, set when fetched batches are sorted."""

    def _enter(self, phase: Phase) -> None:
        if self.phase is not Phase.LEAVING:
            self.phase = phase

    def start(self) -> None:
        self._enter(Phase.STARTING)

    def copy(self, *, caught_up: bool) -> None:
        self._enter(Phase.COPYING)
        if caught_up:
            self.left_waiting = None

    def stop(self, condition: Condition, at: int | None, waiting_ms: int | None, pause: float) -> None:
        """``at`` as ``held_at``; ``waiting_ms``: timestamp of the oldest uncommitted record; ``pause``: seconds until
        the first retry."""
        self.left_waiting = self.left_waiting or waiting_ms or int(time.time() * 1000)
        self._enter(Phase.STOPPED)
        self.report(condition, at)
        self.retry_at = time.monotonic() + pause * min(12, 2**self.strikes)
        self.strikes += 1

    def pause(self, waiting_ms: int | None, look_in: float, *, behind: bool) -> None:
        """``behind``: the source has records that are not copied."""
        self.left_waiting = (self.left_waiting or waiting_ms or int(time.time() * 1000)) if behind else None
        self._enter(Phase.PAUSED)
        self.recheck_at = time.monotonic() + look_in

    def ask_pause(self, wanted: bool) -> None:
        self.pausing = wanted
        if not wanted:
            self.left_waiting = None

    def leave(self) -> None:
        self.phase = Phase.LEAVING

    def progressed(self) -> None:
        """A batch was acknowledged. A STOPPED partition still has the record that it stopped for waiting."""
        self.strikes = 0
        self.checking = False
        if self.left_waiting is not None and self.phase is not Phase.STOPPED:
            self.left_waiting = None

    def strike(self) -> bool:
        """Whether this is the first failure since a batch was copied: the network may have damaged the batch."""
        first, self.strikes = self.strikes == 0, self.strikes or 1
        return first

    def check(self) -> None:
        self.checking = True

    def report(self, condition: Condition | None, at: int | None = None) -> None:
        """``at`` as ``held_at``."""
        self.condition, self.held_at = condition, at

    def moved(self, position: int) -> None:
        """Copying continues at ``position``, or has reached it."""
        if self.held_at == UNKNOWN:
            self.held_at = position
        elif self.held_at != position:
            self.report(None)


@dataclass(slots=True, eq=False)
class PartitionFigures:
    """Counters of a partition since the lease began. They outlive sessions: a new session resets the uncommitted part,
    because it copies those records again."""

    records: int = 0
    """Committed, like ``bytes``."""
    bytes: int = 0
    open_records: int = 0
    """Acknowledged and not committed, like ``open_bytes``."""
    open_bytes: int = 0
    waiting_since: int | None = None
    """Timestamp (ms) of the oldest record that is fetched and not committed."""
    filtered: int = 0
    """Records that ``where`` filtered out, committed; ``returning``: that provenance filtered out."""
    returning: int = 0
    losses: Losses = ()
    """Records left out under ``continue_on``, committed."""
    passed: OnceCommitted[tuple[int, int]] = field(default_factory=OnceCommitted)
    """Numbers of filtered and of returning records; sorting of fetched batches adds them."""
    lost: OnceCommitted[Loss] = field(default_factory=OnceCommitted)

    def begin(self) -> None:
        """A session begins, or the partition comes back to the lane."""
        self.open_records = self.open_bytes = 0
        self.waiting_since = None
        self.fall_back(-1)

    def fetched(self, pieces: list[Piece]) -> None:
        if self.waiting_since is None and pieces:
            self.waiting_since = pieces[0].timestamp

    def acknowledged(self, piece: Piece) -> None:
        self.open_records += piece.records
        self.open_bytes += len(piece.raw)

    def committed(self, offset: int, oldest_ms: int | None) -> None:
        """The position ``offset`` is committed, with everything acknowledged. ``oldest_ms``: timestamp of the oldest
        record that is not."""
        for filtered, returning in self.passed.committed(offset):
            self.filtered += filtered
            self.returning += returning
        for loss in self.lost.committed(offset):
            # The text was written for the condition of a stopped partition; this one continues.
            text = loss.text.replace(" is not copied further", "", 1)
            self.losses = added(self.losses, [replace(loss, text=text)])
        self.records += self.open_records
        self.bytes += self.open_bytes
        self.open_records = self.open_bytes = 0
        self.waiting_since = oldest_ms

    def fall_back(self, offset: int) -> None:
        """Records from ``offset`` on are fetched again, and counted again."""
        self.passed.forget_beyond(offset)
        self.lost.forget_beyond(offset)


@dataclass(slots=True, eq=False)
class Partition:
    """One source partition on its way through a session."""

    spec: PartitionSpec
    copied: Copied = field(default_factory=Copied)
    """Runs for the offset map; they outlive the session."""
    figures: PartitionFigures = field(default_factory=PartitionFigures)
    worker: RecordWorker | None = None
    """Filters its records, or adds headers to them."""
    uncompressed: bool = False
    """The target refuses compressed records."""
    marked: tuple[int, int] | None = None
    """Where provenance headers begin (target and source offset). The start sets it, each position carries it on."""
    log: SourceLog = field(default_factory=SourceLog)
    outbox: Outbox = field(default_factory=Outbox)
    sizes: BatchSizes = field(default_factory=BatchSizes)
    hold: Hold = field(default_factory=Hold)

    @property
    def source(self) -> Key:
        return (self.spec.topic, self.spec.partition)

    @property
    def target(self) -> Key:
        return (self.spec.target_topic, self.spec.partition)

    @property
    def position_id(self) -> str:
        """The source topic id to commit with the position; empty from a seek until the offset map has the position."""
        return self.spec.topic_id if self.copied.anchored else ""

    @property
    def remote_id(self) -> str:
        """The remote topic's id to commit with its position; empty where the target has no topic ids."""
        return printed_id(self.copied.of[1].bytes)

    @property
    def reworked(self) -> str:
        """Why its last records were encoded again, or empty while whole batches travel."""
        if self.worker is not None:
            return self.worker.reason
        return self.hold.why if self.hold.phase is Phase.COPYING else ""

    @property
    def end_known_at(self) -> float:
        """When the source last confirmed ``log.end``."""
        log = self.log
        fetched = log.answers is not None and self.hold.phase is Phase.COPYING
        return max(log.end_at, log.answers.at) if fetched and log.answers is not None else log.end_at

    def freeze_end(self) -> None:
        """Called before the phase changes: from then on the fetch session no longer confirms the end."""
        self.log.end_at = self.end_known_at

    @property
    def caught_up(self) -> bool:
        return not self.outbox.queue and self.log.covered >= self.log.end

    def planned(self) -> int:
        """The position once everything sent is acknowledged."""
        return self.log.covered if not self.outbox.queue else self._sent()

    def epoch_at(self, position: int) -> int:
        """The largest leader epoch before ``position``, which was reached, planned or covered (KIP-320).

        With too small an epoch, OffsetForLeaderEpoch would end before the position, and the source seem truncated.
        """
        log = self.log
        if position >= log.covered:
            return max(log.leader_epoch, log.covered_epoch)
        sent = (piece.leader_epoch for piece in self.outbox.unacked if piece.next_offset <= position)
        return max((log.leader_epoch, *sent))

    def last_at(self, position: int) -> LastBatch | None:
        """The source batch with the offset before ``position``, which was reached, planned or covered. None if unknown,
        or if its format has no CRC."""
        sent = (piece.last for piece in self.outbox.unacked)
        for batch in (self.log.covered_last, self.log.last, *sent):
            if batch is not None and batch.base < position <= batch.next_offset and batch.crc:
                return LastBatch.of(batch)
        return None

    @property
    def last_copied(self) -> LastBatch | None:
        """The known batch nearest before the fetch position."""
        last = self.log.last
        return self.last_at(self.log.covered) or (LastBatch.of(last) if last is not None and last.crc else None)

    def drop_unsent(self) -> int:
        """Drops the fetched and unsent pieces, and moves the fetch position back to the first of them; returns their
        bytes."""
        dropped = self.outbox.drop_queue()
        sent = self._sent()
        self.log.fall_back(sent, self.epoch_at(sent) if dropped else self.log.covered_epoch)
        self.figures.fall_back(sent)
        return dropped

    def _sent(self) -> int:
        return self.outbox.unacked[-1].next_offset if self.outbox.unacked else self.log.reached
