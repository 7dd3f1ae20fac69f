"""Of copies that should lie at the source's offsets: where they part, who wrote there, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from reconciler.kafka.client import small_topics as logs
from reconciler.kafka.client.errors import WireError
from reconciler.kafka.records.batches import Batch, scan
from reconciler_mirror.clients.own import cluster_of
from reconciler_mirror.verify.first_difference import FoundDifference
from reconciler_mirror.verify.model import OffsetSpan, PartitionRange

CODE = "offsets_diverged"
NO_PRODUCER = -1


@dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote the batch at an offset of the target. ``producer_id`` NO_PRODUCER: a producer that is not idempotent.
    ``unknown``: why nobody can tell; else empty."""

    producer_id: int = NO_PRODUCER
    epoch: int = -1
    unknown: str = ""

    def words(self, mirrors: int | None) -> str:
        """``mirrors``: the producer id of the flow's data; None: not known."""
        if self.unknown:
            return f"who wrote it is not known: {self.unknown}"
        if self.producer_id == NO_PRODUCER:
            return "a producer without a producer id wrote it, so not the mirror"
        whose = {None: "", self.producer_id: ", which is the mirror's"}.get(mirrors, f"; the mirror's is {mirrors}")
        return f"producer id {self.producer_id}, epoch {self.epoch}, wrote it{whose}"


def writers_of(differences: Iterable[tuple[PartitionRange, FoundDifference]]) -> Mapping[int, Writer]:
    """By the range's index, where the target has something. Never raises for a cluster that does not answer."""
    wanted = {
        plan.index: (plan.target, difference.target_offset)
        for plan, difference in differences
        if plan.same_offsets and difference.target_offset is not None
    }
    return asyncio.run(_writers(wanted)) if wanted else {}


async def _writers(wanted: Mapping[int, tuple[OffsetSpan, int]]) -> Mapping[int, Writer]:
    return {index: await _writer(span, offset) for index, (span, offset) in wanted.items()}


async def _writer(span: OffsetSpan, offset: int) -> Writer:
    try:
        with closing(cluster_of(span.endpoint)) as cluster:
            key = (span.topic, span.partition)
            await logs.leaders(cluster, [span.topic])
            async for answer in logs.read(cluster, {key: offset}, {key: offset + 1}):
                if (writer := writer_at(scan(answer.records), offset)) is not None:
                    return writer
    except (WireError, LookupError) as error:
        return Writer(unknown=str(error))
    return Writer(unknown=f"offset {offset} is not there any more")


def writer_at(batches: Iterable[Batch], offset: int) -> Writer | None:
    """None: none of the batches has the offset."""
    batch = next((batch for batch in batches if batch.base <= offset < batch.next_offset), None)
    return None if batch is None else Writer(batch.producer_id, batch.producer_epoch)


def words(plan: PartitionRange, difference: FoundDifference, writer: Writer | None) -> tuple[str, str]:
    """What is wrong, and what to do."""
    target, source = plan.target, plan.source
    at, here = difference.target_offset, difference.source_offset
    if at is None:
        lacks = f"{target.name} lacks what {source.endpoint.cluster} has at offset {here}"
        todo = (
            "If it was compacted or deleted there, nothing is to be done. Else the copy cannot be mended in place: let "
            "the flow make a new target topic (docs/mirror/same-offsets.md#when-both-sides-part)."
        )
        return f"{CODE}: {lacks}", todo
    parts = f"from offset {at} of {target.name} on, offsets do not mean the same record on both sides"
    theirs = f" (the source has that record at {here})" if here not in (None, at) else ""
    todo = (
        "Find out who else writes to the target topic (kafka-transactions.sh describe-producers tells producer ids), "
        "and keep it from that. The records stay where they are; reconciler diverged export writes those of one side "
        "only, and a new target topic is the way on (docs/mirror/same-offsets.md#when-both-sides-part)."
    )
    return f"{CODE}: {parts}{theirs}; {(writer or Writer(unknown='nobody looked')).words(plan.producer)}", todo
