"""Report of ``verify``: the outcome of comparing both sides of flows."""

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import ExitCode


class Equality(StrEnum):
    """UNKNOWN: it could not be read or not be confirmed, which never counts as equal."""

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
    """``what``: key, value, headers, timestamp, offset, missing, extra or swapped. ``record`` counts from 0, the first
    compared one. ``count``: how many records in a row are missing, extra or swapped. None: that side has no such
    record."""

    record: int
    what: tuple[str, ...]
    source_offset: int | None
    target_offset: int | None
    source: ShownRecord | None
    target: ShownRecord | None
    count: int


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


@dataclass(frozen=True, slots=True)
class SampleSize:
    """A fraction of each partition, or so many records of each; the other is 0."""

    fraction: float = 0.0
    records: int = 0

    def __str__(self) -> str:
        return f"{self.records:,} records" if self.records else f"{100 * self.fraction:g} %"


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """What is asked for: a flow or all; record timestamps in ms; where the chunk table goes; another Spark master; only
    a sample, which ``seed`` chooses; to go on where an earlier run ended."""

    flow: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    parquet: str = ""
    master: str | None = None
    sample: SampleSize | None = None
    seed: int = 0
    resume: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """``applications``: Spark application ids, one a mirror. ``left_out``: by flow, in words, topics that its
    expressions match and that it does not carry: nothing is proved of them. ``one_client``: by cluster, in words, that
    it was read by the client that copies, not by librdkafka."""

    environment: str
    request: VerificationRequest
    partitions: tuple[ComparedPartition, ...] = ()
    applications: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    left_out: tuple[str, ...] = ()
    one_client: tuple[str, ...] = ()

    def of(self, state: Equality) -> tuple[ComparedPartition, ...]:
        return tuple(partition for partition in self.partitions if partition.state is state)

    @property
    def exit_code(self) -> ExitCode:
        """A difference is a fact whatever else is unknown; without any partition nothing is proved."""
        if self.of(Equality.DIFFERENT):
            return ExitCode.CHANGES
        return ExitCode.ERROR if self.of(Equality.UNKNOWN) or not self.partitions else ExitCode.DONE
