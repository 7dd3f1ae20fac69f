"""One lane while it is copied: its partitions, the hot loop, when to commit, what to tell."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror import clients, logs, positions, starts
from mirror.decoded_work import Decoded, Left, worker_of
from mirror.delivery import Delivery, NoAnswerError
from mirror.faults import (
    SupersededError,
    is_passing,
    position_lost,
    source_refuses,
    start_out_of_range,
    target_silent,
    timestamp_zero,
    topic_recreated,
)
from mirror.lanes import Condition, Control, LaneSpec, PartitionSpec
from mirror.losses import Loss, added
from mirror.positions import Position
from mirror.throttle import BURST_S, Throttle
from mirror.tracks import Stopped, Tally, Track

_READ_AT_ONCE = 5_000
_COMMIT_BYTES = 64 << 20
_COMMIT_S = 2.0
_SETTLE_S = 0.02  # a read that found nothing for this long ends a transaction
_IDLE_S = 0.1
_REPORT_S = 0.25
_LEAVE_S = 15.0
_WORRY_S = 2.0
_LOOK_PAUSED_S = 2.0

_log = logs.logger("record path")


class RecordLane:
    """Copies until the control says otherwise. Raises what ``record_path`` turns into the lane's end."""

    def __init__(
        self, lane: LaneSpec, control: Control, source: Consumer, group: Consumer, delivery: Delivery, tally: Tally
    ) -> None:
        self.lane = lane
        self.control = control
        self.source = source
        self.group = group
        self.delivery = delivery
        self.tally = tally
        self.tracks: dict[tuple[str, int], Track] = {}
        self.dirty: list[Track] = []  # what the open transaction will move
        self.known: tuple[PartitionSpec, ...] | None = None
        self.opened_at: float | None = None  # monotonic start of the open transaction
        self.leaving_since: float | None = None
        self.reported_at = 0.0
        self.paused: frozenset[tuple[str, int]] = frozenset()
        self.looked_at = 0.0
        self.throttle = tally.throttle or Throttle(control.rate)
        tally.throttle = self.throttle
        self.record_bytes = 1024.0

    def run(self) -> None:
        while not (self.control.stopping() or self.control.lease_over()):
            paused = self.control.paused()
            if paused is not self.paused and paused != self.paused:
                self._pause(paused)
            specs = self.control.partitions()
            if specs is not self.known:
                self._commit()
                self._take(specs)
                self.known = specs
            self._look_at_paused()
            self._step()
            if time.monotonic() - self.reported_at > _REPORT_S + len(self.tracks) / 1000:
                self._report()
        self._commit()
        self._report()

    # partitions that come and go

    def _take(self, specs: Sequence[PartitionSpec]) -> None:
        wanted = {(spec.topic, spec.partition): spec for spec in specs}
        for key, stopped in list(self.tally.stopped.items()):
            if wanted.get(key) != stopped.spec:
                del self.tally.stopped[key]
        gone = [key for key, track in self.tracks.items() if wanted.get(key) != track.spec]
        for key in gone:
            self._forget(key)
        new = [spec for key, spec in wanted.items() if key not in self.tracks and key not in self.tally.stopped]
        if new:
            self._join(new)

    def _forget(self, key: tuple[str, int]) -> None:
        track = self.tracks.pop(key)
        if not track.paused:
            self.source.incremental_unassign([track.source])

    def _pause(self, wished: frozenset[tuple[str, int]]) -> None:
        """Resumed partitions begin anew at the position the target holds: somebody may have moved it meanwhile."""
        self._commit()
        self.paused = wished
        resumed = []
        for key, track in list(self.tracks.items()):
            if track.paused and key not in wished:
                del self.tracks[key]
                resumed.append(track.spec)
            elif not track.paused and key in wished:
                self.source.incremental_unassign([track.source])
                track.paused = True
        if resumed:
            self._join(resumed)

    def _look_at_paused(self) -> None:
        """Their ends go on growing, and nobody reads there."""
        now, paused = time.monotonic(), [track for track in self.tracks.values() if track.paused]
        if not paused or now - self.looked_at < _LOOK_PAUSED_S:
            return
        self.looked_at = now
        with contextlib.suppress(KafkaException):  # a source that does not answer is told by the others
            admin = clients.admin(self.lane.source)
            ends = starts.resolve(admin, [track.spec for track in paused], "latest", None, self.lane.isolation)
            for track in paused:
                track.end = ends[track.spec]
                behind = track.end > track.position
                track.oldest_ms = (track.oldest_ms or int(time.time() * 1000)) if behind else None

    def _join(self, new: Sequence[PartitionSpec]) -> None:
        """Reads the positions, commits where each partition begins and who owns it now, then reads from there."""
        found = positions.read(self.group, [(spec.target_topic, spec.partition) for spec in new])
        if any(position.claim > self.lane.claim for position in found.values()):
            raise SupersededError("another application has taken the flow")
        fresh = [spec for spec in new if (spec.target_topic, spec.partition) not in found]
        begin = self._starts(fresh)
        assignment: list[TopicPartition] = []
        lost = self._out_of_range(begin)
        for spec in new:
            if spec in lost:
                self._stop(spec, lost[spec])
                continue
            position = found.get((spec.target_topic, spec.partition))
            if position is not None and position.topic_id not in ("", spec.topic_id):
                self._stop(spec, topic_recreated(spec, position.topic_id))
                continue
            track = self._track(spec, position, begin)
            self.tracks[spec.topic, spec.partition] = track
            track.limit = self.tally.limit((spec.topic, spec.partition), track.position)
            track.paused = (spec.topic, spec.partition) in self.paused
            if track.paused:
                continue
            epoch: dict[str, int] = {} if track.leader_epoch < 0 else {"leader_epoch": track.leader_epoch}
            assignment.append(TopicPartition(spec.topic, spec.partition, track.position, **epoch))
        self._commit()
        if assignment:
            self.source.incremental_assign(assignment)

    def _starts(self, fresh: Sequence[PartitionSpec]) -> Mapping[PartitionSpec, int]:
        lane, given = self.lane, self.lane.start_offsets
        admin = clients.admin(lane.source)
        others = [spec for spec in fresh if (spec.topic, spec.partition) not in given]
        found = starts.resolve(admin, others, lane.start_kind, lane.start_timestamp_ms, lane.isolation)
        explicit = {spec: given[spec.topic, spec.partition] for spec in fresh if spec not in found}
        return {**found, **explicit}

    def _out_of_range(self, begin: Mapping[PartitionSpec, int]) -> Mapping[PartitionSpec, Condition]:
        """Explicit starts that the source does not have."""
        lane = self.lane
        given = [spec for spec in begin if (spec.topic, spec.partition) in lane.start_offsets]
        admin = clients.admin(lane.source)
        lows = starts.resolve(admin, given, "earliest", None, lane.isolation)
        ends = starts.resolve(admin, given, "latest", None, lane.isolation)
        return {
            spec: start_out_of_range(spec, begin[spec], lows[spec], ends[spec])
            for spec in given
            if not lows[spec] <= begin[spec] <= ends[spec]
        }

    def _track(self, spec: PartitionSpec, position: Position | None, begin: Mapping[PartitionSpec, int]) -> Track:
        work = self.lane.work
        if position is None:
            track = Track.of(spec, self.lane.claim.ground.not_before((spec.topic, spec.partition), begin[spec]), None)
            track.marked, track.worker = work.first_mark(track.position), worker_of(self.lane, spec)
            self._touch(track)
            return track
        track = Track.of(spec, position.offset, position.offset, position.leader_epoch)
        track.marked, track.worker = position.marked if work.provenance else None, worker_of(self.lane, spec)
        if position.claim != self.lane.claim or positions.hour_now() - position.hour >= positions.RENEW_AFTER_HOURS:
            self._touch(track)
        return track

    def _stop(self, spec: PartitionSpec, condition: Condition) -> None:
        """The partition is not read any more; what it has in the open transaction is still committed."""
        key = (spec.topic, spec.partition)
        track = self.tracks.get(key)
        if track is None:
            self.tally.stopped[key] = Stopped(spec, condition)
            return
        self.tally.stopped[key] = Stopped(spec, condition, track.position, self._end(track))
        self._forget(key)

    def _refuse(self, track: Track, offset: int) -> None:
        """The record at ``offset`` cannot be written."""
        key = (track.spec.topic, track.spec.partition)
        limit = self.tally.limits.get(key)
        if "record_refused" not in self.lane.continue_on:
            self._stop(track.spec, timestamp_zero(track.spec, offset) if limit is None else limit[1])
            return
        condition = self.tally.refused.get(key, {}).get(offset) or timestamp_zero(track.spec, offset)
        track.limit = self.tally.limit(key, offset + 1)
        self._go_on(track, offset + 1, Loss("record_refused", 1, 1, text=condition.text))

    def _lost(self, track: Track, low: int, high: int) -> None:
        """The source does not have the next record: it begins at ``low`` and ends at ``high``."""
        condition = position_lost(track.spec, track.position, low, high)
        if condition.code not in self.lane.continue_on:
            self._stop(track.spec, condition)
            return
        found = low if track.position < low else high
        loss = Loss(condition.code, abs(found - track.position), text=condition.text)
        self.source.incremental_unassign([track.source])
        self.source.incremental_assign([TopicPartition(track.spec.topic, track.spec.partition, found)])
        track.leader_epoch = -1
        self._go_on(track, found, loss)

    def _go_on(self, track: Track, position: int, loss: Loss) -> None:
        self._touch(track)
        track.position = position
        track.lost = added(track.lost, [loss])

    # the loop

    def _step(self) -> None:
        if not self._may_read():
            return
        first = self.source.poll(_IDLE_S if self.opened_at is None else _SETTLE_S)
        if first is None:
            self._commit()
            return
        messages = [first, *self.source.consume(self._most() - 1, 0)]
        before = sum(track.bytes for track in self.dirty)
        try:
            self._carry(messages)
        except KafkaException as error:
            self.delivery.give_up(error)
        self._throttled(len(messages), sum(track.bytes for track in self.dirty) - before)
        if self.opened_at is None:
            return
        if (
            (len(messages) < _READ_AT_ONCE and self._caught_up())
            or time.monotonic() - self.opened_at >= _COMMIT_S
            or sum(track.bytes for track in self.dirty) >= _COMMIT_BYTES
        ):
            self._commit()

    def _may_read(self) -> bool:
        """False while the rate limit holds the lane back: then nothing stays open."""
        delay = self.throttle.delay()
        if delay <= 0:
            self.throttle.go_on()
            return True
        self._commit()
        self.throttle.hold()
        time.sleep(min(delay, _IDLE_S))
        return False

    def _most(self) -> int:
        """Records to read at once: under a rate limit, what it lets through in a moment."""
        if not self.throttle.limited:
            return _READ_AT_ONCE
        return max(1, min(_READ_AT_ONCE, int(self.throttle.rate * BURST_S / max(1.0, self.record_bytes))))

    def _throttled(self, messages: int, size: int) -> None:
        if self.throttle.limited:
            self.throttle.take(size)
            self.record_bytes += 0.2 * (size / messages - self.record_bytes)

    def _carry(self, messages: Sequence[Message]) -> None:
        produce, failures = self.delivery.producer.produce, self.delivery.failures
        tracks, careful = self.tracks, self.delivery.careful
        for message in messages:
            if message.error() is not None:
                self._notice(message)
                continue
            track = tracks.get((message.topic(), message.partition()))
            if track is None or track.paused:
                continue
            offset = message.offset()
            stamp = message.timestamp()[1]
            if stamp == 0 or offset >= track.limit:
                self._refuse(track, offset)
                continue
            if not track.dirty:
                self._touch(track)
            if track.last is None:
                track.oldest_ms = stamp
            value, key, headers = message.value(), message.key(), message.headers()
            if track.worker is not None:
                found = track.worker.headers(Decoded(offset, stamp, key, value, headers or ()))
                if isinstance(found, Left):
                    track.position, track.last = offset + 1, message
                    track.left[found] += 1
                    continue
                headers = list(found)
            told = partial(failures, offset=offset) if careful else None
            while True:
                try:
                    produce(track.target, value, key, track.number, on_delivery=told, timestamp=stamp, headers=headers)
                    break
                except BufferError:
                    self._make_room()
            track.last = message
            track.position = offset + 1
            track.records += 1
            track.bytes += (len(value) if value else 0) + (len(key) if key else 0)
        self.delivery.producer.poll(0)

    def _make_room(self) -> None:
        """The producer's queue is full: the target is slower than the source."""
        self.delivery.producer.poll(0.05)
        if time.monotonic() - self.reported_at > _WORRY_S and not self._still_waiting():
            raise NoAnswerError

    def _notice(self, message: Message) -> None:
        """An event of the source that is not a record."""
        error = message.error()
        if error.fatal():
            raise KafkaException(error)
        track = self.tracks.get((message.topic(), message.partition()))
        if track is None:
            return
        spec = track.spec
        match error.code():
            case KafkaError._PARTITION_EOF:
                track.end = message.offset()
                if track.end > track.position:  # control markers and aborted records lie between
                    track.position = track.end
                    self._touch(track)
            case KafkaError._AUTO_OFFSET_RESET | KafkaError.OFFSET_OUT_OF_RANGE | KafkaError._LOG_TRUNCATION:
                low, high = self.source.get_watermark_offsets(track.source, timeout=10.0)
                self._lost(track, low, high)
            case _ if is_passing(error):
                _log.warning("source", topic=spec.topic, partition=spec.partition, error=error.str())
            case _:
                self._stop(spec, source_refuses(spec, track.position, error))

    # transactions

    def _touch(self, track: Track) -> None:
        """The track has something to commit; the first one opens the transaction."""
        if self.opened_at is None:
            self.delivery.begin()
            self.opened_at = time.monotonic()
        if not track.dirty:
            track.dirty = True
            self.dirty.append(track)

    def _caught_up(self) -> bool:
        return all(track.position >= self._source_end(track) for track in self.dirty)

    def _source_end(self, track: Track) -> int:
        """The high watermark of the last fetch; -1001 before the first."""
        high: int = self.source.get_watermark_offsets(track.source, cached=True)[1]
        return high

    def _commit(self) -> None:
        if self.opened_at is None:
            return
        hour = positions.hour_now()
        moved = []
        for track in self.dirty:
            if track.last is not None:
                # Beyond the last record lie markers, whose epoch nobody tells; one that is too small would look
                # like a log that was truncated.
                track.leader_epoch = _epoch(track.last) if track.position == track.last.offset() + 1 else -1
            now = Position(track.position, track.spec.topic_id, track.leader_epoch, self.lane.claim, hour, track.marked)
            moved.append(positions.as_topic_partition(track.spec.target_topic, track.spec.partition, now))
        self.delivery.commit(moved, self._still_waiting)
        self.tally.transactions += 1
        for track in self.dirty:
            self.tally.committed(track)
        self.dirty.clear()
        self.opened_at = None

    def _still_waiting(self) -> bool:
        """The target has not answered yet: tell it; once the lane should leave, wait only a little longer."""
        self._report(target_silent(self.lane))
        if not (self.control.stopping() or self.control.lease_over()):
            return True
        self.leaving_since = self.leaving_since or time.monotonic()
        return time.monotonic() - self.leaving_since < _LEAVE_S

    # what it tells

    def _report(self, *more: Condition) -> None:
        tracks = ((track, self._end(track)) for track in self.tracks.values())
        self.control.report(self.tally.snapshot(tracks, more))
        self.reported_at = time.monotonic()

    def _end(self, track: Track) -> int | None:
        """Where the source ends for us: exact (last stable offset) once we have been there, else the high watermark."""
        if track.paused:
            return track.end
        if track.end is not None and track.end >= track.position:
            return track.end
        high = self._source_end(track)
        return max(high, track.position) if high >= 0 else None


def _epoch(message: Message) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch
