"""The result document of the verify job (schemas/verify.schema.json).

For copies that should have the source's offsets but do not, it names the first such offset, its writer and a remedy.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.errors import WireError
from reconciler.kafka.records.batches import Batch
from reconciler.replication.runs import verification
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange, PartitionReading, Unread
from reconciler_mirror.verify.tasks import KeyCounts, Located

CODE = "offsets_diverged"
"""The condition of the mirror for the same fact, by which its runbook is found."""
NO_PRODUCER = -1


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer of the batch at a target offset. ``producer_id`` NO_PRODUCER: a producer without idempotence.
    ``unknown``: why the writer is unknown, else empty."""

    producer_id: int = NO_PRODUCER
    epoch: int = -1
    unknown: str = ""

    def words(self, mirrors: int | None) -> str:
        """``mirrors``: the producer id of the flow's data; None if unknown."""
        if self.unknown:
            return f"who wrote it is not known: {self.unknown}"
        if self.producer_id == NO_PRODUCER:
            return "a producer without a producer id wrote it, so not the mirror"
        whose = {None: "", self.producer_id: ", which is the mirror's"}.get(mirrors, f"; the mirror's is {mirrors}")
        return f"producer id {self.producer_id}, epoch {self.epoch}, wrote it{whose}"


def writers_of(differences: Iterable[tuple[PartitionRange, verification.FirstDifference]]) -> Mapping[int, Writer]:
    """Writers by the range's index, for differences with a target offset. Never raises for a silent cluster."""
    wanted = {
        plan.index: (plan.target, difference.target_offset)
        for plan, difference in differences
        if plan.same_offsets and difference.target_offset is not None
    }
    return asyncio.run(_writers(wanted)) if wanted else {}


async def _writers(wanted: Mapping[int, tuple[OffsetSpan, int]]) -> Mapping[int, Writer]:
    """Reads the batch header at each offset, one after the other: differences are rare."""
    writers: dict[int, Writer] = {}
    for index, (span, offset) in wanted.items():
        try:
            with closing(cluster_of(span.endpoint)) as cluster:
                await logs.leaders(cluster, [span.topic])
                batches = await logs.batches_at(cluster, {(span.topic, span.partition): offset})
        except (WireError, LookupError) as error:
            writers[index] = Writer(unknown=str(error))
        else:
            writers[index] = writer_at(next(iter(batches.values()), None), offset)
    return writers


def writer_at(batch: Batch | None, offset: int) -> Writer:
    """The writer of the batch at ``offset``, or of none: compaction may have left only a later one."""
    if batch is None or batch.base > offset:
        return Writer(unknown=f"offset {offset} no longer exists")
    return Writer(batch.producer_id, batch.producer_epoch)


def words(plan: PartitionRange, difference: verification.FirstDifference, writer: Writer | None) -> tuple[str, str]:
    """Problem and remedy."""
    target, source = plan.target, plan.source
    at, here = difference.target_offset, difference.source_offset
    # No remedy writes into the copy: whatever is appended to a copy with same offsets shifts what comes after.
    if at is None:
        lacks = f"{target.name} lacks what {source.endpoint.cluster} has at offset {here}"
        todo = (
            "If it was compacted or deleted there, nothing is to be done. Else the copy cannot be repaired in place: "
            "let the flow make a new target topic."
        )
        return f"{CODE}: {lacks}", todo
    parts = f"from offset {at} of {target.name} on, offsets do not mean the same record on both sides"
    theirs = f" (the source has that record at {here})" if here not in (None, at) else ""
    todo = (
        "Find out who else writes to the target topic (kafka-transactions.sh describe-producers shows producer ids), "
        "and keep it from that. The records stay where they are; reconciler diverged export ENV FLOW writes those of "
        "one side only, and a new target topic is the way on."
    )
    return f"{CODE}: {parts}{theirs}; {(writer or Writer(unknown='it was not looked for')).words(plan.producer)}", todo


_AGAIN = "Verify again; if it comes back, compare a smaller range with --from."


def partition(
    plan: PartitionRange,
    read: PartitionReading | None,
    counts: KeyCounts,
    located: Located | None,
    writer: Writer | None = None,
) -> verification.ComparedPartition:
    """``read`` None: its task returned nothing, which never counts as equal. ``counts`` and ``located``: for compacted
    partitions. ``writer``: of the differing record, for copies at the source's offsets."""
    differences = differences_of(plan, read, located)
    state, reason, todo = _state(plan, read, counts, located, differences)
    if differences and state is verification.Equality.DIFFERENT and plan.same_offsets:
        reason, todo = words(plan, differences[0], writer)
    # A compacted partition is counted by keys, because compaction may remove other records on each side.
    known = read or PartitionReading(plan.index)
    figures = counts if plan.compacted else KeyCounts(
        known.source_records,
        known.target_records,
        known.equal,
        known.differing,
        older_source=known.older_source,
        older_target=known.older_target,
    )  # fmt: skip
    shown = tuple(differences) if state is verification.Equality.DIFFERENT else ()
    source, target = plan.source, plan.target
    return verification.ComparedPartition(
        plan.flow,
        source.topic,
        target.topic,
        source.partition,
        state,
        "keys" if plan.compacted else "records",
        equal=figures.equal,
        source_records=figures.source,
        target_records=figures.target,
        by_bytes=known.by_bytes,
        sampled=known.sampled,
        differing=figures.differing,
        changing=figures.changing,
        older_at_source=figures.older_source,
        older_at_target=figures.older_target,
        lag=max(0, plan.until - max(plan.position, known.source_end)),
        position=plan.position,
        source=verification.OffsetRange(source.endpoint.cluster, max(known.source_start, source.start), source.end),
        target=verification.OffsetRange(target.endpoint.cluster, max(known.target_start, target.start), target.end),
        timestamps=plan.timestamps,
        parts=plan.parts,
        difference=next(iter(shown), None),
        differences=shown,
        reason=reason,
        todo=todo,
    )


