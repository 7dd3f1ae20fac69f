"""What is fed: each reads bytes and gives back an outcome, a short word for where they led.

Anything raised but what a reader documents is a defect, and so is more than ``SECONDS`` of CPU or ``MEMORY`` for one
input.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from reconciler_mirror.lane import positions
from reconciler_mirror.lane.fetch.pieces import delivered_pieces, pieces_of
from reconciler_mirror.lane.partition import Partition, SourceLog
from reconciler_mirror.lane.produce.outbox import BatchSizes
from reconciler_mirror.model.lane import RecordWork
from reconciler_mirror.record_work.on_bytes import RecordWorker

from reconciler.backends.mirror_jobs.status.records import MalformedStatusError, mirror_from_record
from reconciler.kafka.client.errors import MalformedResponseError
from reconciler.kafka.protocol.fetch import FetchedPartition, unpack
from reconciler.kafka.records import batches, codecs, fields, records
from reconciler.kafka.records.batches import Batch, CorruptBatchError
from reconciler.model.state import home, last_apply, left_by_apply, lock, rollout_progress
from reconciler.model.state.mirror_control import DESIRED, LEASE, PRESENCE
from reconciler.replication.expressions.record_filter import (
    AddedHeader,
    AllOf,
    Equals,
    Exists,
    Header,
    Key,
    Matches,
    Not,
    Prefix,
)
from reconciler.replication.mirrormaker_records import read_checkpoint
from reconciler.replication.offsets import codec as offset_map
from reconciler.replication.records import pauses
from tests.fuzz.inputs import NOW, TOPIC_ID, parted
from tests.support.lanes.batches import GROUND, SPEC

Target = Callable[[bytes], str]
SECONDS = 2.0
MEMORY = 512 << 20
_REFUSED = (MalformedResponseError, CorruptBatchError)
_FAR = 10**9
_WORKS = (
    RecordWork(),
    RecordWork(AllOf((Key(Exists(True)), Not(Header("h1", Equals(b"v")))))),
    RecordWork(AllOf((Key(Prefix(b"k")), Header("h0", Matches("v*"))))),
    RecordWork(headers=(AddedHeader("from", "{source_cluster}/{topic}-{partition}@{offset}"),)),
)


def _refusal(error: Exception) -> str:
    """Where it was refused; the words may quote what was fed."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} at {Path(frames[-1].filename).name}:{frames[-1].name}:{frames[-1].lineno}"


def _batches(data: bytes) -> str:
    view = memoryview(data)
    try:
        scanned = batches.scan(view)
        keep = batches.CommittedFilter(view, [(7, 0)])
        delivered = [batch for batch in scanned if keep.delivers(batch)]
    except _REFUSED as error:
        return _refusal(error)
    return " | ".join((
        *dict.fromkeys(_one_batch(view, batch) for batch in scanned),
        _outcome(lambda: _summary(records.gather(view, delivered, 1 << 20))),
        *(_outcome(lambda work=work: _lane(data, work)) for work in (None, *_WORKS)),  # type: ignore[misc]
    ))  # fmt: skip


def _one_batch(view: memoryview, batch: Batch) -> str:
    if batch.magic == 2 and batch.attributes & batches.CONTROL:
        return "control"
    try:
        decoded = records.records_of(view, batch)
    except _REFUSED as error:
        return _refusal(error)
    for record in decoded:
        assert -(2**63) <= record.timestamp < 2**63, "a timestamp beyond 64 bits was taken"
        assert 0 <= record.offset < 2**63, "an offset beyond 64 bits was taken"
        assert len(record.tail) >= 3, "a record without its lengths was taken"
        _outcome(lambda tail=record.tail: _fields(tail))  # type: ignore[misc]
        _outcome(lambda record=record: str(records.key_and_value(record)))  # type: ignore[misc]
    if decoded:
        out = memoryview(records.encode(decoded, batch.attributes & batches.CODEC if batch.magic == 2 else 0))
        batches.seal(out, (1, 0), 0, transactional=True)
        (again,) = batches.scan(out)
        copied = records.records_of(out, again)
        assert [(r.timestamp, bytes(r.tail)) for r in copied] == [(r.timestamp, bytes(r.tail)) for r in decoded]
    list(records.rebuild(view, batch, batch.base + 1, 100))
    return f"magic {batch.magic} attributes {batch.attributes & 0x38} records {min(2, len(decoded))}"


