"""Report of ``failover`` and ``failback``: the request, the facts, the steps, and offsets by group.

*Origin* is the cluster that consumers leave, *destination* the one they go to: source and target of the flow at a
failover, the other way round at a failback. All offsets are positions: the next offset to read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import Unknown
from reconciler.model.live import LiftedCopies
from reconciler.model.principals import AclBinding
from reconciler.replication.status import PartitionLag
from reconciler.text import first_of, total

Key = tuple[str, int]
"""Topic and partition."""


class Way(StrEnum):
    FAILOVER = "failover"
    FAILBACK = "failback"


@dataclass(frozen=True, slots=True)
class Leg:
    """Names of the origin's topics at the destination. ``forward``: the origin is the flow's source."""

    flow: str
    forward: bool


@dataclass(frozen=True, slots=True)
class ConsumerMove:
    """A move of consumers: its clusters and flows."""

    way: Way
    flow: str
    """The named flow, by which journals and messages call the move."""
    origin: str
    destination: str
    legs: tuple[Leg, ...]
    """Flows whose topics the groups read: the named one, and the one in the other direction."""
    drained: str
    """The flow to drain and pause; empty if none is declared."""
    started: str
    """The flow that carries records the other way afterwards; empty if none is declared."""
    note: str = ""
    """Why ``drained`` or ``started`` is missing, if one would be expected."""


class Level(StrEnum):
    """In order of weight. WARNS: the move continues, with this consequence. STOPS: nothing happens until someone
    acts."""

    FINE = "fine"
    WARNS = "warns"
    STOPS = "stops"


@dataclass(frozen=True, slots=True)
class FailoverCheck:
    """A check before the move, and its meaning for it."""

    code: str
    """Stable, for readers of the JSON."""
    level: Level
    text: str
    todo: str = ""
    """The remedy, as a command if there is one."""


def worst_first(checks: Iterable[FailoverCheck]) -> tuple[FailoverCheck, ...]:
    """Those that stop the move, then warnings; among equals in the order in which they were made."""
    weights = list(Level)
    return tuple(sorted(checks, key=lambda check: -weights.index(check.level)))


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One source partition of the drained flow. None: not known."""

    source: Key
    target: Key
    position: int | None
    """The flow's position, committed at the target."""
    end: int | None = None
    """The flow may copy up to here: the last stable offset, or the high watermark for read_uncommitted."""
    written: int | None = None
    """The high watermark."""

    @property
    def name(self) -> str:
        """Of the source partition, for people: ``orders-3``."""
        return f"{self.source[0]}-{self.source[1]}"

    @property
    def left(self) -> int | None:
        """Uncopied offsets, including control markers."""
        return None if self.end is None else max(0, self.end - (self.position or 0))

    @property
    def undecided(self) -> int:
        """Offsets of open transactions."""
        return 0 if self.end is None or self.written is None else max(0, self.written - self.end)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group on one cluster. ``kind`` and ``state``: in the broker's words, empty if the group does not exist."""

    kind: str = ""
    state: str = ""
    members: int = 0

    @property
    def is_share(self) -> bool:
        """A share group, whose start offsets move (KIP-932)."""
        return self.kind == "share"


