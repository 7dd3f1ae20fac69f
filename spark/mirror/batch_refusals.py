"""The conditions that a broker's answer leads to; ``faults`` has those that positions and bounds lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror.lanes import Condition, LaneSpec
from wire.errors import DENIED, TOO_LARGE, UNKNOWN_TOPIC, name_of

if TYPE_CHECKING:
    from mirror.batch_partition import Partition, Piece

# The broker checked the batch and did not write it.
DEFINITE = frozenset({2, 17, 29, 32, 38, 42, 43, 44, 76, 87})
# Of those, and of the sizes: where it is one record that is refused, and the next may be taken.
OF_ONE_RECORD = TOO_LARGE | {32, 44, 87}


def refused(partition: Partition, code: int, message: str, piece: Piece | None = None) -> Condition:
    """The target does not take a batch of this partition, or, without a piece, nothing at all."""
    spec = partition.spec
    why = f"{name_of(code)}{f' ({message})' if message else ''}"
    if code in DENIED:
        return Condition(
            "permission_denied",
            f"{spec.topic}-{spec.partition} is not copied: the target refuses writing {spec.target_topic}: {why}",
            f"Give the mirror's principal WRITE on {spec.target_topic} at the target; copying goes on by itself.",
            spec.topic,
            spec.partition,
            stops=True,
        )
    what = f"what begins at source offset {partition.reached}"
    if piece is not None and piece.records == 1:
        size = f", {len(piece.raw)} bytes" if code in TOO_LARGE else ""
        what = f"the record at source offset {piece.copied[0][0]}{size}"
    return Condition(
        "record_refused",
        f"{spec.topic}-{spec.partition} is not copied further: {spec.target_topic} refuses {what}: {why}",
        f"Compare max.message.bytes, cleanup.policy and message.timestamp.* of {spec.target_topic} with the source; "
        "once the target takes the record, copying goes on by itself.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def corrupt(partition: Partition, why: str) -> Condition:
    spec = partition.spec
    return Condition(
        "corrupt_source_batch",
        f"{spec.topic}-{spec.partition} is not copied further than source offset {partition.reached}: {why}. The "
        "mirror does not pass on bytes whose checksum it cannot confirm",
        "Check the disk of the source broker that leads the partition; another replica may be sound. Copying goes on "
        "by itself once the batch reads well.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def unavailable(partition: Partition, side: str, why: str) -> Condition:
    """``side``: source or target."""
    spec = partition.spec
    topic = spec.topic if side == "source" else spec.target_topic
    return Condition(
        f"{side}_unavailable",
        f"{spec.topic}-{spec.partition} waits: {topic}-{spec.partition} at the {side} does not serve it: {why}",
        f"Check that the partition has a leader and enough in-sync replicas at the {side}; it is tried "
        "again by itself.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def source_refuses(partition: Partition, code: int) -> Condition:
    spec = partition.spec
    if code in DENIED:
        return Condition(
            "permission_denied",
            f"{spec.topic}-{spec.partition} is not copied: the source refuses reading it: {name_of(code)}",
            f"Give the mirror's principal READ on {spec.topic} at the source; copying goes on by itself.",
            spec.topic,
            spec.partition,
            stops=True,
        )
    return unavailable(partition, "source", name_of(code))


def source_gone(partition: Partition) -> Condition:
    spec = partition.spec
    return Condition(
        "source_topic_deleted",
        f"{spec.topic}-{spec.partition} is not copied: it does not exist at the source any more",
        f"Remove it from the flow, or create it again; {spec.target_topic} keeps what was copied.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def target_missing(partition: Partition, partitions: int, code: int) -> Condition:
    """``partitions``: how many the target topic has, 0 when it does not exist."""
    spec = partition.spec
    if code in DENIED:
        return refused(partition, code, "")
    if partitions == 0 or code == UNKNOWN_TOPIC:
        return Condition(
            "target_topic_missing",
            f"{spec.topic}-{spec.partition} is not copied: {spec.target_topic} does not exist at the target",
            "Run reconciler apply, which creates it; copying goes on by itself.",
            spec.topic,
            spec.partition,
            stops=True,
        )
    return Condition(
        "target_topic_smaller",
        f"{spec.topic}-{spec.partition} is not copied: {spec.target_topic} has only {partitions} partitions",
        "Run reconciler apply, which adds the missing partitions; copying goes on by itself.",
        spec.topic,
        spec.partition,
        stops=True,
    )


def unreachable(spec: LaneSpec, side: str, why: str) -> Condition:
    """``side``: source or target. The whole lane waits."""
    end = spec.source if side == "source" else spec.target
    return Condition(
        f"{side}_unreachable",
        f"lane {spec.lane} of {spec.flow} waits for {end.cluster}: {why}",
        f"Check {end.cluster} ({', '.join(end.bootstrap_servers)}); copying goes on by itself.",
    )


def quota_throttled(cluster: str, seconds: float) -> Condition:
    return Condition(
        "quota_throttled",
        f"{cluster} throttles the mirror: a client quota is used up, the next request waits {seconds:.1f} s",
        "Raise producer_byte_rate, consumer_byte_rate or request_percentage of the mirror's principal, or accept lag.",
    )
