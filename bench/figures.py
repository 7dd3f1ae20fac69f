"""Nouns of a measurement: what is loaded, what is run, what came out. Frozen, standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class BenchError(Exception):
    """A measurement that cannot be made. The text is fit for a person."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """``batch_records`` is the number of records of one source batch; ``compression`` a Kafka codec name."""

    name: str
    value_bytes: int
    batch_records: int
    compression: str
    keyed: bool
    default_records: int
    partitions: int = 8


DATA_SETS = {
    data.name: data
    for data in (
        DataSet("1kb-lz4", 1024, 100, "lz4", True, 1_000_000),
        DataSet("100b", 100, 7_000, "none", False, 3_000_000),
        DataSet("single", 1024, 1, "none", True, 200_000),
    )
}


@dataclass(frozen=True, slots=True)
class Clusters:
    """The two clusters of a run. ``broker_pids`` maps ``east/1`` to a process of this machine; empty when unknown."""

    source: str
    target: str
    broker_pids: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A source topic full of records. ``ends`` and ``digests`` are indexed by partition."""

    topic: str
    records: int
    ends: tuple[int, ...]
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One start of one system. Both clusters have an alias that is used once, so that positions, internal topics and
    remote topics are fresh; ``mark`` is carried by the environment of every process of the run."""

    mark: str
    alias: str
    target_alias: str
    topic: str
    clusters: Clusters
    folder: Path

    @property
    def remote_topic(self) -> str:
        return f"{self.alias}.{self.topic}"


class System(Protocol):
    """A mirror as its user runs it. ``name`` is what the table shows; ``exactly_once`` what it guarantees."""

    @property
    def name(self) -> str: ...

    @property
    def exactly_once(self) -> bool: ...

    def start(self, run: Run) -> None:
        """Starts to copy ``run.topic``; may return before anything is copied. Raises BenchError."""
        ...

    def alive(self, run: Run) -> str | None:
        """None while it runs, else the end of its log."""
        ...

    def stop(self, run: Run) -> None:
        """Ends it; whatever is left carries the mark and is killed by the caller."""
        ...


@dataclass(frozen=True, slots=True)
class Copied:
    """A finished copy. Seconds and CPU are from the first record seen at the target to the last, read committed;
    ``records`` were copied in that time. ``start_s`` runs from the command to the first record."""

    case: str
    system: str
    exactly_once: bool
    repeat: int
    records: int
    verified: bool
    start_s: float
    start_cpu_s: float
    copy_s: float
    cpu_s: float
    cpu_by_program: dict[str, float]
    broker_cpu_s: dict[str, float]
    peak_rss_mib: float

    @property
    def records_per_s(self) -> float:
        return self.records / max(self.copy_s, 1e-3)

    @property
    def records_per_cpu_s(self) -> float:
        return self.records / max(self.cpu_s, 1e-2)


@dataclass(frozen=True, slots=True)
class Latency:
    """Produce to consume at the target in milliseconds, by a read_committed reader."""

    case: str
    system: str
    exactly_once: bool
    repeat: int
    records: int
    lost: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_cores: float


@dataclass(frozen=True, slots=True)
class Failed:
    case: str
    system: str
    repeat: int
    reason: str


Result = Copied | Latency | Failed
