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
    timestamps, None: open. ``parquet``: empty, or a folder that executors can reach. ``sample``: None for all.
    ``progress``: file with compared ranges; ``resume``: continue from it. ``topics``: by cluster."""

    flows: tuple[str, ...]
    from_ms: int | None
    to_ms: int | None
    parquet: str
    sample: Sample | None
    progress: str
    resume: bool
    topics: Mapping[str, TopicTraits]


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
    """``what``: key, value, headers, timestamp, offset, missing, extra or swapped. ``record``: index among compared
    records. ``count``: consecutive missing, extra or swapped records. None: that side has no such record."""

    record: int
    what: tuple[str, ...]
    source_offset: int | None
    target_offset: int | None
    source: ShownRecord | None
    target: ShownRecord | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``start`` up to but not with ``end``."""

    cluster: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ComparedPartition:
    """``partition`` is -1 where a whole topic or flow is unknown; its topics may then be empty.

    ``compared``: what is counted, records, keys (compacted topics) or nothing. ``differing`` counts these.
    ``difference``: the first of ``differences``, of which only some are named. ``parts``: source offsets from and up
    to, where only a sample was compared.
    ``older_*``: only on that side, because the other one has lost its oldest records. ``changing``: keys written while
    they were compared. ``by_bytes``: records that equal batches prove, unopened; ``sampled``: of them those that a
    second client read as well. ``lag``: source offsets not copied yet, so not compared. ``timestamps``: were they
    compared?
    """

    flow: str
    source_topic: str
    target_topic: str
    partition: int
    state: Equality
    compared: str
    equal: int = 0
    source_records: int = 0
    target_records: int = 0
    by_bytes: int = 0
    sampled: int = 0
    differing: int = 0
    changing: int = 0
    older_at_source: int = 0
    older_at_target: int = 0
    lag: int = 0
    position: int | None = None
    source: OffsetRange | None = None
    target: OffsetRange | None = None
    timestamps: bool = True
    parts: tuple[tuple[int, int], ...] | None = None
    difference: FirstDifference | None = None
    differences: tuple[FirstDifference, ...] = ()
    reason: str = ""
    todo: str = ""
