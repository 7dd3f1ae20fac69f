"""What reconciler and mirror job know alike of flows that keep offsets (``offsets: same``): limits, rates, sizes.

Belongs here: numbers and sentences that both programs hold to. Not here: how the mirror job copies such flows
(``spark/reconciler_mirror/lane``).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.replication.offsets.map import Exactness, Translation
from reconciler.replication.offsets.position_metadata import fields_of

ONLY = "exactly_once and read_committed"

FILLER_LIMIT = 2_000_000_000
"""Most empty offsets that one partition of a new copy is begun with, unless the flow raises it: about two minutes at
the measured rate."""

FILLERS_PER_SECOND = 17_000_000
FILLERS_PER_BATCH = 100_000
BYTES_PER_BATCH = 84_000
"""Measured on a quiet machine, one connection, one partition: zstd batches of 100,000 empty records. A busy one has
been seen at one million a second: the target brokers' decompression is the limit."""


@dataclass(frozen=True, slots=True)
class FillerCost:
    """The cost of filling a new copy up to the source's first offset. ``partitions``: to fill. ``offsets``: in
    total."""

    partitions: int
    offsets: int

    @property
    def bytes(self) -> int:
        """Sent to the target, and deleted there again by DeleteRecords."""
        return -(-self.offsets // FILLERS_PER_BATCH) * BYTES_PER_BATCH

    @property
    def seconds(self) -> float:
        """Duration at the measured rate of one broker; partitions on other brokers may be filled in parallel."""
        return self.offsets / FILLERS_PER_SECOND


def filler_cost(first_offsets: Iterable[int]) -> FillerCost:
    """``first_offsets``: of each partition, the first offset of the source that is copied."""
    needed = [offset for offset in first_offsets if offset > 0]
    return FillerCost(len(needed), sum(needed))


def above_limit(first_offset: int, limit: int | None) -> bool:
    """Whether this first offset is too high for starting a copy."""
    return first_offset > (FILLER_LIMIT if limit is None else limit)


def as_committed(offset: int, end: int | None, beyond: str = "") -> Translation:
    """A committed offset on the other side, with log end ``end`` (None: unknown). Never after that end, where a
    consumer would jump by ``auto.offset.reset``. ``beyond``: the reason, if the copy does not merely lag."""
    if end is None:
        return Translation(None, Exactness.UNKNOWN, "where the other side's log ends is not known")
    if offset <= end:
        return Translation(offset, Exactness.RECORD)
    return Translation(end, Exactness.EARLIER, beyond or f"the copy ends at {end}, and the group is at {offset}")


def producer_of(metadata: str) -> int | None:
    """The producer id of a flow's data, from a position's metadata; None if the flow did not keep offsets, or for
    unreadable metadata."""
    producer = fields_of(metadata).get("p")
    return producer if isinstance(producer, int) else None
