"""The state of one partition in a lane, in parts that each keep one invariant: its place in the source's log, what is
queued and sent and how large batches may be (``produce.outbox``), what holds it, and what is counted.

Mutable, owned by the event loop of its lane; it knows no connections. Times are monotonic seconds but where they say
milliseconds: those are timestamps as records have them.
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
    """Bytes and seconds. ``memory`` bounds what is fetched and not yet acknowledged, over the whole lane; one partition
    may hold the ``partition_share``th part of it. On a long line, where more is under way: ``memory_far``.

    ``requests_in_flight`` per broker is enough nearby; a far broker gets up to ``most_in_flight``.
    """

    memory: int = 32 << 20
    memory_far: int = 96 << 20
    fetch_bytes: int = 4 << 20
    fetch_bytes_far: int = 32 << 20
    partition_bytes: int = 256 << 10
    partition_share: int = 16
    fetch_wait_ms: int = 500
    request_bytes: int = 4 << 20
    requests_in_flight: int = 4
    most_in_flight: int = 256
    bytes_in_flight: int = 48 << 20
    commit_interval: float = 0.003
    transaction_age: float = 0.4
    transaction_bytes: int = 128 << 20
    idle_commit: float = 1.0
    delivery_timeout: float = 20.0
    retry_stopped: float = 5.0
    poll_paused: float = 2.0


UNKNOWN = -1
"""A position that is not read yet."""


class Answers:
    """When a source broker last answered a fetch session: ``at``, monotonic. All partitions that it asks for share it:
    what an answer leaves out has not changed (KIP-227)."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0


class Phase(StrEnum):
    """STARTING: the position is not read or not checked. STOPPED: a condition holds it. PAUSED: a pause holds it.
    LEAVING: no longer ours."""

    STARTING = "starting"
    COPYING = "copying"
    STOPPED = "stopped"
    PAUSED = "paused"
    LEAVING = "leaving"


@dataclass(slots=True, eq=False)
class SourceLog:
    """Where a partition is in its source's log, and what the source last said of it. Offsets and epochs are the
    source's; -1: not known yet."""

    topic_id: UUID = NO_ID
    """As the source's metadata had it when the partition last started."""
    committed: int = -1
    """Next offset to copy as the target has it for good; -1 as well before the first commit of a fresh partition."""
    reached: int = -1
    """Next offset once all that is acknowledged is committed."""
    covered: int = -1
    """Next offset to fetch: what lies before it is acknowledged, sent, queued, or to be skipped."""
    leader_epoch: int = -1
    """Largest epoch of a batch before ``reached`` (KIP-320)."""
    covered_epoch: int = -1
    """Largest epoch of a batch before ``covered``; the sorting of fetched batches moves it ahead."""
    last: Batch | LastBatch | None = None
    """The batch before ``reached`` that was copied last, as far as known."""
    covered_last: Batch | None = None
    """The batch that was sorted last."""
    validated_epoch: int = -1
    """Epoch of the leader that was asked whether it still has what was copied; the start asks each leader once."""
    end: int = -1
    """The source's last stable offset, or its high watermark for read_uncommitted: from an answer that has the
    partition (fetch), or from a question for it (start, source_ends)."""
    end_at: float = 0.0
    """When the source last said ``end`` outside of a fetch session; see ``Partition.end_known_at``."""
    answers: Answers | None = None
    """Of the fetch session that has the partition, whose answers confirm ``end`` by leaving the partition out."""
    silent_since_ms: int | None = None
    """When the source last confirmed ``end``, set while that is too long ago to be the end."""
    read_from: tuple[int, float] = (-1, 0.0)
    """A follower that the leader prefers for this rack (KIP-392), and until when; -1 for the leader."""
    busy: bool = False
    """It has a backlog, so a fetch session for such reads it and not the quiet one of its broker."""
    data_at: float = 0.0
    """When records last came."""
    doubted: tuple[int, int] = (-1, -1)
    """Where a batch was expected, and the base offset that the last answer gave instead: believed the second time."""

    @property
    def in_order(self) -> bool:
        """The invariant. Only a loss moves ``reached`` back before ``committed``, until the next commit."""
        return self.committed <= self.reached <= self.covered

    def begin(self, position: int, leader_epoch: int, last: LastBatch | None = None) -> None:
        """At a committed position."""
        self.committed = self.reached = self.covered = position
        self.last = last
        self.leader_epoch = self.covered_epoch = leader_epoch

    def begin_fresh(self, position: int) -> None:
        """At a position that is not committed yet."""
        self.committed = -1
        self.reached = self.covered = position

    def resume(self, reached: int, leader_epoch: int, last: LastBatch | None = None) -> None:
        """``reached`` is known, -1 for a fresh one; where to fetch, the target's log says (``place``)."""
        self.committed = self.reached = reached
        self.leader_epoch = self.covered_epoch = leader_epoch
        self.last = last

    def place(self, reached: int, fetched_from: int | None = None) -> None:
        """The target's log has what lies before ``reached``."""
        self.committed = self.reached = reached
        if fetched_from is not None:
            self.covered = fetched_from

    def move(self, position: int, fetched_from: int | None = None) -> None:
        """Nothing is queued or unacknowledged: goes on at ``position``, perhaps an earlier one. What is fetched next
        may lie behind offsets that are filled."""
        self.reached = position
        self.covered = position if fetched_from is None else fetched_from

    def reach(self, offset: int, leader_epoch: int = -1, last: Batch | None = None) -> None:
        """All before ``offset`` is acknowledged."""
        self.reached = offset
        self.last = last or self.last
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch

    def sorted_to(self, batch: Batch) -> None:
        """The last one of an answer that is taken or skipped."""
        self.covered_last = batch

    def commit(self, offset: int) -> None:
        self.committed = offset

    def fall_back(self, offset: int, leader_epoch: int) -> None:
        """What was fetched behind ``offset`` is fetched again."""
        self.covered, self.covered_epoch = offset, leader_epoch

    def forget_epochs(self) -> None:
        """The position lies elsewhere than behind what was copied."""
        self.leader_epoch = self.covered_epoch = self.validated_epoch = -1
        self.last = self.covered_last = None

    def unread(self) -> None:
        """The position has to be read again: a seek may have moved it."""
        self.reached = self.covered = -1
        self.forget_epochs()

    def ends_at(self, end: int, now: float) -> None:
        """The source said so when it was asked."""
        self.end, self.end_at = end, now