@dataclass(frozen=True, slots=True)
class TranslatedPartition:
    """A group's offset at the destination, by the offset map, and how certain it is."""

    offset: int | None
    """None: no safe offset is known."""
    exact: bool
    reason: str = ""
    """Why it is not exact."""
    end: int | None = None
    """Log end at the destination."""
    between: int | None = None
    """Copied records between ``offset`` and the group's former offset at the destination, in either direction; None if
    not counted."""
    counted: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """For a topic that both clusters write: for each of these two offsets, the records that a group at it reads again,
    and those that it misses."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """One partition of a group."""

    origin: Key
    """Partition of the origin; ``destination``: the same one there, maybe under another name."""
    destination: Key
    committed: int
    """The offset on the origin, with its metadata."""
    metadata: str
    """The client's own words beside the offset; they travel with it."""
    translated: TranslatedPartition
    """What the map says; ``after`` may differ, as offsets never go back."""
    before: int | None
    """The offset on the destination before this run; None without one."""
    after: int | None = None
    """The offset on the destination after this run; None until it is set."""

    @property
    def again(self) -> int | None:
        """At most so many records are read a second time; None if that depends on the consumer's auto.offset.reset."""
        wanted, there = self.translated, self.after
        if there is None or wanted.offset is None:
            return None
        if there in wanted.counted:
            return wanted.counted[there][0]
        if there < wanted.offset and there == self.before and wanted.exact and wanted.between is not None:
            return wanted.between
        latest = wanted.offset if wanted.exact or wanted.end is None else max(wanted.end, wanted.offset)
        return max(0, latest - there)

    @property
    def missed(self) -> int | None:
        """At most so many records are never read."""
        wanted, there = self.translated, self.after
        if there is None or wanted.offset is None:
            return None
        if there in wanted.counted:
            return wanted.counted[there][1]
        if there > wanted.offset and there == self.before and wanted.between is not None:
            return wanted.between
        return max(0, there - wanted.offset)

    @property
    def went_on(self) -> bool:
        """It was further at the destination before anybody set it: it read there, or was set ahead. Which of it is not
        known, so what is missed is a bound."""
        wanted, there = self.translated.offset, self.after
        return wanted is not None and there is not None and there == self.before and there > wanted


@dataclass(frozen=True, slots=True)
class GroupMove:
    """One group with all its partitions."""

    group: str
    origin: GroupState
    destination: GroupState
    offsets: tuple[GroupOffset, ...]
    note: str = ""
    """Why its offsets were not or will not be set; empty if they are as they should be."""

    @property
    def exact(self) -> bool:
        return all(offset.again == 0 and offset.missed == 0 for offset in self.offsets)


@dataclass(frozen=True, slots=True)
class KnownLag:
    """The lag that the mirror reported last, for an origin that does not answer."""

    records: int
    """At most so many of the origin's records at ``at_ms`` are not copied."""
    at_ms: int
    since_s: int
    """Seconds since then: writes in this time are unknown."""
    unknown_partitions: int = 0
    """Number of partitions with unknown lag at that time."""
    worst_partitions: tuple[PartitionLag, ...] = ()
    """The partitions that were furthest behind."""


