"""A flow's positions: group ``mirror.<flow>`` on the target, keyed by target topic and partition.

The offset is the next *source* offset. The metadata string is compact JSON: source topic id, leader epoch of the last
record copied, the claim of the application that wrote it, where provenance begins, and the hour, so that idle positions
are renewed before the group coordinator forgets them (offsets.retention.minutes, 7 days by default).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from mirror.lanes import NO_CLAIM, Claim

RENEW_AFTER_HOURS = 24
_PATIENCE_S = 30.0
_NOT_YET = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError._TRANSPORT,
    }
)


@dataclass(frozen=True, slots=True)
class Position:
    """``leader_epoch`` is -1 and ``topic_id`` empty when not known.

    ``marked``: target and source offset from which on every copy carries a provenance header; None: it does not.
    """

    offset: int
    topic_id: str = ""
    leader_epoch: int = -1
    claim: Claim = NO_CLAIM
    hour: int = 0
    marked: tuple[int, int] | None = None


def hour_now() -> int:
    return int(time.time()) // 3600


def encode(position: Position) -> str:
    """The metadata string of ``position``; a few dozen bytes (the broker's limit is 4096)."""
    fields = {
        "i": position.topic_id,
        "e": position.leader_epoch,
        "c": position.claim.number,
        "a": position.claim.application,
        "h": position.hour,
        **({} if position.marked is None else {"m": position.marked}),
    }
    return json.dumps(fields, separators=(",", ":"))


def decode(offset: int, metadata: str | None) -> Position:
    """What somebody wrote by hand (``kafka-consumer-groups --reset-offsets`` leaves no metadata) is a position too."""
    try:
        fields = json.loads(metadata or "{}")
        return Position(
            offset,
            str(fields.get("i", "")),
            int(fields.get("e", -1)),
            Claim(int(fields.get("c", 0)), str(fields.get("a", ""))),
            int(fields.get("h", 0)),
            _marked(fields.get("m")),
        )
    except (ValueError, TypeError, AttributeError):
        return Position(offset)


def _marked(given: Any) -> tuple[int, int] | None:
    if given is None:
        return None
    target, source = given
    return int(target), int(source)


def read(
    group: Consumer, partitions: Iterable[tuple[str, int]], patience_s: float = _PATIENCE_S
) -> Mapping[tuple[str, int], Position]:
    """Committed positions of target partitions; those without one are left out.

    ``group`` must be a read_committed consumer of the position group: librdkafka then asks for stable offsets, so an
    open transaction is waited for. Raises KafkaException when there is no answer within ``patience_s``.
    """
    wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
    if not wanted:
        return {}
    give_up = time.monotonic() + patience_s
    while True:
        try:
            answer = group.committed(wanted, timeout=max(1.0, give_up - time.monotonic()))
            break
        except KafkaException as error:
            if error.args[0].code() not in _NOT_YET or time.monotonic() > give_up:
                raise
            time.sleep(0.1)
    for entry in answer:
        if entry.error is not None:
            raise KafkaException(entry.error)
    return {(e.topic, e.partition): decode(e.offset, e.metadata) for e in answer if e.offset >= 0}
