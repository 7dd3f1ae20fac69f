"""Values of a lane: what it is given, what it reports while it copies, how it ends.

A *lane* is a fixed slice of a flow's source partitions (``lane_of``) with one transactional.id. ``lane.run`` copies it.
Everything here is frozen and pickles, because it travels from the driver to Spark tasks and back.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Protocol

from reconciler.kafka.records.batches import Batch
from reconciler.replication.expressions.added_headers import AddedHeader
from reconciler.replication.expressions.record_filter import Where
from reconciler.replication.handover import AGAIN, Endpoint, FlowSettings, Provenance
from reconciler.replication.names import ConditionCode, position_group, transactional_id
from reconciler.replication.offsets.position_metadata import NO_OWNER, Owner
from reconciler_mirror.model.counters import NO_LATENCY, Latency, Losses


@dataclass(frozen=True, slots=True)
class ProvenanceSettings:
    """What was found out when the flow was taken over: short ids of both clusters; ``floors``: by source topic and
    partition, the offset below which records may be unmarked copies, so that a copy never begins there. ``unknown``:
    where another client committed the position that should say so, and whose flow's it is; no copy begins there."""

    source: bytes = b""
    target: bytes = b""
    floors: Mapping[tuple[str, int], int] = field(default_factory=dict)
    unknown: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def not_before(self, place: tuple[str, int], offset: int) -> int:
        """Where a first copy of a source topic and partition begins, if it should begin at ``offset``."""
        return max(offset, self.floors.get(place, 0))


NO_GROUND = ProvenanceSettings()


@dataclass(frozen=True, slots=True)
class RecordWork:
    """What a flow asks for on single records; each of them costs the whole-batch copy."""

    where: Where | None = None
    headers: tuple[AddedHeader, ...] = ()
    provenance: Provenance | None = None

    def __bool__(self) -> bool:
        return self.where is not None or bool(self.headers) or self.provenance is not None

    def first_mark(self, offset: int) -> tuple[int, int] | None:
        """``Position.marked`` of a partition whose first copy begins at a source offset."""
        return None if self.provenance is None else (0, offset)

    @property
    def reason(self) -> str:
        """Why batches do not travel whole, in the words of the environment."""
        asked = {"where": self.where, "headers": self.headers or None, "provenance": self.provenance}
        return "record work: " + ", ".join(word for word, desired in asked.items() if desired is not None)


NO_WORK = RecordWork()


def work_of(flow: FlowSettings) -> RecordWork:
    return RecordWork(flow.where, () if flow.headers is None else flow.headers.add, flow.provenance)


LaneKey = tuple[str, int]
"""Flow and number."""


def lane_of(topic: str, partition: int, lanes: int) -> int:
    """The lane that owns a source partition. A topic's partitions go to the lanes in turn, beginning at one that its
    name decides, so no lane has more than one of them above its share. Decision 151 says what a change of it needs."""
    return (_first_lane(topic) + partition) % lanes


@functools.lru_cache(65_536)
def _first_lane(topic: str) -> int:
    return int.from_bytes(hashlib.blake2b(topic.encode(), digest_size=8).digest())


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One source partition to copy. ``topic_id`` is the source topic's id (base64 as Kafka prints it)."""

    topic: str
    partition: int
    target_topic: str
    topic_id: str


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """Who owns a flow: every application takes a higher number than it finds, and writes it into each position.

    The higher claim wins (``application`` breaks a tie), so that two applications never fence each other in turns.
    ``ground`` is not written: what a flow with provenance found out when it was taken over; nor are ``clusters``, the
    ids of source and target at that time, empty where not known. ``owner``: the environment whose application it is;
    written, and asked by the next takeover.
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
"""The flow is not taken over yet: the lane gets everything ready and waits for ``Control.claim``."""


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """What a lease gives a lane. What may change while it runs is asked of ``Control``; here it is as it was when the
    lease was given."""

    flow: str
    lane: int
    transactional_id: str
    """Of the lane's producer, the same for every holder: InitProducerId with it fences the one before."""
    group: str
    """In which positions are committed, at the target."""
    source: Endpoint
    target: Endpoint
    delivery: str
    isolation: str
    start_kind: str
    """``earliest`` or AGAIN: other starts were committed as positions at the takeover."""
    start_timestamp_ms: int | None
    partitions: tuple[PartitionSpec, ...]
    claim: Claim = NO_CLAIM
    """AWAITED: prepare, and wait for ``Control.claim``."""
    paused: frozenset[tuple[str, int]] = frozenset()
    """Source topics and partitions."""
    rate: float = 0.0
    """The lane's share of the flow's limit in bytes per second, 0 for none."""
    start_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By source topic and partition; they win over ``start_kind``."""
    continue_on: frozenset[str] = frozenset()
    """Conditions after which a partition goes on behind what is lost, counted."""
    work: RecordWork = NO_WORK
    offset_syncs: tuple[str, str] | None = None
    """Side (``source`` or ``target``) and name of MirrorMaker 2's topic, where it is written."""
    keeps_offsets: bool = False
    """Copies have the source's offsets."""
    filler_limit: int | None = None
    """Then no start is filled with more offsets than that."""
    moved_from: str = ""
    """The first name of a flow that was renamed; see ``state``."""

    @property
    def state(self) -> str:
        return self.moved_from or self.flow