@dataclass(frozen=True, slots=True)
class DrainedFlow:
    """The drained flow as its mirror and the clusters report it."""

    partitions: tuple[PartitionState, ...] | Unknown
    job: str
    """Its mirror's state, as ``status`` shows it."""
    paused_by: str = ""
    """Empty if it is not paused."""
    pause_reason: str = ""
    lag: KnownLag | None = None
    """As the mirror reported it last."""
    groups_read_ms: int | None = None
    """When the mirror last read the origin's groups."""
    conditions: tuple[tuple[str, str], ...] = ()
    """Conditions that stop copying, each with its remedy."""
    unread: str = ""
    """Why its mirror's status and its pause are unknown, or empty."""

    @property
    def left(self) -> int | None:
        """None if unknown."""
        return None if isinstance(self.partitions, Unknown) else total(each.left for each in self.partitions)

    @property
    def undecided(self) -> int:
        return 0 if isinstance(self.partitions, Unknown) else sum(partition.undecided for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Topics of the destination whose copies groups may have read on a lost origin: no checkpoint shows how far.
    ``without``: topics on which groups have no offset at the destination either. ``server``: a bootstrap server of the
    destination."""

    topics: tuple[str, ...]
    without: tuple[str, ...]
    server: str = ""


@dataclass(frozen=True, slots=True)
class FenceSeen:
    """Deny rules against producers on the origin."""

    made: frozenset[AclBinding] = frozenset()
    """Rules that a failover of this flow has made and not removed."""
    missing: frozenset[AclBinding] = frozenset()
    """Rules still to make."""
    obstacle: str = ""
    """Why rules cannot be made."""


@dataclass(frozen=True, slots=True)
class CopiesSeen:
    """Deny rules against clients that would write copies."""

    kept: bool = False
    """The flow has ``copies: read_only``."""
    denied: frozenset[AclBinding] = frozenset()
    """Existing rules on its target that we may remove."""
    others: frozenset[AclBinding] = frozenset()
    """Existing rules of others."""
    lifted: Mapping[LiftedCopies, tuple[str, ...]] = field(default_factory=dict)
    """Topics recorded as lifted, with the principals to deny again."""
    obstacle: str = ""
    """Why all of this is unknown."""


@dataclass(frozen=True, slots=True)
class PartedPartition:
    """One partition of a flow that keeps offsets, and the offset at which its two sides diverge."""

    source: Key
    target: Key
    at: int = 0
    """Both sides have the same records before this offset."""
    source_end: int = 0
    """End of the source's log when they were compared; ``target_end``: of the target's."""
    target_end: int = 0
    source_records: int = 0
    """Records from there to ``source_end`` on the source alone."""
    target_records: int = 0
    """Records from there on on the target alone."""
    unknown: str = ""
    """Why the comparison failed; else empty."""
    first_ms: int | None = None
    """Earliest timestamp of the source's own records, in ms since 1970; ``last_ms``: the latest."""
    last_ms: int | None = None

    @property
    def name(self) -> str:
        """Of the source partition, for people: ``orders-3``."""
        return f"{self.source[0]}-{self.source[1]}"

    @property
    def diverged(self) -> bool:
        """Both sides have records of their own, so neither can be filled up from the other."""
        return self.source_records > 0 and self.target_records > 0


def not_compared(parted: Iterable[PartedPartition]) -> str:
    """Words that name the partitions that could not be compared, each with the reason; empty if there are none."""
    return first_of([f"{each.name}: {each.unknown}" for each in parted if each.unknown])


def diverged_topics(parted: Iterable[PartedPartition]) -> frozenset[str]:
    """Source topics with records of their own on both sides, even if in different partitions: a topic can only be
    recreated as a whole."""
    known = [each for each in parted if not each.unknown]
    theirs = {each.source[0] for each in known if each.target_records}
    return frozenset(each.source[0] for each in known if each.source_records) & theirs


@dataclass(frozen=True, slots=True)
class FailoverFacts:
    """The observed facts: checks and planned steps depend on nothing else."""

    move: ConsumerMove
    reachable: bool
    """False: the origin does not answer, and groups have the offsets of their last checkpoints."""
    unreachable_because: str
    flow: DrainedFlow | None
    """None if no flow is to drain."""
    groups: tuple[GroupMove, ...]
    """With the offsets that are due, or that were set."""
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Group -> why its state cannot be moved."""
    unmapped: Unmapped | None = None
    fence: FenceSeen = FenceSeen()
    """Rules that keep producers off the origin."""
    copies: CopiesSeen = CopiesSeen()
    """Rules that keep clients off the copies at the destination."""
    same_offsets: bool = False
    """The flow keeps offsets."""
    parted: tuple[PartedPartition, ...] = ()
    """At a failback of such a flow: its partitions with different sides."""
    hidden: tuple[FailoverCheck, ...] = ()
    """Objects that the origin may hide from the principal."""
    denied: tuple[FailoverCheck, ...] = ()
    """Rights that a step would lack."""


class StepResult(StrEnum):
    DONE = "done"
    ALREADY = "already"
    SKIPPED = "skipped"
    FAILED = "failed"
    PLANNED = "planned"


@dataclass(frozen=True, slots=True)
class FailoverStep:
    """``name`` is stable: fence, drain, pause, offsets, lift, start, restore, unfence; with ``--diverged``
    before them keep, recreate, fill, seek, compare."""

    name: str
    result: StepResult
    text: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """A failover or failback, as planned or as done."""

    environment: str
    seen: FailoverFacts
    checks: tuple[FailoverCheck, ...]
    steps: tuple[FailoverStep, ...]
    dry: bool
    """The run changed nothing."""
    left_behind: int | None = None
    """Uncopied offsets on the origin, None if unknown."""
    seconds: float = 0.0

    @property
    def blocked(self) -> bool:
        return any(check.level is Level.STOPS for check in self.checks)
