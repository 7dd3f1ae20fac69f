"""Values of a lane: its spec, its reports while it copies, and its end.

A *lane* is a fixed slice of a flow's source partitions (``lane_of``) with one transactional.id. ``lane.run`` copies it.
All values are frozen and picklable, because they travel from the driver to Spark tasks and back.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Protocol

from reconciler.kafka.records.batches import Batch
from reconciler.replication.expressions.record_filter import AddedHeader, Where
from reconciler.replication.handover import AGAIN, Endpoint, FlowSettings, Provenance
from reconciler.replication.names import ConditionCode, position_group, transactional_id
from reconciler.replication.offsets.position_metadata import NO_OWNER, Owner
from reconciler_mirror.model.counters import NO_LATENCY, HoleCounts, Latency, Losses


@dataclass(frozen=True, slots=True)
class ProvenanceSettings:
    """Findings of the takeover of a flow with provenance: short ids of both clusters; ``floors``: by source partition,
    the offset before which records may be unmarked copies, so that copying never begins before it. ``unknown``: source
    partitions without a known floor, because another client committed the arriving flow's position, and that flow;
    copying does not begin there. ``returning``: the floors of flows that arrive from the target; before them copying
    does not continue either."""

    source: bytes = b""
    target: bytes = b""
    floors: Mapping[tuple[str, int], int] = field(default_factory=dict)
    unknown: Mapping[tuple[str, int], str] = field(default_factory=dict)
    returning: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def not_before(self, place: tuple[str, int], offset: int) -> int:
        """The start for a source partition without a position that should begin at ``offset``."""
        return max(offset, self.floors.get(place, 0))


NO_GROUND = ProvenanceSettings()


@dataclass(frozen=True, slots=True)
class RecordWork:
    """The flow's work on single records; any of it excludes copying whole batches."""

    where: Where | None = None
    headers: tuple[AddedHeader, ...] = ()
    provenance: Provenance | None = None

    def __bool__(self) -> bool:
        return self.where is not None or bool(self.headers) or self.provenance is not None

    def first_mark(self, offset: int) -> tuple[int, int] | None:
        """``LanePosition.marked`` of a partition that begins at source offset ``offset``."""
        return None if self.provenance is None else (0, offset)

    @property
    def reason(self) -> str:
        """Why batches do not travel whole, by the keys of the environment's YAML."""
        asked = {"where": self.where, "headers": self.headers or None, "provenance": self.provenance}
        return "record work: " + ", ".join(word for word, desired in asked.items() if desired is not None)


NO_WORK = RecordWork()


def work_of(flow: FlowSettings) -> RecordWork:
    return RecordWork(flow.where, () if flow.headers is None else flow.headers.add, flow.provenance)


LaneKey = tuple[str, int]
"""Flow and number."""


def lane_of(topic: str, partition: int, lanes: int) -> int:
    """The lane that owns a source partition. A topic's partitions go to the lanes in turn, from one on that depends on
    its name, so that their numbers differ by one at most. Decision 151 says what a change of this function needs."""
    return (_first_lane(topic) + partition) % lanes