def lane_spec(flow: FlowSettings, lane: int) -> LaneSpec:
    """Without partitions or claim. Any other start but offsets was committed at the takeover, so this is earliest."""
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
        start_kind=AGAIN if flow.start_kind == AGAIN else "earliest",
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
"""What to do about a missing right: the job knows neither the name of its principal nor what git declares."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Something a person must know. ``stops``: the partition is not copied until someone acts."""

    code: ConditionCode
    text: str
    """What is wrong, with both values."""
    todo: str
    """What to do, as a command where there is one."""
    topic: str | None = None
    """None: of the lane or the flow."""
    partition: int | None = None
    """None: of the whole topic."""
    stops: bool = False

    @classmethod
    def of_partition(
        cls, code: ConditionCode, spec: PartitionSpec, text: str, todo: str, *, stops: bool = True
    ) -> Condition:
        """``text`` goes on behind the name of the partition."""
        return cls(code, f"{spec.topic}-{spec.partition} {text}", todo, spec.topic, spec.partition, stops)


@dataclass(frozen=True, slots=True)
class LastBatch:
    """Of the batch that holds the source offset before a position: what its header said when it was copied. A source
    that went back to a backup has another batch there once it has grown again."""

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
    """What the target's log lost of a copy. ``end``: the target offset at which it ended when that was seen;
    ``acknowledged``: the one behind the last record that had been committed there. ``source``: the source offset of the
    first record whose copy is gone, -1 where the offset map does not say."""

    end: int
    acknowledged: int
    source: int = -1


@dataclass(frozen=True, slots=True)
class Ahead:
    """A copy that goes on with the source's records behind the position. ``source`` and ``target``: offsets of the
    first of them; ``after``: the source offset behind the last one, None where that is not known."""

    source: int
    target: int
    after: int | None


OF_A_READ = ("source_unreachable", "target_unreachable", "setting_not_supported")
"""Of a look that failed: what there is now is not known."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """A flow's partitions and what is in their way. ``complete``: both clusters have answered at least once.
    ``uncopied``: how many partitions of which source topics match the flow and have no place at the target."""

    specs: tuple[PartitionSpec, ...] = ()
    conditions: tuple[Condition, ...] = ()
    topics: int = 0
    """How many source topics match."""
    complete: bool = False
    uncopied: Mapping[str, int] = field(default_factory=dict)

    def by_lane(self, lanes: int) -> Mapping[int, tuple[PartitionSpec, ...]]:
        slices: dict[int, list[PartitionSpec]] = {lane: [] for lane in range(lanes)}
        for spec in self.specs:
            slices[lane_of(spec.topic, spec.partition, lanes)].append(spec)
        return {lane: tuple(specs) for lane, specs in slices.items()}


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """One partition's row of a lane's report. Offsets are the source's, None while not known; counts are of this lease,
    and of committed records."""

    topic: str
    partition: int
    position: int | None
    """The next source offset, as it is committed at the target."""
    end: int | None
    """The source's last stable offset (high watermark for read_uncommitted)."""
    records: int = 0
    bytes: int = 0
    waiting_since_ms: int | None = None
    """Timestamp of the oldest record that is read and not committed; None: there is none."""
    path: str = ""
    """Empty, as ``path_reason``: as the lane's."""
    path_reason: str = ""
    filtered: int = 0
    """Records below the position that ``where`` kept from the target; ``returning``: that provenance did."""
    returning: int = 0
    paused: bool = False
    """A pause is asked for, nothing is under way any more, and what was copied is committed."""
    losses: Losses = ()
    """What was left behind where the flow goes on."""
    silent_since_ms: int | None = None
    """When the source last reported ``end``, where that is too long ago to be the end."""