@dataclass(slots=True, eq=False)
class Hold:
    """Whether the partition is copied, and if not, why and until when. ``retry_at`` is set while STOPPED,
    ``recheck_at`` while PAUSED."""

    phase: Phase = Phase.STARTING
    condition: Condition | None = None
    """What is wrong with it now; it stops the partition or not."""
    held_at: int | None = None
    """Position at which copying itself failed, UNKNOWN before it is read: the condition stays while the same is tried
    again, and ends at another position. None: the checks before copying judge the condition."""
    strikes: int = 0
    """Failures in a row; each stop doubles the pause."""
    retry_at: float = 0.0
    waits_since: float = 0.0
    """When its source first did not serve it, 0.0 while it does; the start reports it once it lasts."""
    pausing: bool = False
    """A pause is asked for; the session follows the control."""
    recheck_at: float = 0.0
    """When its end is read again."""
    left_waiting: int | None = None
    """Milliseconds: the oldest record that a stop or a pause leaves at the source, or when it was first seen."""
    checking: bool = False
    """Checksums are verified before anything is queued, to leave out corrupt batches; until something is copied."""
    why: str = ""
    """In a few words, why its last records were encoded again; the sorting of fetched batches says."""

    def start(self) -> None:
        self.phase = Phase.STARTING

    def copy(self, *, caught_up: bool) -> None:
        self.phase = Phase.COPYING
        if caught_up:
            self.left_waiting = None

    def stop(self, condition: Condition, at: int | None, waiting_ms: int | None, pause: float) -> None:
        """``at`` as ``held_at``; ``waiting_ms``: the oldest record that is not committed; ``pause``: seconds until the
        first retry."""
        self.left_waiting = self.left_waiting or waiting_ms or int(time.time() * 1000)
        self.phase = Phase.STOPPED
        self.report(condition, at)
        self.retry_at = time.monotonic() + pause * min(12, 2**self.strikes)
        self.strikes += 1

    def pause(self, waiting_ms: int | None, look_in: float, *, behind: bool) -> None:
        """``behind``: it leaves something at the source."""
        self.left_waiting = (self.left_waiting or waiting_ms or int(time.time() * 1000)) if behind else None
        self.phase = Phase.PAUSED
        self.recheck_at = time.monotonic() + look_in

    def ask_pause(self, wanted: bool) -> None:
        self.pausing = wanted
        if not wanted:
            self.left_waiting = None

    def leave(self) -> None:
        self.phase = Phase.LEAVING

    def progressed(self) -> None:
        """Something was acknowledged. What a stop was for still waits."""
        self.strikes = 0
        self.checking = False
        if self.left_waiting is not None and self.phase is not Phase.STOPPED:
            self.left_waiting = None

    def strike(self) -> bool:
        """Whether it is the first failure since something was copied: perhaps the batch was damaged on the way."""
        first, self.strikes = self.strikes == 0, self.strikes or 1
        return first

    def check(self) -> None:
        self.checking = True

    def report(self, condition: Condition | None, at: int | None = None) -> None:
        """``at`` as ``held_at``."""
        self.condition, self.held_at = condition, at

    def moved(self, position: int) -> None:
        """``position``: the one that copying goes on at, or has come to."""
        if self.held_at == UNKNOWN:
            self.held_at = position
        elif self.held_at != position:
            self.report(None)


