"""What ``verify`` is asked, and its report: the outcome of comparing both sides of flows."""

from dataclasses import dataclass, field

from reconciler.errors import ExitCode
from reconciler.model.plan import NO_EDITION, Edition
from reconciler.replication.runs.verification import ComparedPartition, Equality


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
    it was read by the client that copies, not by librdkafka. ``at_ms``, ``edition``: when it began, and the files that
    named both sides."""

    environment: str
    request: VerificationRequest
    partitions: tuple[ComparedPartition, ...] = ()
    applications: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    left_out: tuple[str, ...] = ()
    one_client: tuple[str, ...] = ()
    at_ms: int = field(default=0, compare=False)
    edition: Edition = NO_EDITION

    def of(self, state: Equality) -> tuple[ComparedPartition, ...]:
        return tuple(partition for partition in self.partitions if partition.state is state)

    @property
    def exit_code(self) -> ExitCode:
        """A difference is a fact whatever else is unknown; without any partition nothing is proved."""
        if self.of(Equality.DIFFERENT):
            return ExitCode.CHANGES
        return ExitCode.ERROR if self.of(Equality.UNKNOWN) or not self.partitions else ExitCode.DONE
