"""The progress of ``verify``: the readings of this run, and a file from which a later run continues each ordered
partition."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.replication.handover import fingerprint
from reconciler.replication.json_codec import Codec
from reconciler.replication.kept_files import read_json, write_json
from reconciler_mirror.verify.in_order.compare import Continued, Over, compared
from reconciler_mirror.verify.model import PartitionRange, PartitionReading, TimeWindow, together
from reconciler_mirror.verify.read_partition import Readers

_VERSION = 2
_CODEC = Codec()
_SMALL = 100_000
"""Offsets that take about a second to read, so that Spark does not wait for them."""


class ReadSoFar:
    """``readings`` by index; they begin with an earlier run's readings of ordered partitions."""

    def __init__(self, plans: Sequence[PartitionRange], earlier: Mapping[int, PartitionReading]) -> None:
        self.plans = {plan.index: plan for plan in plans}
        self.readings: dict[int, PartitionReading] = dict(earlier)
        self.total_offsets = sum(map(offsets_of, plans))

    @property
    def offsets_read(self) -> int:
        """Compared offsets, out of ``total_offsets``."""
        return self.total_offsets - sum(map(self.left, self.plans.values()))

    def unfinished(self) -> list[PartitionRange]:
        """Ordered partitions with a rest to compare."""
        return [plan for plan in self.plans.values() if not (plan.compacted or self._ended(plan))]

    def continued(self, plan: PartitionRange) -> Continued:
        reading = self.readings.get(plan.index)
        return Continued(plan) if reading is None else Continued(plan, reading.source_next, reading.target_next)

    def left(self, plan: PartitionRange) -> int:
        reading = self.readings.get(plan.index)
        if reading is None:
            return offsets_of(plan)
        ends = ((plan.source.end, reading.source_next), (plan.target.end, reading.target_next))
        return 0 if self._ended(plan) else sum(max(0, end - at) for end, at in ends)

    def take(self, reading: PartitionReading) -> None:
        """Adds a piece of an ordered partition."""
        self.readings[reading.index] = together(self.readings.get(reading.index), reading)

    def read_here(self, over: Over) -> None:
        """Compares in this thread, until time is over. A sample, and the search for the first common record, cannot be
        interrupted, so only small ones are done here."""
        with closing(Readers()) as readers:
            for plan in self.unfinished():
                if over():
                    return
                searched = (plan.source.cut or plan.target.cut) and not plan.same_offsets
                if (plan.parts is None and not searched) or offsets_of(plan) <= _SMALL:
                    for reading in compared(self.continued(plan), readers, over):
                        self.take(reading)

    def _ended(self, plan: PartitionRange) -> bool:
        reading = self.readings.get(plan.index)
        return reading is not None and bool(reading.done or reading.error)


def offsets_of(plan: PartitionRange) -> int:
    """Offsets to read on both sides."""
    if plan.parts is not None:
        return 2 * sum(end - start for start, end in plan.parts)
    return sum(max(0, span.end - span.start) for span in (plan.source, plan.target))


@dataclass(frozen=True, slots=True)
class KeptReading:
    """``identity``: everything that must be unchanged for the reading to stay valid."""

    identity: tuple[str, ...]
    reading: PartitionReading


@dataclass(frozen=True, slots=True)
class KeptReadings:
    """``digest``: of ``kept``, because an edited reading would be a false proof."""

    version: int
    digest: str
    kept: tuple[KeptReading, ...] = ()


class ProgressFile:
    """``fingerprints`` by flow. An unreadable file counts as missing."""

    def __init__(self, path: Path, fingerprints: Mapping[str, str]) -> None:
        self._path, self._fingerprints = path, fingerprints

    def earlier(self, plans: Sequence[PartitionRange]) -> Mapping[int, PartitionReading]:
        """Earlier readings that can be continued, by index."""
        known = {kept.identity: kept.reading for kept in self._kept()}
        readings: dict[int, PartitionReading] = {}
        for plan in plans:
            identity = self._identity(plan)
            reading = known.get(identity) if identity is not None else None
            if reading is None:
                continue
            # A reading that ended outside of this plan's ranges cannot be continued: the log start may have moved.
            spans = ((plan.source, reading.source_next), (plan.target, reading.target_next))
            if all(span.start <= at <= span.end for span, at in spans):
                readings[plan.index] = replace(reading, index=plan.index, done=reading.rest is not None)
        return readings

    def keep(self, plans: Sequence[PartitionRange], readings: Mapping[int, PartitionReading]) -> None:
        """Raises OSError."""
        by_identity = {self._identity(plan): readings.get(plan.index) for plan in plans}
        kept = {each.identity: each for each in self._kept()}
        for identity, reading in by_identity.items():
            if identity is not None and reading is not None and not (reading.error or reading.unconfirmed):
                kept[identity] = KeptReading(identity, replace(reading, stretches=()))
        readings_kept = tuple(kept.values())
        write_json(self._path, _CODEC.encoded(KeptReadings(_VERSION, _digest(readings_kept), readings_kept)))

    def _kept(self) -> tuple[KeptReading, ...]:
        try:
            document = _CODEC.decoded(KeptReadings, read_json(self._path))
        except (OSError, ValueError):
            return ()
        intact = document.version == _VERSION and document.digest == _digest(document.kept)
        return document.kept if intact else ()

    def _identity(self, plan: PartitionRange) -> tuple[str, ...] | None:
        """None: the partition cannot be continued. Without both topic ids a topic may have been recreated."""
        if plan.compacted or plan.parts is not None or not all(plan.ids) or plan.window != TimeWindow():
            return None
        source, target = plan.source, plan.target
        where = (source.endpoint.cluster, source.topic, target.endpoint.cluster, target.topic, str(source.partition))
        how = (source.isolation, str(plan.timestamps), str(plan.same_offsets))
        return (plan.flow, self._fingerprints.get(plan.flow, ""), *where, *plan.ids, *how)


def _digest(kept: tuple[KeptReading, ...]) -> str:
    return fingerprint([_CODEC.encoded(each) for each in kept])
