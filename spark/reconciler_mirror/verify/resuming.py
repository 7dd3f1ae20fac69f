"""What ``verify`` has compared before, in a file: an ordered partition is continued where its reading stands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.replication.handover import fingerprint
from reconciler.replication.json_codec import Codec
from reconciler.replication.kept_files import read_json, write_json
from reconciler_mirror.verify.model import PartitionRange, TimeWindow
from reconciler_mirror.verify.reading import PartitionReading

_VERSION = 2
_CODEC = Codec()


@dataclass(frozen=True, slots=True)
class KeptReading:
    """``identity``: everything on which it depends that what was read is still what it was."""

    identity: tuple[str, ...]
    reading: PartitionReading


@dataclass(frozen=True, slots=True)
class KeptReadings:
    """``digest``: of ``kept``, since a reading that another hand changed would prove what is not so."""

    version: int
    digest: str
    kept: tuple[KeptReading, ...] = ()


class ProgressFile:
    """``fingerprints`` by flow. A file that is not readable counts as none."""

    def __init__(self, path: Path, fingerprints: Mapping[str, str]) -> None:
        self._path, self._fingerprints = path, fingerprints

    def earlier(self, plans: Sequence[PartitionRange]) -> Mapping[int, PartitionReading]:
        """Of those partitions that can be continued, by index."""
        known = {kept.identity: kept.reading for kept in self._kept()}
        readings: dict[int, PartitionReading] = {}
        for plan in plans:
            identity = self._identity(plan)
            reading = known.get(identity) if identity is not None else None
            if reading is None:
                continue
            # What this plan does not cover cannot be continued: the window, or where a side begins, is another one.
            spans = ((plan.source, reading.source_next), (plan.target, reading.target_next))
            if all(span.start <= at <= span.end for span, at in spans):
                readings[plan.index] = replace(reading, index=plan.index, done=reading.rest is not None)
        return readings

    def keep(self, plans: Sequence[PartitionRange], readings: Mapping[int, PartitionReading]) -> None:
        """Raises OSError."""
        mine = {self._identity(plan): readings.get(plan.index) for plan in plans}
        kept = {each.identity: each for each in self._kept()}
        for identity, reading in mine.items():
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
        """None: not to be continued. Without ids of both topics one of them may be another by the same name."""
        if plan.compacted or plan.parts is not None or not all(plan.ids) or plan.window != TimeWindow():
            return None
        source, target = plan.source, plan.target
        where = (source.endpoint.cluster, source.topic, target.endpoint.cluster, target.topic, str(source.partition))
        how = (source.isolation, str(plan.timestamps), str(plan.same_offsets))
        return (plan.flow, self._fingerprints.get(plan.flow, ""), *where, *plan.ids, *how)


def _digest(kept: tuple[KeptReading, ...]) -> str:
    return fingerprint([_CODEC.encoded(each) for each in kept])