@dataclass(slots=True, eq=False)
class PartitionFigures:
    """What is counted of a partition since the lease began. It outlives sessions: what one has not committed, the next
    forgets and copies again."""

    records: int = 0
    """Committed, as ``bytes``."""
    bytes: int = 0
    open_records: int = 0
    """Acknowledged and not committed, as ``open_bytes``."""
    open_bytes: int = 0
    waiting_since: int | None = None
    """Milliseconds: the oldest record that is fetched and not committed."""
    filtered: int = 0
    """Records that ``where`` kept from the target, committed; ``returning``: that provenance did."""
    returning: int = 0
    losses: Losses = ()
    """What was left behind where the flow goes on, committed."""
    passed: OnceCommitted[tuple[int, int]] = field(default_factory=OnceCommitted)
    """Records that were filtered out, and returning ones; the sorting of fetched batches adds them."""
    lost: OnceCommitted[Loss] = field(default_factory=OnceCommitted)

    def begin(self) -> None:
        """With a session, or when the partition comes back to the lane."""
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
        """All that is acknowledged, up to the position ``offset``. ``oldest_ms``: of what is not."""
        for filtered, returning in self.passed.committed(offset):
            self.filtered += filtered
            self.returning += returning
        for loss in self.lost.committed(offset):
            # The text is the condition's, of a partition that would have stopped.
            text = loss.text.replace(" is not copied further", "", 1)
            self.losses = added(self.losses, [replace(loss, text=text)])
        self.records += self.open_records
        self.bytes += self.open_bytes
        self.open_records = self.open_bytes = 0
        self.waiting_since = oldest_ms

    def fall_back(self, offset: int) -> None:
        """What was fetched behind ``offset`` is fetched again."""
        self.passed.forget_beyond(offset)
        self.lost.forget_beyond(offset)


@dataclass(slots=True, eq=False)
class Partition:
    """One source partition on its way through a session."""

    spec: PartitionSpec
    copied: Copied = field(default_factory=Copied)
    """Runs for the offset map; outlives the session."""
    figures: PartitionFigures = field(default_factory=PartitionFigures)
    worker: RecordWorker | None = None
    """Filters its records, or adds headers to them."""
    marked: tuple[int, int] | None = None
    """Where a flow with provenance begins to have headers, as its positions carry it on; the start sets it."""
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
        """The topic id that goes with its position; empty, as after a seek, until the map knows the position."""
        return self.spec.topic_id if self.copied.anchored else ""

    @property
    def remote_id(self) -> str:
        """The topic id of the copy that its position is of; empty where the target has none."""
        return printed_id(self.copied.of[1].bytes)

    @property
    def reworked(self) -> str:
        """Why its last records were encoded again, or empty while whole batches travel."""
        if self.worker is not None:
            return self.worker.reason
        return self.hold.why if self.hold.phase is Phase.COPYING else ""

    @property
    def end_known_at(self) -> float:
        """Until when ``log.end`` is known to be the end."""
        log = self.log
        fetched = log.answers is not None and self.hold.phase is Phase.COPYING
        return max(log.end_at, log.answers.at) if fetched and log.answers is not None else log.end_at

    def freeze_end(self) -> None:
        """From now on its fetch session confirms nothing; before the phase changes."""
        self.log.end_at = self.end_known_at

    @property
    def caught_up(self) -> bool:
        return not self.outbox.queue and self.log.covered >= self.log.end

    def planned(self) -> int:
        """The position once all that was sent is acknowledged."""
        return self.log.covered if not self.outbox.queue else self._sent()

    def epoch_at(self, position: int) -> int:
        """The largest leader epoch before ``position``, which was reached, planned or covered (KIP-320).

        An epoch that is too small would make the position look like one that the source has lost.
        """
        log = self.log
        if position >= log.covered:
            return max(log.leader_epoch, log.covered_epoch)
        sent = (piece.leader_epoch for piece in self.outbox.unacked if piece.next_offset <= position)
        return max((log.leader_epoch, *sent))

    def last_at(self, position: int) -> LastBatch | None:
        """The source batch that holds the offset before ``position``, which was reached, planned or covered. None where
        it is not known, or of a format that has no checksum."""
        sent = (piece.last for piece in self.outbox.unacked)
        for batch in (self.log.covered_last, self.log.last, *sent):
            if batch is not None and batch.base < position <= batch.next_offset and batch.crc:
                return LastBatch.of(batch)
        return None

    @property
    def last_copied(self) -> LastBatch | None:
        """As near before the fetch position as is known."""
        last = self.log.last
        return self.last_at(self.log.covered) or (LastBatch.of(last) if last is not None and last.crc else None)

    def drop_unsent(self) -> int:
        """Forgets what was fetched and not sent; returns its bytes. The fetch position falls back accordingly."""
        dropped = self.outbox.drop_queue()
        sent = self._sent()
        self.log.fall_back(sent, self.epoch_at(sent) if dropped else self.log.covered_epoch)
        self.figures.fall_back(sent)
        return dropped

    def _sent(self) -> int:
        return self.outbox.unacked[-1].next_offset if self.outbox.unacked else self.log.reached