def differences_of(
    plan: PartitionRange, read: PartitionReading | None, located: Located | None
) -> Sequence[verification.FirstDifference]:
    """The confirmed differences to name: of a compacted partition the first key's, else the first record of each
    stretch."""
    if plan.compacted:
        return (located.difference,) if located is not None and located.difference is not None else ()
    return read.differences if read is not None else ()


def unread(skipped: Unread) -> verification.ComparedPartition:
    """An unread partition, or with partition -1 an unread topic or flow."""
    where = (skipped.flow, skipped.topic, skipped.target_topic, skipped.partition)
    return verification.ComparedPartition(
        *where, verification.Equality.UNKNOWN, "nothing", reason=skipped.reason, todo=skipped.todo
    )


def document(
    application: str,
    partitions: Iterable[verification.ComparedPartition],
    readings: Iterable[PartitionReading],
    sample: verification.Sample | None = None,
) -> dict[str, Any]:
    """The content of ``result.json``. ``readings``: for clusters that only one of the two clients could read, which
    weakens the proof and is written beside it. ``sample``: its seed names the parts, which can be compared again."""
    alone = dict(pair for reading in readings for pair in reading.one_client)
    one_client = [
        f"cluster {cluster} was read by the mirror's own client alone, because librdkafka cannot log in there ({why}): "
        "a fault in code that copying and comparing share would not show"
        for cluster, why in sorted(alone.items())
    ]
    ordered = sorted(partitions, key=lambda p: (p.flow, p.source_topic, p.partition))
    header = {"application_id": application, "one_client": one_client, "seed": sample.seed if sample else None}
    return {
        "format_version": verification.FORMAT_VERSION,
        **header,
        "partitions": [*map(verification.CODEC.encoded, ordered)],
    }


def _state(
    plan: PartitionRange,
    read: PartitionReading | None,
    counts: KeyCounts,
    located: Located | None,
    differences: Sequence[verification.FirstDifference],
) -> tuple[verification.Equality, str, str]:
    """State, reason and remedy. A difference that two readings saw outweighs a later read error; one that only a single
    reading saw makes the state unknown."""
    # A confirmed difference stays one, whatever else failed; "equal" needs a complete reading without any doubt.
    if read is None:
        return verification.Equality.UNKNOWN, "the Spark task that read it gave nothing back", _AGAIN
    if differences and not plan.compacted:
        return verification.Equality.DIFFERENT, *_not_compared(plan, read)
    if read.error:
        return verification.Equality.UNKNOWN, read.error, read.todo
    if not differences and not counts.suspect and plan.source.start < plan.position <= read.source_start:
        return verification.Equality.UNKNOWN, "everything was removed from the source before it was read", _AGAIN
    if not read.done:
        return verification.Equality.UNKNOWN, "it was not read to its end", _AGAIN
    kind = "keys" if plan.compacted else "records"
    if read.differing or read.unconfirmed or read.rest is not None:
        return verification.Equality.UNKNOWN, f"a first reading found different {kind}, a second one did not", _AGAIN
    if counts.suspect is None:
        return verification.Equality.EQUAL, "", ""
    if located is None:
        return verification.Equality.UNKNOWN, "its difference was not looked for", _AGAIN
    if located.error:
        return verification.Equality.UNKNOWN, located.error, located.todo
    if located.difference is None:
        return verification.Equality.UNKNOWN, f"a first reading found different {kind}, a second one did not", _AGAIN
    return verification.Equality.DIFFERENT, "", ""


def _not_compared(plan: PartitionRange, read: PartitionReading) -> tuple[str, str]:
    """For a different partition: why it is not compared to its end, and the remedy."""
    if read.error:
        return f"the rest is not known: {read.error}", read.todo
    if read.rest is not None:
        why = f"from offset {read.rest} of {plan.source.name} on nothing is compared: both sides part for good"
        return why, "Compare the records after it with --from."
    if read.unsure is not None:
        begin, end = read.unsure
        why = (
            f"the first one lies in source offsets {begin} to {end - 1}: too few records in a row are equal there to"
            " say how both sides belong together"
        )
        return why, "Verify the flow without --sample to name it."
    return "", ""