def _fields(tail: memoryview) -> str:
    try:
        at = fields.headers_at(tail)
        fields.headers_of(tail, at)
        fields.key_of(tail)
    except IndexError:
        return "cut"
    return "whole"


def _summary(rebuilt: Iterable[object]) -> str:
    return f"{min(3, len(list(rebuilt)))} made"


def _lane(data: bytes, work: RecordWork | None) -> str:
    worker = None if work is None else RecordWorker(work, SPEC, ("flow", "east"), GROUND)
    partition = Partition(
        SPEC, worker=worker, log=SourceLog(committed=0, reached=0, covered=0), sizes=BatchSizes(largest=1 << 20)
    )
    answer = FetchedPartition("orders", 3, 0, _FAR, _FAR, 0, (), -1, memoryview(data))
    pieces, covered = pieces_of(partition, answer, None, delivered_pieces)
    copied = [span for piece in pieces for span in piece.copied]
    assert all(first + count <= covered for first, count in copied), "more was copied than is covered"
    return f"{partition.hold.why} {min(3, len(pieces))}"


def _outcome(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except _REFUSED as error:
        if "the log of the task" in str(error):
            raise AssertionError(f"a case that nobody thought of: {error.__cause__!r}") from error
        return _refusal(error)


def _fetch(version: int) -> Target:
    names: Mapping[UUID, str] = {TOPIC_ID: "t"}

    def feed(data: bytes) -> str:
        try:
            fetched = unpack(version, memoryview(data), names)
        except MalformedResponseError as error:
            return _refusal(error)
        return " | ".join(_batches(bytes(partition.records)) for partition in fetched.partitions)

    return feed


def _codecs(data: bytes) -> str:
    codec = data[0] % 8 if data else 0
    try:
        opened = codecs.decompress(codec, memoryview(data)[1:])
        if codec == codecs.LZ4:
            _outcome(lambda: str(len(codecs.decompress(codec, codecs.with_right_checksum(memoryview(data)[1:])))))
    except _REFUSED as error:
        return f"{codec} {_refusal(error)}"
    return f"{codec} {len(opened).bit_length()}"


def _refused_as(error: type[Exception], read: Callable[[bytes], object]) -> Target:
    def feed(data: bytes) -> str:
        try:
            return type(read(data)).__name__
        except error as refused:
            return _refusal(refused)

    return feed


def _never(read: Callable[[bytes], object]) -> Target:
    return lambda data: type(read(data)).__name__


def _position(data: bytes) -> object:
    return positions.decode(("t", 0), 7, data.decode("utf-8", "replace"))


def _chunk(key: bytes, value: bytes) -> object:
    with suppress(offset_map.ChunkError):
        place, stretch = offset_map.decode(key, value)
        if stretch.end < 1 << 63:
            assert (offset_map.place_of(key, value), offset_map.end_of(key, value)) == (place, stretch.end)
    return offset_map.end_of(key, value)


_SCOPE = pauses.Scope("west")

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "batches": _batches,
        "fetch11": _fetch(11),
        "fetch13": _fetch(13),
        "codecs": _codecs,
        "chunk": _refused_as(offset_map.ChunkError, lambda data: _chunk(*parted(data))),
        "checkpoint": _refused_as(ValueError, lambda data: read_checkpoint(*parted(data))),
        "position": _never(_position),
        "pause": _never(lambda data: pauses.loads(_SCOPE, data)),
        "scope": _never(lambda data: pauses.scope_of("e", data.decode("utf-8", "replace"))),
        "left": _never(left_by_apply.loads),
        "lock": _refused_as(ValueError, lock.loads),
        "home": _refused_as(ValueError, home.loads),
        "applied": _refused_as(ValueError, last_apply.loads),
        "rollout": _refused_as(ValueError, rollout_progress.loads),
        "status": _refused_as(MalformedStatusError, lambda data: mirror_from_record(data, NOW)),
        "desired": _refused_as(ValueError, lambda data: DESIRED.loads(data, {"mirror": "west"})),
        "lease": _refused_as(ValueError, lambda data: LEASE.loads(data, {"mirror": "west"})),
        "presence": _refused_as(ValueError, lambda data: PRESENCE.loads(data, {})),
    }
)
