"""What a Kafka error means for a lane: whose fault it is, and the condition a person reads."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from confluent_kafka import KafkaError, KafkaException

from mirror.lanes import Condition, LaneSpec, PartitionSpec


class Fault(StrEnum):
    """FENCED: another holder of the transactional.id. RECORD: the target refuses this record, and will again.
    DENIED: the principal lacks a right. GONE: the topic is not there. AGAIN: worth another try."""

    FENCED = "fenced"
    RECORD = "record"
    DENIED = "denied"
    GONE = "gone"
    AGAIN = "again"


class SupersededError(Exception):
    """A later application owns the flow; nothing may be written any more."""


class RefusedError(Exception):
    """The target refused records of one partition; the transaction was aborted.

    ``offset`` is the source offset of the refused record, or None when a whole batch was refused and the record in it
    is not known.
    """

    def __init__(self, target: str, partition: int, error: KafkaError, offset: int | None) -> None:
        super().__init__(error.str())
        self.target = target
        self.partition = partition
        self.error = error
        self.offset = offset


_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
_RECORD = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}


# What a source broker says in passing; the client tries again by itself. Any other error may hide a record that was
# skipped (a bad checksum, an unknown codec), so it stops the partition.
_PASSING = _GONE | {
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


def is_passing(error: KafkaError) -> bool:
    return error.code() in _PASSING


def is_moving(error: KafkaError) -> bool:
    """Passing, and not because a topic is gone."""
    return error.code() in _PASSING - _GONE


def error_of(error: KafkaException) -> KafkaError:
    return error.args[0]


def classify(error: KafkaError) -> Fault:
    code = error.code()
    if code in _FENCED:
        return Fault.FENCED
    if code in _RECORD:
        return Fault.RECORD
    if code in _DENIED:
        return Fault.DENIED
    if code in _GONE:
        return Fault.GONE
    return Fault.AGAIN


def target_refuses(spec: PartitionSpec, error: KafkaError, offset: int | None) -> Condition:
    """The condition of a partition whose records the target does not take."""
    where = f"{spec.topic}-{spec.partition}" + ("" if offset is None else f" at offset {offset}")
    match classify(error):
        case Fault.DENIED:
            return Condition(
                "permission_denied",
                f"{where} is not copied: the target refuses writing {spec.target_topic}: {error.str()}",
                f"Give the mirror's principal WRITE on {spec.target_topic} at the target; copying goes on by itself.",
                spec.topic,
                spec.partition,
                stops=True,
            )
        case Fault.GONE:
            return Condition(
                "target_topic_missing",
                f"{where} is not copied: {spec.target_topic} does not exist at the target: {error.str()}",
                "Run reconciler apply, which creates it; copying goes on by itself.",
                spec.topic,
                spec.partition,
                stops=True,
            )
        case _:
            return Condition(
                "record_refused",
                f"{where} is not copied further: {spec.target_topic} refuses the record: {error.str()}",
                f"Compare max.message.bytes, cleanup.policy and message.timestamp.* of {spec.target_topic} with the "
                "source; once the target takes the record, copying goes on by itself.",
                spec.topic,
                spec.partition,
                stops=True,
            )


def _seek(spec: PartitionSpec, place: int | str) -> str:
    """The command that moves a position; Kafka's own tool would keep it within the offsets of the target."""
    one = "" if spec.partition < 0 else f" --partition {spec.partition}"
    return f"reconciler mirror seek ENV FLOW --topic {spec.topic}{one} --to {place}"


def timestamp_zero(spec: PartitionSpec, offset: int) -> Condition:
    return Condition(
        "record_refused",
        f"{spec.topic}-{spec.partition} is not copied further: the record at offset {offset} has timestamp 0, which "
        "the record path cannot write (librdkafka takes 0 for now)",
        f"Let the partition's retention pass this record, or move the position behind it: {_seek(spec, offset + 1)}.",
        spec.topic,
        spec.partition,
        stops=True,
    )


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
        f"{where} is not copied further: the next record is offset {position} but the source ends at {high}: the log "
        "was truncated (unclean leader election) or the topic was recreated, and the target holds records that the "
        "source has lost",
        f"Compare both topics, then go on at an offset from {low} to {high}: {_seek(spec, high)}.",
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


def source_refuses(spec: PartitionSpec, position: int, error: KafkaError) -> Condition:
    """The source does not hand over what comes at ``position``."""
    where = f"{spec.topic}-{spec.partition}"
    if classify(error) is Fault.DENIED:
        return Condition(
            "permission_denied",
            f"{where} is not copied: the source refuses reading it: {error.str()}",
            f"Give the mirror's principal READ on {spec.topic} at the source; copying goes on by itself.",
            spec.topic,
            spec.partition,
            stops=True,
        )
    return Condition(
        "source_unreadable",
        f"{where} is not copied further than offset {position}: what the source sends cannot be read: {error.str()}",
        "Check the disk of the source broker that leads the partition; another replica may be sound. Copying goes on "
        "by itself once the records can be read.",
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
        "secret_missing": "Set it where the Spark tasks run. The lane is tried again by itself.",
    }
    return Condition(
        code,
        f"lane {lane.lane} of {lane.flow} failed: {text}",
        todo.get(code, "The lane is tried again by itself; if this stays, look into the task's log."),
    )


def target_silent(lane: LaneSpec) -> Condition:
    return Condition(
        "target_unreachable",
        f"lane {lane.lane} of {lane.flow} waits for {lane.target.cluster}, which does not take records or commits",
        f"Check {lane.target.cluster} ({', '.join(lane.target.bootstrap_servers)}); copying goes on by itself.",
    )