@dataclass(frozen=True, slots=True)
class HoleCounts:
    """Of a lane that keeps offsets, since its lease began. ``holes``: stretches of offsets without a record that were
    filled; ``fillers``: offsets they had; ``refusals``: batches that brokers refused as not the next one.
    ``filling``: partitions that are being brought to where they begin, and ``left``: the offsets left of that."""

    holes: int = 0
    fillers: int = 0
    refusals: int = 0
    filling: int = 0
    left: int = 0

    def since(self, earlier: HoleCounts) -> HoleCounts:
        """What was counted after ``earlier``, a snapshot of the same lease."""
        return replace(
            self,
            holes=max(0, self.holes - earlier.holes),
            fillers=max(0, self.fillers - earlier.fillers),
            refusals=max(0, self.refusals - earlier.refusals),
        )

    def plus(self, before: HoleCounts) -> HoleCounts:
        """With what an earlier stretch of the lane counted."""
        return replace(
            self,
            holes=self.holes + before.holes,
            fillers=self.fillers + before.fillers,
            refusals=self.refusals + before.refusals,
        )


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """A snapshot of a lane. Counts are from the beginning of this lease, committed only."""

    flow: str
    lane: int
    partitions: tuple[PartitionProgress, ...]
    conditions: tuple[Condition, ...] = ()
    """Of the lane and of its partitions."""
    transactions: int = 0
    path: str = "batch"
    path_reason: str = ""
    """Why this path, in a few words that do not vary with names or numbers."""
    retries: int = 0
    latency: Latency = NO_LATENCY
    """From a record's timestamp at the source to its commit at the target."""
    throttled_ms: int = 0
    """How long the rate limit held something back."""
    held_back: int = 0
    """How many partitions it holds back now."""
    at_work: bool = True
    """A session looks at the partitions; between two sessions the ends of the source are not known."""
    holes: HoleCounts | None = None
    """None where copies have offsets of their own."""


class LaneEnd(StrEnum):
    """SUPERSEDED: another holder fenced this lane; never to be retried by this application at once."""

    LEASE_OVER = "lease over"
    STOPPED = "stopped"
    SUPERSEDED = "superseded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LaneReport:
    """How a lane's turn ended, and its last snapshot."""

    end: LaneEnd
    progress: LaneProgress
    error: str = ""
    """In words, where it failed or was superseded."""


class Control(Protocol):
    """What a running lane asks of its lease."""

    def stopping(self) -> bool:
        """True: commit what is open and return."""
        ...

    def lease_over(self) -> bool:
        """True: commit at the next good moment and return."""
        ...

    def partitions(self) -> tuple[PartitionSpec, ...]:
        """The lane's partitions now; may grow, shrink or change while the lane runs."""
        ...

    def claim(self) -> Claim:
        """AWAITED until the flow is taken over. Only asked by a lane that was begun with AWAITED."""
        ...

    def prepared(self) -> None:
        """Such a lane could copy at once."""

    def paused(self) -> frozenset[tuple[str, int]]:
        """Source partitions to leave alone now: commit what is open of them, fetch no more, keep the position."""
        ...

    def rate(self) -> float:
        """The lane's share of its flow's rate limit now: bytes per second, 0 for no limit."""
        ...

    def watch(self, wake: Callable[[], None]) -> None:
        """From now on ``wake`` is called, on any thread, when something else than time has changed what this control
        says; instead of the one that was given before."""

    def report(self, progress: LaneProgress) -> None:
        """Hands a snapshot of the whole lane to the driver; cheap, may be called several times a second. Only what
        differs from the last one travels; a row that is the same object is not looked into."""
        ...
