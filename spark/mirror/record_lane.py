"""One lane while it is copied: its partitions, the hot loop, when to commit, what to tell."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror import logs, positions
from mirror.decoded_work import Decoded, Left
from mirror.delivery import Delivery, NoAnswerError
from mirror.faults import (
    SupersededError,
    is_passing,
    source_refuses,
    target_silent,
    topic_recreated,
)
from mirror.lanes import Condition, Control, LaneSpec, PartitionSpec
from mirror.losses import Loss, added
from mirror.record_losses import at_gap, at_refusal
from mirror.record_offsets import end_of, ends_of, high_watermark, moved_by, out_of_range, starts_of, track_of
from mirror.record_pace import READ_AT_ONCE, RecordPace
from mirror.throttle import Throttle
from mirror.tracks import Stopped, Tally, Track

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
        self.throttle = tally.throttle = tally.throttle or Throttle(control.rate)
        self.pace = RecordPace(self.throttle)

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
            ends = ends_of(self.lane, paused)
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
        begin = starts_of(self.lane, fresh)
        assignment: list[TopicPartition] = []
        lost = out_of_range(self.lane, begin)
        for spec in new:
            if spec in lost:
                self._stop(spec, lost[spec])
                continue
            position = found.get((spec.target_topic, spec.partition))
            if position is not None and position.topic_id not in ("", spec.topic_id):
                self._stop(spec, topic_recreated(spec, position.topic_id))
                continue
            track, to_write = track_of(self.lane, spec, position, begin)
            if to_write:
                self._touch(track)
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

    def _stop(self, spec: PartitionSpec, condition: Condition) -> None:
        """The partition is not read any more; what it has in the open transaction is still committed."""
        key = (spec.topic, spec.partition)
        track = self.tracks.get(key)
        if track is None:
            self.tally.stopped[key] = Stopped(spec, condition)
            return
        self.tally.stopped[key] = Stopped(spec, condition, track.position, end_of(self.source, track))
        self._forget(key)

    def _refuse(self, track: Track, offset: int) -> None:
        """The record at ``offset`` cannot be written."""
        found = at_refusal(self.lane, self.tally, track, offset)
        if isinstance(found, Condition):
            self._stop(track.spec, found)
            return
        track.limit = self.tally.limit((track.spec.topic, track.spec.partition), offset + 1)
        self._go_on(track, offset + 1, found)

    def _lost(self, track: Track, low: int, high: int) -> None:
        """The source does not have the next record: it begins at ``low`` and ends at ``high``."""
        gap = at_gap(self.lane, track, low, high)
        if isinstance(gap, Condition):
            self._stop(track.spec, gap)
            return
        found, loss = gap
        self.source.incremental_unassign([track.source])
        self.source.incremental_assign([TopicPartition(track.spec.topic, track.spec.partition, found)])
        track.leader_epoch = -1
        self._go_on(track, found, loss)

    def _go_on(self, track: Track, position: int, loss: Loss) -> None:
        self._touch(track)
        track.position = position
        track.lost = added(track.lost, [loss])

    def _step(self) -> None:
        if not self._may_read():
            return
        first = self.source.poll(_IDLE_S if self.opened_at is None else _SETTLE_S)
        if first is None:
            self._commit()
            return
        messages = [first, *self.source.consume(self.pace.most() - 1, 0)]
        before = sum(track.bytes for track in self.dirty)
        try:
            self._carry(messages)
        except KafkaException as error:
            self.delivery.give_up(error)
        self.pace.took(len(messages), sum(track.bytes for track in self.dirty) - before)
        if self.opened_at is None:
            return
        if (
            (len(messages) < READ_AT_ONCE and self._caught_up())
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

    def _touch(self, track: Track) -> None:
        """The track has something to commit; the first one opens the transaction."""
        if self.opened_at is None:
            self.delivery.begin()
            self.opened_at = time.monotonic()
        if not track.dirty:
            track.dirty = True
            self.dirty.append(track)

    def _caught_up(self) -> bool:
        return all(track.position >= high_watermark(self.source, track) for track in self.dirty)

    def _commit(self) -> None:
        if self.opened_at is None:
            return
        self.delivery.commit(moved_by(self.dirty, self.lane.claim), self._still_waiting)
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

    def _report(self, *more: Condition) -> None:
        tracks = ((track, end_of(self.source, track)) for track in self.tracks.values())
        self.control.report(self.tally.snapshot(tracks, more))
        self.reported_at = time.monotonic()
