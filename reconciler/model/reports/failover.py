"""Report of ``failover`` and ``failback``: what was asked, seen and done, with offsets by group.

*Origin* is the cluster that consumers leave, *destination* the one they go to: source and target of the flow at a
failover, the other way round at a failback. All offsets are positions: the next offset to read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import Unknown
from reconciler.model.acls import AclBinding
from reconciler.model.live import LiftedCopies
from reconciler.replication.status import PartitionLag
from reconciler.text import total

Key = tuple[str, int]
"""Topic and partition."""


class Way(StrEnum):
    FAILOVER = "failover"
    FAILBACK = "failback"


@dataclass(frozen=True, slots=True)
class Leg:
    """How topics of the origin are found at the destination. ``forward``: the origin is the flow's source."""

    flow: str
    forward: bool


@dataclass(frozen=True, slots=True)
class ConsumerMove:
    """Whom a failover or failback moves, from where to where, and along which flows."""

    way: Way
    flow: str
    """The one that was named; by it the move is known in journals and words."""
    origin: str
    destination: str
    legs: tuple[Leg, ...]
    """Flows whose topics the groups read: the named one, and what carries the other way."""
    drained: str
    """The flow that is emptied and paused; empty where none is declared."""
    started: str
    """The flow that carries records the other way afterwards; empty where none is declared."""
    note: str = ""
    """Why one of the two is missing, where it could be expected."""


class Level(StrEnum):
    """STOPS: nothing is done until someone acts. WARNS: it is done, and this comes of it."""

    FINE = "fine"
    WARNS = "warns"
    STOPS = "stops"


@dataclass(frozen=True, slots=True)
class FailoverCheck:
    """Something that was looked at before, and what it means for the move."""

    code: str
    """Stable, for those who read the JSON."""
    level: Level
    text: str
    todo: str = ""
    """What to do about it, as a command where there is one."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One source partition of the drained flow. None: not known."""

    source: Key
    target: Key
    position: int | None
    """The flow's, committed at the target."""
    end: int | None = None
    """Up to where the flow may copy now: the last stable offset, or the high watermark for read_uncommitted."""
    written: int | None = None
    """The high watermark."""

    @property
    def left(self) -> int | None:
        """Offsets not copied yet, control markers among them."""
        return None if self.end is None else max(0, self.end - (self.position or 0))

    @property
    def undecided(self) -> int:
        """Offsets of transactions that are still open."""
        return 0 if self.end is None or self.written is None else max(0, self.written - self.end)


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group on one cluster. ``kind`` and ``state`` as brokers say them, empty where the group does not exist."""

    kind: str = ""
    state: str = ""
    members: int = 0

    @property
    def is_share(self) -> bool:
        """A share group, of which start offsets move (KIP-932)."""
        return self.kind == "share"


@dataclass(frozen=True, slots=True)
class TranslatedPartition:
    """Where a group goes on at the destination by the map, and how sure that is."""

    offset: int | None
    """None: no safe one is known."""
    exact: bool
    reason: str = ""
    """Why it is not exact."""
    end: int | None = None
    """Where the destination ends."""
    between: int | None = None
    """Copied records between ``offset`` and where the group was at the destination, either way round; None when they
    were not counted."""
    counted: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """In a topic that both clusters write: for each of these two offsets how many records a group at that offset reads
    again, and misses."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """One partition of a group."""

    origin: Key
    destination: Key
    committed: int
    """On the origin, with its metadata."""
    metadata: str
    translated: TranslatedPartition
    before: int | None
    """On the destination, before this run; None: none."""
    after: int | None = None
    """On the destination after it; None while it is not set."""

    @property
    def again(self) -> int | None:
        """Records that are read a second time, at most; None when that depends on the consumer's auto.offset.reset."""
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
        """Records that are not read at all, at most."""
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
    """Why its offsets were not, or will not be, set; empty when they are as they should be."""

    @property
    def exact(self) -> bool:
        return all(offset.again == 0 and offset.missed == 0 for offset in self.offsets)


@dataclass(frozen=True, slots=True)
class KnownLag:
    """When the origin does not answer: what the mirror knew of its lag last."""

    records: int
    """Of what the origin had at ``at_ms``, at most so many are not copied."""
    at_ms: int
    since_s: int
    """Seconds from then until now: of what was written meanwhile nothing is known."""
    unknown_partitions: int = 0
    """Of which nothing was known then."""
    worst_partitions: tuple[PartitionLag, ...] = ()
    """Those of the others that were furthest behind."""


