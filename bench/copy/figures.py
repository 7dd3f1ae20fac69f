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
    partitions: int = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A copy of one data set. ``idle_partitions`` empty ones are mirrored beside it; with ``delay_ms`` the broker of
    ``far``, source or target, is that far away, each way, on a line of ``megabits`` a second for each connection."""

    name: str
    data: DataSet
    records: int
    idle_partitions: int = 0
    delay_ms: float = 0.0
    megabits: float = 1000.0
    far: str = "source"


KB_LZ4 = DataSet("1kb-lz4", 1024, 100, "lz4", True)
CASES = {
    case.name: case
    for case in (
        Case("1kb-lz4", KB_LZ4, 1_000_000),
        Case("100b", DataSet("100b", 100, 7_000, "none", False), 3_000_000),
        Case("single", DataSet("single", 1024, 1, "none", True), 200_000),
        Case("idle", KB_LZ4, 1_000_000, idle_partitions=2000),
        Case("delay", KB_LZ4, 2_000_000, delay_ms=100),
        Case("delay-wide", KB_LZ4, 2_000_000, delay_ms=100, megabits=10_000),
        Case("delay-target", KB_LZ4, 2_000_000, delay_ms=100, far="target"),
    )
}


@dataclass(frozen=True, slots=True)
class Clusters:
    """Addresses of the two clusters. ``broker_pids`` maps ``east/1`` to its process; ``source_data`` is the folder of
    the source broker's log."""

    source: str
    target: str
    broker_pids: dict[str, int]
    source_data: Path


@dataclass(frozen=True, slots=True)
class Loaded:
    """A source topic full of records. ``ends`` and ``digests`` are indexed by partition; ``log_bytes`` is the size of
    its batches as stored."""

    topic: str
    records: int
    ends: tuple[int, ...]
    digests: tuple[str, ...]
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """One start of one system that mirrors ``topic`` from ``source`` to ``target`` (addresses). Both clusters have an
    alias that is used once, so that positions, internal topics and remote topics are fresh. ``mark`` is carried by the
    environment of every process of the run."""

    mark: str
    alias: str
    target_alias: str
    topic: str
    idle_topics: str | None
    source: str
    target: str
    folder: Path

    @property
    def topics(self) -> tuple[str, ...]:
        """The patterns of the topics to mirror."""
        return (self.topic, self.idle_topics) if self.idle_topics else (self.topic,)

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
class LineUse:
    """A long line while records were copied: bytes over each connection that carried records, what one connection can
    carry in that time, and the CPU of the proxy that makes the line."""

    connections: tuple[int, ...]
    capacity: float
    proxy_cpu_s: float

    @property
    def share(self) -> float:
        """Of what its connections can carry."""
        return sum(self.connections) / max(len(self.connections) * self.capacity, 1.0)


@dataclass(frozen=True, slots=True)
class Copied:
    """A finished copy. Seconds and CPU are from the first record seen at the target to the last, read committed;
    ``records`` were copied in that time. ``start_s`` runs from the command to the first record. ``idle_cores`` is the
    CPU used per second once everything was copied. ``peak_pss_mib``: of all processes of the system."""

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
    peak_pss_mib: float
    peak_rss_mib_by_program: dict[str, float]
    log_bytes: int
    idle_cores: float | None = None
    line: LineUse | None = None

    @property
    def records_per_s(self) -> float:
        return self.records / max(self.copy_s, 1e-3)

    @property
    def records_per_cpu_s(self) -> float:
        return self.records / max(self.cpu_s, 1e-2)


@dataclass(frozen=True, slots=True)
class Latency:
    """Produce to consume at the target in milliseconds, by a read_committed reader. ``seconds`` were measured;
    ``late``: records of the last tenth of them that came more than a second after they were written, or not at all;
    ``cpu_cores`` of the system; ``other_cores``: of each broker, and of the program that writes and reads."""

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
    seconds: float = 0.0
    late: int = 0
    other_cores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    case: str
    system: str
    repeat: int
    reason: str


Result = Copied | Latency | Failed
