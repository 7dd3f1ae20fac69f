"""Filters records and adds headers on the bytes of batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.records import fields
from reconciler.kafka.records.records import Record, record_of
from reconciler.replication.expressions import record_filter as selection
from reconciler.replication.expressions.match import ValueTooLongError
from reconciler.replication.expressions.record_filter import filled, varies
from reconciler_mirror.model.lane import LaneSpec, PartitionSpec, ProvenanceSettings, RecordWork
from reconciler_mirror.record_work import provenance_header as provenance

_BEHIND_VERSION = provenance.CHECK_BYTES + provenance.ID_BYTES


@dataclass(frozen=True, slots=True)
class Worked:
    """``kept`` in order; ``changed``: it differs from the input."""

    kept: list[Record]
    filtered: int
    returning: int
    changed: bool


class RawFields:
    """A record's fields, decoded on access."""

    __slots__ = ("_tail", "timestamp")

    def __init__(self, record: Record) -> None:
        self.timestamp = record.timestamp
        self._tail = record.tail

    @property
    def key(self) -> bytes | None:
        return fields.key_of(self._tail)

    @property
    def headers(self) -> Sequence[fields.HeaderBytes]:
        return fields.headers_of(self._tail, fields.headers_at(self._tail))


class RecordWorker:
    """The prepared work of one flow on one partition."""

    def __init__(
        self, work: RecordWork, spec: PartitionSpec, flow: tuple[str, str], ground: ProvenanceSettings
    ) -> None:
        """``flow``: its name and source cluster. ``always_added``: number and bytes of the added headers, if they are
        equal for each record and the only work."""
        self.reason = work.reason
        self._passes = None if work.where is None else selection.compiled(work.where)
        self._provenance = work.provenance
        self._ground = ground
        self._topic = spec.topic
        self._target_topic = spec.target_topic
        self._added = len(work.headers)
        self._addition = _addition(work, spec, flow)
        constant = not any(varies(header.value) for header in work.headers)
        only = constant and work.where is None and work.provenance is None
        self.always_added = (len(work.headers), self._addition(0)) if only else None
        self._seed = provenance.check_of(spec.target_topic, b"")
        self._mark = fields.encoded(provenance.NAME, provenance.value(0, (ground.source,)))[:-_BEHIND_VERSION]

    def apply(self, records: Sequence[Record]) -> Worked:
        """Filters and rewrites records. Raises MalformedResponseError for truncated fields, and for a value that takes
        the flow's expressions too many steps."""
        kept: list[Record] = []
        filtered = returning = 0
        passes, changes = self._passes, self._provenance is not None or self._added > 0
        try:
            for record in records:
                if passes is not None and not passes(RawFields(record)):
                    filtered += 1
                elif not changes:
                    kept.append(record)
                elif (tail := self._rewritten(record)) is None:
                    returning += 1
                else:
                    kept.append(record_of(Record, (record.offset, record.timestamp, record.attributes, tail)))
        except ValueTooLongError as error:
            raise MalformedResponseError(f"where of the flow cannot judge a record: {error}") from None
        except (IndexError, OverflowError):
            raise MalformedResponseError("the fields of a record do not fill it") from None
        return Worked(kept, filtered, returning, changed=changes or len(kept) != len(records))

    def _rewritten(self, record: Record) -> memoryview | None:
        """The record with its new headers; None if it would return to a cluster that it has been on."""
        tail = record.tail
        at = fields.headers_at(tail)
        more = self._addition(record.offset)
        if self._provenance is None:
            return fields.appended(tail, at, self._added, more)
        if not (tail[at] and provenance.NAME in bytes(tail[at:])):
            check: int = crc32c(tail[:at], self._seed)
            mark = self._mark + check.to_bytes(provenance.CHECK_BYTES, "big") + self._ground.source
            return fields.appended(tail, at, self._added + 1, more + mark)
        # The record has a header of that name, valid or not. Its path decides, and this cluster is appended to it.
        own = fields.headers_of(tail, at)
        path = provenance.path_among(own, provenance.check_of(self._topic, tail[:at]))
        if not provenance.carried(path, self._ground.source, self._ground.target, self._provenance.carry):
            return None
        value = provenance.value(provenance.check_of(self._target_topic, tail[:at]), (*path, self._ground.source))
        kept = fields.with_headers(tail, at, [header for header in own if header[0] != provenance.NAME])
        return fields.appended(kept, at, self._added + 1, more + fields.encoded(provenance.NAME, value))


def _addition(work: RecordWork, spec: PartitionSpec, flow: tuple[str, str]) -> Callable[[int], bytes]:
    """A function that encodes the added headers of the record at an offset."""
    known = {"flow": flow[0], "source_cluster": flow[1], "topic": spec.topic, "partition": spec.partition}

    def made(offset: int) -> bytes:
        parts = ((header.name, filled(header.value, offset=offset, **known)) for header in work.headers)
        return b"".join(fields.encoded(name.encode(), text.encode()) for name, text in parts)

    if any(varies(header.value) for header in work.headers):
        return made
    constant = made(0)
    return lambda _: constant


def worker_of(lane: LaneSpec, spec: PartitionSpec) -> RecordWorker | None:
    """None without record work, so that the flow's batches stay whole."""
    if not lane.work:
        return None
    return RecordWorker(lane.work, spec, (lane.flow, lane.source.cluster), lane.claim.ground)
