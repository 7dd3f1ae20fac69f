"""What stops a lane or a partition, as the condition a person reads; and which errors of librdkafka pass."""

from __future__ import annotations

from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException

from mirror.lanes import Condition, LaneSpec, PartitionSpec
from wire.transactions import TRANSACTION_TIMEOUT_MS


class SupersededError(Exception):
    """A later application owns the flow; nothing may be written any more."""


# What a broker says in passing while a leader moves or a connection breaks.
_MOVING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._WAIT_COORD,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


def is_moving(error: KafkaError) -> bool:
    return error.code() in _MOVING


def error_of(error: KafkaException) -> KafkaError:
    return error.args[0]


def _seek(spec: PartitionSpec, place: int | str) -> str:
    """The command that moves a position; Kafka's own tool would keep it within the offsets of the target."""
    one = "" if spec.partition < 0 else f" --partition {spec.partition}"
    return f"reconciler mirror seek ENV FLOW --topic {spec.topic}{one} --to {place}"


def position_lost(spec: PartitionSpec, position: int, low: int, high: int) -> Condition:
    """The source no longer has, or never had, the next record to copy. ``low`` and ``high`` are its ends."""
    where = f"{spec.topic}-{spec.partition}"
    if position < low:
        return Condition(
            "source_retention_passed",
            f"{where} is not copied further: the next record is offset {position} but the source begins at {low}: "
            f"{low - position} offsets were deleted by retention before they were copied",
            f"Accept it: {_seek(spec, 'earliest')}. And give the source topic more retention.",
            spec.topic,
            spec.partition,
            stops=True,
        )
    return Condition(
        "source_truncated",
        f"{where} is not copied further: the next record is offset {position}, but the source has what was copied "
        f"only up to {high}: its log was truncated (unclean leader election) or the topic was recreated, and the "
        "target holds records that the source has lost",
        f"Compare both topics, then go on at an offset from {low} to {high}: {_seek(spec, high)}.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def position_missing(spec: PartitionSpec, flow: str, before: tuple[str, int]) -> Condition:
    """``before``: the flow that copied the partition, and the source offset up to which it did, at least."""
    where, (other, offset) = f"{spec.topic}-{spec.partition}", before
    who = f"flow {other}" if other != flow else "it"
    place = f"--from-flow {other}" if other != flow else f"--to {offset}"
    seek = f"reconciler mirror seek ENV {flow} --topic {spec.topic}"
    return Condition(
        "position_missing",
        f"{where} is not copied: flow {flow} has no position for it, but {who} has copied it to {spec.target_topic} up "
        f"to source offset {offset} or a little further; from the start its records would be there twice",
        f"Go on where that ended: {seek} {'' if other != flow else f'--partition {spec.partition} '}{place}. To copy "
        "all of it again: --to earliest.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def start_out_of_range(spec: PartitionSpec, offset: int, low: int, end: int) -> Condition:
    """An explicit start that the source does not have. ``low`` and ``end`` are its bounds."""
    where = f"{spec.topic}-{spec.partition}"
    return Condition(
        "start_offset_out_of_range",
        f"{where} is not copied: start.offsets says {offset}, but the source has offsets {low} to {end}",
        f"Correct start.offsets for {where} to an offset from {low} to {end}, or remove it, and run apply.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def topic_recreated(spec: PartitionSpec, known: str) -> Condition:
    return Condition(
        "source_topic_recreated",
        f"{spec.topic}-{spec.partition} is not copied: the position belongs to a deleted topic of the same name (id "
        f"{known}, now {spec.topic_id})",
        f"Decide about the old records in {spec.target_topic}, then copy the new topic from its beginning: "
        f"{_seek(replace(spec, partition=-1), 'earliest')}.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def lane_failed(lane: LaneSpec, code: str, text: str) -> Condition:
    todo = {
        "permission_denied": f"Give the mirror's principal its rights at {lane.target.cluster} and "
        f"{lane.source.cluster}; reconciler plan lists them. The lane is tried again by itself.",
        "target_unreachable": f"Check {lane.target.cluster} ({', '.join(lane.target.bootstrap_servers)}). The lane is "
        "tried again by itself.",
        "hanging_transaction": "Compare the last records of both partitions (reconciler verify), then end the "
        "transaction with Kafka's own kafka-transactions (find-hanging, abort). The lane is tried again by itself.",
        "transaction_timeout_refused": f"Set transaction.max.timeout.ms of {lane.target.cluster} to at least "
        f"{TRANSACTION_TIMEOUT_MS} on its brokers. The lane is tried again by itself.",
        "authentication_failed": f"Check sasl.* and ssl.* of {lane.source.cluster} and {lane.target.cluster}, under "
        "client and principals.mirror, and their secrets where the Spark tasks run; reconciler doctor tries them. The "
        "lane is tried again by itself.",
        "secret_missing": "Set it where the Spark tasks run. The lane is tried again by itself.",
    }
    return Condition(
        code,
        f"lane {lane.lane} of {lane.flow} failed: {text}",
        todo.get(code, "The lane is tried again by itself; if this stays, look into the task's log."),
        stops=True,
    )
