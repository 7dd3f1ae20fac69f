"""Filters and headers on decoded records: the records that ``verify`` expects at the target.

It has the meaning of ``on_bytes``, but separate code over other bytes; tests compare the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from reconciler.replication.expressions import record_filter as selection
from reconciler.replication.expressions.record_filter import PROVENANCE_HEADER, filled
from reconciler.replication.handover import FlowSettings
from reconciler_mirror.model.lane import PartitionSpec, ProvenanceSettings, RecordWork, work_of
from reconciler_mirror.record_work import provenance_header as provenance

Headers = Sequence[tuple[str, bytes | None]]


class NotCopied(StrEnum):
    """Why a record is not copied."""

    FILTERED = "filtered"
    RETURNING = "returning"


@dataclass(frozen=True, slots=True)
class RecordRoute:
    """Source and target of records."""

    flow: str
    cluster: str
    topic: str
    partition: int
    target_topic: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """``timestamp`` in ms since 1970."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    texts: Headers

    @property
    def headers(self) -> list[tuple[bytes, bytes | None]]:
        return [(name.encode(), value) for name, value in self.texts]

    def check(self, topic: str) -> int:
        return provenance.check_of(topic, _body(self.key) + _body(self.value))


class DecodedWorker:
    """The work of one flow on one partition."""

    def __init__(self, work: RecordWork, ground: ProvenanceSettings, place: RecordRoute) -> None:
        self._work = work
        self._ground = ground
        self._place = place
        # Compiled once per partition: expressions see the record, and these four constants of its route.
        self._passes = None if work.where is None else selection.compiled(work.where)
        self._known = {
            "flow": place.flow,
            "source_cluster": place.cluster,
            "topic": place.topic,
            "partition": place.partition,
        }

    def headers(self, record: Decoded) -> Headers | NotCopied:
        """The headers of the record's copy, or why it has none."""
        if self._passes is not None and not self._passes(record):
            return NotCopied.FILTERED
        work, place = self._work, self._place
        added = [
            (header.name, filled(header.value, offset=record.offset, **self._known).encode()) for header in work.headers
        ]
        if work.provenance is None:
            return [*record.texts, *added]
        ground = self._ground
        path = provenance.path_among(record.headers, record.check(place.topic))
        if not provenance.carried(path, ground.source, ground.target, work.provenance.carry):
            return NotCopied.RETURNING
        own = [header for header in record.texts if header[0] != PROVENANCE_HEADER]
        mark = provenance.value(record.check(place.target_topic), (*path, ground.source))
        return [*own, *added, (PROVENANCE_HEADER, mark)]

    def arrived(self, copy: Decoded) -> bool:
        """Whether this flow has brought a record of the target topic; True without provenance."""
        if self._work.provenance is None:
            return True
        path = provenance.path_among(copy.headers, copy.check(self._place.target_topic))
        return path[-1:] == (self._ground.source,)


def worker_for(flow: FlowSettings, spec: PartitionSpec, ground: ProvenanceSettings) -> DecodedWorker | None:
    """None without record work."""
    work = work_of(flow)
    place = RecordRoute(flow.name, flow.source.cluster, spec.topic, spec.partition, spec.target_topic)
    return DecodedWorker(work, ground, place) if work else None


def _body(data: bytes | None) -> bytes:
    """Length and bytes as in a record (zigzag varint; KIP-98)."""
    number, out = (1 if data is None else len(data) << 1), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out) + (data or b"")
