"""Request and result of the ``verify`` job: one document each, which one side writes and the other reads.

They contain lengths and digests, never values: readers of the report may have no right to read the records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from reconciler.replication.json_codec import Codec

FORMAT_VERSION = 1
CODEC = Codec(lenient=True)
REQUEST_CODEC = Codec()
WARNING = "warning: "
"""How a line of progress begins that the next one does not replace."""


@dataclass(frozen=True, slots=True)
class TopicTraits:
    """Topic names of one cluster. ``append_time``: the broker sets timestamps. ``unknown``: configs not readable."""

    compacted: frozenset[str] = frozenset()
    append_time: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sample:
    """``fraction`` of each partition, or ``records`` of each; the other is 0."""

    fraction: float
    records: int
    seed: int


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """Input besides the mirror's hand-over, so that the job needs no right to describe configs. ``*_ms``: record
    timestamps, None: open."""

    flows: tuple[str, ...]
    from_ms: int | None
    to_ms: int | None
    parquet: str
    """Empty, or a folder that executors can reach."""
    sample: Sample | None
    """Which part of the records to compare; None: all of them."""
    progress: str
    """File with compared ranges."""
    resume: bool
    """Continue from it."""
    topics: Mapping[str, TopicTraits]
    """By cluster, topics whose configs decide how they are compared."""


class Equality(StrEnum):
    """UNKNOWN: could not be read or confirmed, which never counts as equal."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FieldDigest:
    """Length in bytes (of headers: their number) and digest of a key, value or header list. ``length`` None: null."""

    length: int | None
    digest: str


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record without its content. ``timestamp`` in ms since 1970."""

    key: FieldDigest
    value: FieldDigest
    headers: FieldDigest
    timestamp: int


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first record, or run of records, that differs. Offsets and records are None where that side has no such
    record."""

    record: int
    """Index among compared records."""
    what: tuple[str, ...]
    """Key, value, headers, timestamp, offset, missing, extra or swapped."""
    source_offset: int | None
    target_offset: int | None
    source: ShownRecord | None
    target: ShownRecord | None
    count: int = 1
    """Consecutive missing, extra or swapped records."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``start`` up to but not with ``end``."""

    cluster: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ComparedPartition:
    """One partition after its comparison. ``partition`` is -1 where a whole topic or flow is unknown; its topics may
    then be empty. ``older_*``: only on that side, because the other one has lost its oldest records."""

    flow: str
    source_topic: str
    target_topic: str
    partition: int
    state: Equality
    """The result; UNKNOWN if it could not be compared."""
    compared: str
    """What is counted, records, keys (compacted topics) or nothing. ``differing`` counts these."""
    equal: int = 0
    """Records or keys that are the same on both sides."""
    source_records: int = 0
    """Read at the source; ``target_records``: at the target."""
    target_records: int = 0
    by_bytes: int = 0
    """Records that equal batches prove, unopened."""
    sampled: int = 0
    """Of them those that a second client read as well."""
    differing: int = 0
    """Records or keys that differ, or that only one side has."""
    changing: int = 0
    """Keys written while they were compared."""
    older_at_source: int = 0
    older_at_target: int = 0
    lag: int = 0
    """Source offsets not copied yet, so not compared."""
    position: int | None = None
    """Source offset up to which the flow had copied; None: no position."""
    source: OffsetRange | None = None
    """Compared offsets of the source; ``target``: of its copy."""
    target: OffsetRange | None = None
    timestamps: bool = True
    """Were they compared?"""
    parts: tuple[tuple[int, int], ...] | None = None
    """Source offsets from and up to, where only a sample was compared."""
    difference: FirstDifference | None = None
    """The first of ``differences``, of which only some are named."""
    differences: tuple[FirstDifference, ...] = ()
    reason: str = ""
    """Why nothing, or not all, was compared; ``todo``: what to do about it."""
    todo: str = ""
