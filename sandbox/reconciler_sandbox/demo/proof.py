"""Proves that both sides are equal after the demo: count and digest of each partition.

Reads with read_committed, on both sides up to the ends that are seen at the start. Knows nothing of flows: the
caller says which topic is the copy of which.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from confluent_kafka import Message
from rich.table import Table

from reconciler_sandbox.demo import read_topic as reading
from reconciler_sandbox.demo.digests import (
    Content,
    Fingerprint,
    FingerprintBuilder,
    ProvedRecord,
    RecordDifference,
    first_difference,
    last_common_mark,
)
from reconciler_sandbox.demo.read_topic import PartitionSpan

Place = tuple[str, int]
Side = tuple[PartitionSpan, Fingerprint]


@dataclass(frozen=True, slots=True)
class PartitionProof:
    """None stands for a partition that this side does not have."""

    source_topic: str
    target_topic: str
    partition: int
    source: Fingerprint | None
    target: Fingerprint | None
    difference: RecordDifference | None

    @property
    def equal(self) -> bool:
        return self.difference is None


@dataclass(frozen=True, slots=True)
class Proof:
    partitions: tuple[PartitionProof, ...]
    seconds: float

    @property
    def equal(self) -> bool:
        return all(partition.equal for partition in self.partitions)

    @property
    def records(self) -> int:
        """On the source side."""
        return sum(partition.source.records for partition in self.partitions if partition.source)

    def differences(self) -> tuple[str, ...]:
        """One sentence for each partition that differs."""
        return tuple(_sentence(partition) for partition in self.partitions if not partition.equal)


def prove(source: Mapping[str, str], target: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> Proof:
    """``source`` and ``target`` are librdkafka settings, ``pairs`` are (source topic, target topic).

    A target partition more than the source has must be empty. Raises SandboxError when a side cannot be read.
    """
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        ours = pool.submit(_fingerprints, source, [topic for topic, _ in pairs])
        theirs = pool.submit(_fingerprints, target, [topic for _, topic in pairs])
        sides = _Sides(source, ours.result(), target, theirs.result())
    proofs = tuple(sides.compare(pair, index) for pair in pairs for index in sides.indexes(pair))
    return Proof(proofs, time.monotonic() - began)


def _fingerprints(client: Mapping[str, str], topics: Sequence[str]) -> dict[Place, Side]:
    spans = reading.spans(client, topics)
    builders = {(span.topic, span.partition): FingerprintBuilder(span.start) for span in spans}
    for message in reading.records(client, spans):
        builders[message.topic(), message.partition()].add(message.offset(), _content(message))
    return {(span.topic, span.partition): (span, builders[span.topic, span.partition].done()) for span in spans}


def _content(message: Message) -> Content:
    return message.key(), message.value(), tuple(message.headers() or ()), message.timestamp()[1]


@dataclass(frozen=True, slots=True)
class _Sides:
    source: Mapping[str, str]
    ours: Mapping[Place, Side]
    target: Mapping[str, str]
    theirs: Mapping[Place, Side]

    def indexes(self, pair: tuple[str, str]) -> list[int]:
        indexes = {index for topic, index in self.ours if topic == pair[0]}
        return sorted(indexes | {index for topic, index in self.theirs if topic == pair[1]})

    def compare(self, pair: tuple[str, str], index: int) -> PartitionProof:
        ours, theirs = self.ours.get((pair[0], index)), self.theirs.get((pair[1], index))
        return PartitionProof(*pair, index, ours and ours[1], theirs and theirs[1], self._difference(ours, theirs))

    def _difference(self, ours: Side | None, theirs: Side | None) -> RecordDifference | None:
        if ours is None or theirs is None:
            if theirs is not None and not theirs[1].records:
                return None
            ours_at, theirs_at = (here[0].start if here else None for here in (ours, theirs))
            side = "target" if ours else "source"
            return RecordDifference(0, ours_at, theirs_at, f"the {side} has no such partition")
        if (ours[1].records, ours[1].digest) == (theirs[1].records, theirs[1].digest):
            return None
        return self._locate(ours, theirs)

    def _locate(self, ours: Side, theirs: Side) -> RecordDifference:
        mark, copied_mark = last_common_mark(ours[1], theirs[1])
        difference = first_difference(
            self._again(self.source, ours[0], mark.offset),
            self._again(self.target, theirs[0], copied_mark.offset),
            mark.records,
        )
        # A record that retention or compaction removed between the two readings.
        changed = "the records changed while they were compared; run the proof again"
        return difference or RecordDifference(mark.records, mark.offset, copied_mark.offset, changed)

    @staticmethod
    def _again(client: Mapping[str, str], span: PartitionSpan, start: int) -> Iterator[ProvedRecord]:
        rest = PartitionSpan(span.topic, span.partition, start, span.end)
        return (ProvedRecord(message.offset(), *_content(message)) for message in reading.records(client, [rest]))


def _sentence(proof: PartitionProof) -> str:
    difference = proof.difference
    if difference is None:
        return ""
    ours = "nothing" if difference.source_offset is None else f"offset {difference.source_offset}"
    theirs = "nothing" if difference.target_offset is None else f"offset {difference.target_offset}"
    return (
        f"{proof.source_topic}-{proof.partition} ({ours}) and {proof.target_topic}-{proof.partition} ({theirs}) "
        f"differ first at record {difference.record}: {difference.what}"
    )


def table(proof: Proof) -> Table:
    """One line a partition."""
    drawn = Table("source", "target", "partition", "records", "digest", "equal", box=None, pad_edge=False)
    for column in (2, 3):
        drawn.columns[column].justify = "right"
    for partition in proof.partitions:
        ours, theirs = partition.source, partition.target
        counts = [str(side.records) if side else "none" for side in (ours, theirs)]
        digests = [side.digest[:12] if side else "none" for side in (ours, theirs)]
        drawn.add_row(
            partition.source_topic,
            partition.target_topic,
            str(partition.partition),
            counts[0] if partition.equal else " / ".join(counts),
            digests[0] if partition.equal else " / ".join(digests),
            "yes" if partition.equal else "NO",
        )
    return drawn