@functools.lru_cache(65_536)
def _first_lane(topic: str) -> int:
    return int.from_bytes(hashlib.blake2b(topic.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One source partition to copy. ``topic_id``: the source topic's id (base64, as Kafka prints it)."""

    topic: str
    partition: int
    target_topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """The ownership of a flow: every application takes a higher number than it finds, and writes it into each position.

    The higher claim wins (``application`` breaks a tie), so that two applications never fence each other in turns.
    ``owner``: the application's environment; it is written, too, and the next takeover checks it. Not written:
    ``ground``, the findings of a takeover with provenance, and ``clusters``, the ids of source and target at the
    takeover, empty if unknown.
    """

    number: int = 0
    application: str = ""
    ground: ProvenanceSettings = field(default=NO_GROUND, compare=False)
    owner: Owner = field(default=NO_OWNER, compare=False)
    clusters: tuple[str, str] = field(default=("", ""), compare=False)

    def __str__(self) -> str:
        of = f" of environment {self.owner.environment}" if self.owner.environment else ", which names no environment,"
        return f"application {self.application or 'unknown'}{of}"


NO_CLAIM = Claim()
AWAITED = Claim(-1)
"""The flow is not taken over yet: the lane prepares everything, and waits for ``Control.claim``."""


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """The definition of a lane, as of the begin of its lease. ``Control`` has the present values of fields that may
    change meanwhile."""

    flow: str
    lane: int
    transactional_id: str
    """The same for every holder's producer: InitProducerId with it fences the former holder."""
    group: str
    """The group of the positions, at the target."""
    source: Endpoint
    target: Endpoint
    delivery: str
    isolation: str
    start_kind: str
    """``earliest`` or AGAIN: the takeover has committed other starts as positions."""
    start_timestamp_ms: int | None
    partitions: tuple[PartitionSpec, ...]
    claim: Claim = NO_CLAIM
    """AWAITED: prepare, and wait for ``Control.claim``."""
    paused: frozenset[tuple[str, int]] = frozenset()
    """Source topics and partitions."""
    rate: float = 0.0
    """The lane's share of the flow's limit in bytes per second, 0 for none."""
    start_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By source topic and partition; they override ``start_kind``."""
    continue_on: frozenset[str] = frozenset()
    """Conditions after which a partition continues past the loss, which is counted."""
    work: RecordWork = NO_WORK
    offset_syncs: tuple[str, str] | None = None
    """Side (``source`` or ``target``) and name of MirrorMaker 2's offset syncs topic, if the flow writes it."""
    keeps_offsets: bool = False
    """Copies have the source's offsets."""
    filler_limit: int | None = None
    """Most offsets to fill before a start, where copies keep offsets."""
    moved_from: str = ""
    """The first name of a renamed flow; see ``state``."""

    @property
    def state(self) -> str:
        return self.moved_from or self.flow


def lane_spec(flow: FlowSettings, lane: int) -> LaneSpec:
    """A spec without partitions or claim. The takeover commits every start but explicit offsets, so the lane's own is
    earliest."""
    syncs = flow.mirrormaker.offset_syncs
    return LaneSpec(
        flow=flow.name,
        lane=lane,
        transactional_id=transactional_id(flow.state_name, lane),
        group=position_group(flow.state_name),
        source=flow.source,
        target=flow.target,
        delivery=flow.delivery,
        isolation=flow.isolation,
        start_kind=AGAIN if flow.start.unnamed == AGAIN else "earliest",
        start_timestamp_ms=None,
        partitions=(),
        claim=AWAITED,
        start_offsets=flow.start_offsets,
        continue_on=frozenset(flow.continue_on or ()),
        work=work_of(flow),
        offset_syncs=None if syncs is None else (syncs.side, syncs.topic),
        keeps_offsets=flow.keeps_offsets,
        filler_limit=flow.filler_limit,
        moved_from=flow.moved_from,
    )


GRANTS = "reconciler doctor ENV prints the commands, or reconciler apply ENV grants them where `access` is in git"
"""The remedy for a missing right: the job knows neither its principal's name nor the access rules in git."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A named problem of a running mirror. ``stops``: the partition is not copied until a person acts."""

    code: ConditionCode
    text: str
    """The problem, with both values."""
    todo: str
    """The remedy, as a command where possible."""
    topic: str | None = None
    """None: the condition is of the lane or the flow."""
    partition: int | None = None
    """None: the condition is of the whole topic."""
    stops: bool = False

    @classmethod
    def of_partition(
        cls, code: ConditionCode, spec: PartitionSpec, text: str, todo: str, *, stops: bool = True
    ) -> Condition:
        """``text`` continues a sentence that begins with the partition's name."""
        return cls(code, f"{spec.topic}-{spec.partition} {text}", todo, spec.topic, spec.partition, stops)


@dataclass(frozen=True, slots=True)
class LastBatch:
    """Header fields, at copy time, of the batch with the source offset before a position. A source restored from a
    backup has another batch there once it has grown again."""

    base: int
    next_offset: int
    crc: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @classmethod
    def of(cls, batch: Batch | LastBatch) -> LastBatch:
        return cls(*(getattr(batch, each.name) for each in fields(cls)))


@dataclass(frozen=True, slots=True)
class TargetLoss:
    """The target's loss of copied records. ``end``: the target's log end when the loss was seen; ``acknowledged``: the
    target offset after the last committed record. ``source``: the source offset of the first lost record, -1 if the
    offset map does not have it."""

    end: int
    acknowledged: int
    source: int = -1


@dataclass(frozen=True, slots=True)
class Ahead:
    """A copy with records from after the position. ``source`` and ``target``: offsets of the first one; ``after``: the
    source offset after the last one, None if unknown."""

    source: int
    target: int
    after: int | None


OF_A_READ = ("source_unreachable", "target_unreachable", "setting_not_supported")
"""Conditions of a failed read: the present state is unknown."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """A flow's partitions, and conditions against copying them. ``complete``: both clusters have answered before.
    ``uncopied``: by matching source topic, the number of partitions without a place at the target."""

    specs: tuple[PartitionSpec, ...] = ()
    conditions: tuple[Condition, ...] = ()
    topics: int = 0
    """Number of matching source topics."""
    complete: bool = False
    uncopied: Mapping[str, int] = field(default_factory=dict)

    def by_lane(self, lanes: int) -> Mapping[int, tuple[PartitionSpec, ...]]:
        slices: dict[int, list[PartitionSpec]] = {lane: [] for lane in range(lanes)}
        for spec in self.specs:
            slices[lane_of(spec.topic, spec.partition, lanes)].append(spec)
        return {lane: tuple(specs) for lane, specs in slices.items()}


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition's row of a lane's report. Offsets are the source's, None while unknown; counts are of committed
    records since the begin of the lease."""

    topic: str
    partition: int
    position: int | None
    """The next source offset, by the committed position at the target."""
    end: int | None
    """The source's last stable offset (high watermark for read_uncommitted)."""
    records: int = 0
    bytes: int = 0
    waiting_since_ms: int | None = None
    """Timestamp of the oldest record that is read and not committed; None without one."""
    path: str = "batch"
    path_reason: str = ""
    """Why this path, in a few words without names or numbers."""
    filtered: int = 0
    """Records before the position that ``where`` filtered out; ``returning``: that provenance filtered out."""
    returning: int = 0
    paused: bool = False
    """A pause is in effect: nothing is in flight, and everything copied is committed."""
    losses: Losses = ()
    """Records left out under ``continue_on``."""
    silent_since_ms: int | None = None
    """When the source last reported ``end``, if that is too long ago to be the end."""


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """A snapshot of a lane. Counts are of committed records since the begin of the lease."""

    flow: str
    lane: int
    partitions: tuple[PartitionProgress, ...]
    conditions: tuple[Condition, ...] = ()
    """Conditions of the lane and its partitions."""
    transactions: int = 0
    retries: int = 0
    latency: Latency = NO_LATENCY
    """From a record's timestamp at the source to its commit at the target."""
    throttled_ms: int = 0
    """Time in which the rate limit held records back."""
    held_back: int = 0
    """Partitions that it holds back now."""
    at_work: bool = True
    """A session runs; between two sessions the source's ends are unknown."""
    holes: HoleCounts | None = None
    """None unless copies keep the source's offsets."""


class LaneEnd(StrEnum):
    """SUPERSEDED: a later owner has fenced this lane, so this application must not retry it."""

    LEASE_OVER = "lease over"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LaneReport:
    """The end of a lane's attempt, and its last snapshot."""

    end: LaneEnd
    progress: LaneProgress
    error: str = ""
    """The reason, if it failed or was superseded."""


class Control(Protocol):
    """The lease, as a running lane sees it."""

    def stopping(self) -> bool:
        """True: commit the open transaction and return."""
        ...

    def lease_over(self) -> bool:
        """True: commit at the next good moment and return."""
        ...

    def partitions(self) -> tuple[PartitionSpec, ...]:
        """The lane's present partitions, which may grow, shrink or change while the lane runs."""
        ...

    def claim(self) -> Claim:
        """AWAITED until the flow is taken over. Only a lane that began with AWAITED asks for it."""
        ...

    def prepared(self) -> None:
        """A lane that began with AWAITED is ready to copy."""

    def paused(self) -> frozenset[tuple[str, int]]:
        """Source partitions with a pause: commit their open records, stop fetching, keep the position."""
        ...

    def rate(self) -> float:
        """The lane's present share of its flow's rate limit: bytes per second, 0 for no limit."""
        ...

    def watch(self, wake: Callable[[], None]) -> None:
        """Replaces the function to call, on any thread, when any answer of this control has changed other than by
        time."""

    def report(self, progress: LaneProgress) -> None:
        """Hands a snapshot of the whole lane to the driver. Cheap; may be called several times a second. Only changes
        travel, and a row that is the same object counts as unchanged."""
        ...
