"""The request to ``verify``, and its report: the outcome of comparing both sides of flows."""

from dataclasses import dataclass, field

from reconciler.errors import ExitCode
from reconciler.model.plan import NO_EDITION, Edition
from reconciler.replication.runs.verification import ComparedPartition, Equality


@dataclass(frozen=True, slots=True)
class SampleSize:
    """A fraction of each partition, or a number of records of each; the other is 0."""

    fraction: float = 0.0
    records: int = 0

    def __str__(self) -> str:
        return f"{self.records:,} records" if self.records else f"{100 * self.fraction:g} %"


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """What to compare, and how."""

    flow: str | None = None
    """None: all flows of the mirrors."""
    from_ms: int | None = None
    to_ms: int | None = None
    parquet: str = ""
    """A place for the table of compared chunks; empty: none is written."""
    master: str | None = None
    """Another Spark master than the mirror's."""
    sample: SampleSize | None = None
    seed: int = 0
    """Chooses the sample; the same one finds the same records again."""
    resume: bool = False
    """Continue where an earlier run ended."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of one comparison. ``at_ms``, ``edition``: time of the beginning, and the files that define both
    sides."""

    environment: str
    request: VerificationRequest
    partitions: tuple[ComparedPartition, ...] = ()
    applications: tuple[str, ...] = ()
    """Spark application ids, one for each mirror."""
    seconds: float = field(default=0.0, compare=False)
    left_out: tuple[str, ...] = ()
    """By flow, in words, topics that match its expressions but are not carried: nothing is proved about them."""
    one_client: tuple[str, ...] = ()
    """By cluster, in words, that the client of the copy read it instead of librdkafka."""
    at_ms: int = field(default=0, compare=False)
    edition: Edition = NO_EDITION

    def of(self, state: Equality) -> tuple[ComparedPartition, ...]:
        return tuple(partition for partition in self.partitions if partition.state is state)

    @property
    def exit_code(self) -> ExitCode:
        """A difference is a fact even if other parts are unknown; without any partition nothing is proved."""
        if self.of(Equality.DIFFERENT):
            return ExitCode.CHANGES
        return ExitCode.ERROR if self.of(Equality.UNKNOWN) or not self.partitions else ExitCode.DONE