@dataclass(frozen=True, slots=True)
class DrainedFlow:
    """The drained flow as its mirror and the clusters report it."""

    partitions: tuple[PartitionState, ...] | Unknown
    job: str
    """State of its mirror as ``status`` shows it."""
    paused_by: str = ""
    """Empty when it is not paused."""
    pause_reason: str = ""
    lag: KnownLag | None = None
    """As the mirror knew it last."""
    groups_read_ms: int | None = None
    """When it read the origin's groups last."""
    conditions: tuple[tuple[str, str], ...] = ()
    """Of those that stop copying: what is wrong, and what to do."""
    unread: str = ""
    """Why neither its mirror's status nor its pause can be read, or empty."""

    @property
    def left(self) -> int | None:
        """None when it is not known."""
        return None if isinstance(self.partitions, Unknown) else total(each.left for each in self.partitions)

    @property
    def undecided(self) -> int:
        return 0 if isinstance(self.partitions, Unknown) else sum(partition.undecided for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class Unmapped:
    """Topics of the destination whose copies groups may have read on a lost origin; no checkpoint says how far.
    ``without``: groups that have no offset on them at the destination either. ``server``: of the destination."""

    topics: tuple[str, ...]
    without: tuple[str, ...]
    server: str = ""


@dataclass(frozen=True, slots=True)
class FenceSeen:
    """Deny rules that keep producers off the origin, as far as they exist."""

    made: frozenset[AclBinding] = frozenset()
    """Those that a failover of this flow has made and not taken back."""
    missing: frozenset[AclBinding] = frozenset()
    """Those still to make."""
    obstacle: str = ""
    """Why they cannot be made."""


@dataclass(frozen=True, slots=True)
class CopiesSeen:
    """Deny rules that keep clients off the copies."""

    kept: bool = False
    """The flow has ``copies: read_only``."""
    denied: frozenset[AclBinding] = frozenset()
    """Existing ones on its target that are ours to take back."""
    others: frozenset[AclBinding] = frozenset()
    """Existing ones that are not."""
    lifted: Mapping[LiftedCopies, tuple[str, ...]] = field(default_factory=dict)
    """Topics that are recorded as lifted, with the principals to deny again."""
    obstacle: str = ""
    """Why none of it is known."""


@dataclass(frozen=True, slots=True)
class PartedPartition:
    """One partition of a flow that keeps offsets, and where its two sides part."""

    source: Key
    target: Key
    at: int = 0
    """Below it both sides have the same records at the same place."""
    source_end: int = 0
    target_end: int = 0
    source_records: int = 0
    """From there on, on the source alone, up to ``source_end``."""
    target_records: int = 0
    """The same on the target."""
    unknown: str = ""
    """Why that could not be found out; else empty."""
    first_ms: int | None = None
    """Earliest timestamp of the source's own records, in ms since 1970; ``last_ms``: the latest."""
    last_ms: int | None = None

    @property
    def diverged(self) -> bool:
        """Both sides have records of their own: neither can be filled up from the other."""
        return self.source_records > 0 and self.target_records > 0


def diverged_topics(parted: Iterable[PartedPartition]) -> frozenset[str]:
    """Source topics of which both sides have records of their own, be it in different partitions: only as a whole can
    such a topic be recreated."""
    known = [each for each in parted if not each.unknown]
    theirs = {each.source[0] for each in known if each.target_records}
    return frozenset(each.source[0] for each in known if each.source_records) & theirs


@dataclass(frozen=True, slots=True)
class FailoverFacts:
    """Everything that was looked at: the checks and the plan of steps are made from it alone."""

    move: ConsumerMove
    reachable: bool
    """False: the origin does not answer, and groups are those of the last checkpoints."""
    unreachable_because: str
    flow: DrainedFlow | None
    groups: tuple[GroupMove, ...]
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Group -> why its state cannot be moved."""
    unmapped: Unmapped | None = None
    fence: FenceSeen = FenceSeen()
    copies: CopiesSeen = CopiesSeen()
    same_offsets: bool = False
    """The flow keeps offsets."""
    parted: tuple[PartedPartition, ...] = ()
    """At a failback of such a flow: its partitions whose sides are not the same."""
    hidden: tuple[FailoverCheck, ...] = ()
    """What the origin may keep from the principal."""
    denied: tuple[FailoverCheck, ...] = ()
    """Rights that a step would miss."""


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
    """``dry``: nothing was done. ``left_behind``: offsets on the origin that were not copied, None when not known."""

    environment: str
    seen: FailoverFacts
    checks: tuple[FailoverCheck, ...]
    steps: tuple[FailoverStep, ...]
    dry: bool
    left_behind: int | None = None
    seconds: float = 0.0

    @property
    def blocked(self) -> bool:
        return any(check.level is Level.STOPS for check in self.checks)
