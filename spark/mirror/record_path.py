"""The record path: a lane copied record by record with confluent-kafka.

Fence, read the positions at the target, read the source from there, write records and positions in one transaction.
Nothing is remembered between calls: a retry begins with what the target holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka import Consumer, KafkaError, KafkaException

from mirror import clients, positions
from mirror.awaiting import with_claim
from mirror.delivery import NoAnswerError, open_delivery
from mirror.faults import Fault, RefusedError, SupersededError, classify, error_of, lane_failed, target_refuses
from mirror.lanes import Condition, Control, LaneEnd, LaneProgress, LaneReport, LaneSpec
from mirror.record_lane import RecordLane
from mirror.tracks import Stopped, Tally

_LATER_CLAIM_PATIENCE_S = 5.0


def record_path(lane: LaneSpec, control: Control) -> LaneReport:
    """A ``CopyPath``. Partitions that the target refuses stop with a condition; the others go on."""
    claimed = with_claim(lane, control)
    if claimed is None:
        return LaneReport(_end(control), Tally(lane).progress)
    lane = claimed
    tally = Tally(lane)
    careful = False
    try:
        with _closing(clients.position_consumer(lane.target, lane.group)) as group:
            while True:
                try:
                    with _closing(clients.source_consumer(lane)) as source:
                        delivery = open_delivery(lane, group, careful)
                        RecordLane(lane, control, source, group, delivery, tally).run()
                    return LaneReport(_end(control), tally.progress)
                except RefusedError as refusal:
                    careful = _learn(tally, control, refusal)
    except SupersededError as error:
        return LaneReport(LaneEnd.SUPERSEDED, tally.progress, str(error))
    except NoAnswerError:
        text = f"{lane.target.cluster} did not answer a commit; whether it stands is read from there next time"
        return _failed(lane, tally.progress, "target_unreachable", text)
    except KafkaException as error:
        return _after(lane, control, tally.progress, error_of(error))
    except LookupError as error:  # a secret reference
        return _failed(lane, tally.progress, "secret_missing", str(error))


def _end(control: Control) -> LaneEnd:
    return LaneEnd.STOPPED if control.stopping() else LaneEnd.LEASE_OVER


def _learn(tally: Tally, control: Control, refusal: RefusedError) -> bool:
    """True: go on record by record, until the refused one is known. False: its partition is stopped."""
    if classify(refusal.error) is Fault.RECORD and refusal.offset is None:
        return True
    for spec in control.partitions():
        if (spec.target_topic, spec.partition) == (refusal.target, refusal.partition):
            condition = target_refuses(spec, refusal.error, refusal.offset)
            if refusal.offset is None:
                tally.stopped[spec.topic, spec.partition] = Stopped(spec, condition)
            elif "record_refused" in tally.lane.continue_on and classify(refusal.error) is Fault.RECORD:
                tally.refused.setdefault((spec.topic, spec.partition), {})[refusal.offset] = condition
            else:
                tally.limits[spec.topic, spec.partition] = (refusal.offset, condition)
    return False


def _after(lane: LaneSpec, control: Control, progress: LaneProgress, error: KafkaError) -> LaneReport:
    match classify(error):
        case Fault.FENCED:
            if _later_claim(lane, control):
                text = "another application has taken the flow"
                return LaneReport(LaneEnd.SUPERSEDED, progress, text)
            return LaneReport(
                LaneEnd.FAILED, progress, f"fenced, but no later application owns the flow: {error.str()}"
            )
        case Fault.DENIED:
            return _failed(lane, progress, "permission_denied", error.str())
        case _:
            return _failed(lane, progress, "lane_failed", error.str())


def _failed(lane: LaneSpec, progress: LaneProgress, code: str, text: str) -> LaneReport:
    condition: Condition = lane_failed(lane, code, text)
    return LaneReport(LaneEnd.FAILED, replace(progress, conditions=(*progress.conditions, condition)), text)


def _later_claim(lane: LaneSpec, control: Control) -> bool:
    """Who fenced us? A later application writes its claim into the positions moments after it fences."""
    wanted = [(spec.target_topic, spec.partition) for spec in control.partitions()]
    give_up = time.monotonic() + _LATER_CLAIM_PATIENCE_S
    with _closing(clients.position_consumer(lane.target, lane.group)) as group:
        while time.monotonic() < give_up:
            try:
                found = positions.read(group, wanted, patience_s=1.0)
            except KafkaException:
                found = {}
            if any(position.claim > lane.claim for position in found.values()):
                return True
            time.sleep(0.2)
    return False


@contextmanager
def _closing(consumer: Consumer) -> Iterator[Consumer]:
    try:
        yield consumer
    finally:
        consumer.close()
