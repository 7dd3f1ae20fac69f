"""The status record of a mirror: its job writes it every few seconds, and the reconciler reads it.

One document for both (schemas/status.schema.json), in a compacted topic on the status cluster. Within its format
version fields are only added: readers ignore unknown fields, and fields that an older job does not write have their
defaults. A figure of a flow is a field of ``FlowStatus`` (CONTRIBUTING.md has the other steps).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from reconciler.replication.json_codec import SPARSE, Codec, MalformedError, named, parsed
from reconciler.replication.names import renamed, with_former_names

FORMAT_VERSION = 1
FORMER_LAG_HEADER = "lag"
"""Header of a record of the last release, for figures of flows that the release before it refused as fields."""
MOST = 2**63

ApplicationState = Literal["starting", "running", "stopping", "stopped", "superseded", "failed"]
FlowState = Literal["unknown", "starting", "running", "degraded", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class PathCount:
    """Number of partitions on this path, and the reason."""

    path: str
    """"batch": batches travel whole. "record level": their records are encoded again."""
    reason: str
    """A few words without names or numbers, so that few reasons are listed."""
    partitions: int


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of one of the partitions that are furthest behind."""

    topic: str
    partition: int
    records_lag: int
    """Source offsets after the committed position, including markers and removed records."""
    seconds_lag: float | None
    """Age of its oldest uncommitted record; None: that record is not read yet."""


@dataclass(frozen=True, slots=True)
class GroupSyncStatus:
    """Group sync of a flow, after its last round."""

    groups: int = 0
    """Groups that match and have offsets in topics of the flow."""
    active: int = 0
    """Groups with members at the target, left alone."""
    unsupported: int = 0
    """Groups of a kind whose offsets cannot be set."""
    inexact: int = 0
    """Partitions whose target offset is earlier than exact for now, which is safe."""
    written_total: int = 0
    """Offsets written on the target since the application began; ``checkpoints_total``: likewise."""
    checkpoints_total: int = 0
    read_ms: int = 0
    """When the round read the source, in milliseconds since 1970: later commits of groups are not in it."""
    cpu_seconds: float = 0.0
    """CPU time of the driver's process in all rounds so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCondition:
    """``topic`` and ``partition`` None: it concerns more than one. ``stops``: the partition is not copied until someone
    acts."""

    code: str
    topic: str | None = field(default=None, metadata=SPARSE)
    partition: int | None = field(default=None, metadata=SPARSE)
    text: str
    """The problem, with both values; complete without the code."""
    todo: str
    """The remedy, as a command if there is one."""
    since_ms: int
    """When the driver first got it. A condition that ended and came back is new."""
    stops: bool = False


@dataclass(frozen=True, slots=True)
class ConditionCount:
    """Number of a flow's conditions with one code, if not all are listed."""

    code: str
    stops: bool
    conditions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPause:
    """A pause that the job obeys."""

    topic: str | None = field(default=None, metadata=SPARSE)
    """None: the whole flow."""
    partition: int | None = field(default=None, metadata=SPARSE)
    since_ms: int
    """Time of the request, not of its effect."""
    by: str
    """Who asked: USER on HOST."""
    reason: str
    partitions: int
    """Covered ones."""
    paused_partitions: int
    """Those that lanes have confirmed."""


@dataclass(frozen=True, slots=True)
class PauseCounts:
    """All pauses of a flow; each partition counts once."""

    pauses: int
    partitions: int
    paused_partitions: int


@dataclass(frozen=True, slots=True)
class ReportedLoss:
    """Records that partitions of a flow left behind because of one condition."""

    code: str
    partitions: int
    offsets: int = 0
    """Skipped source offsets; not all of them need have had a record."""
    records: int = 0
    """If they could be counted, as in a corrupt batch with a readable header."""
    batches: int = 0
    """Batches that could not be opened, such as corrupt ones."""
    text: str = ""
    """Of the newest loss."""


@dataclass(frozen=True, slots=True)
class CatchUpStatus:
    """Progress of a job that ends by itself."""

    partitions: int
    done: int
    """Partitions that are copied to their goal."""
    offsets_left: int | None
    """None: unknown."""
    offsets_undecided: int = field(default=0, metadata=SPARSE)
    """Offsets behind transactions that were open at the source when it began; it does not wait for them."""


@dataclass(frozen=True, slots=True)
class Filling:
    """New copies that are being filled up to the offset at which their source begins. ``offsets_per_second`` 0:
    unknown."""

    partitions: int
    offsets_left: int
    offsets_per_second: float


@dataclass(frozen=True, slots=True)
class SameOffsetsStatus:
    """Counts of a flow that keeps offsets, by this application."""

    holes: int = 0
    """Filled stretches of source offsets without a record."""
    fillers: int = 0
    """Empty records in them."""
    refusals: int = 0
    """Batches that brokers refused as not the next in sequence, after which the log's end was read again."""
    filling: Filling | None = field(default=None, metadata=SPARSE)
    """None: no copy is being filled."""


@dataclass(frozen=True, slots=True)
class LastLag:
    """The last known lag of a flow: at most ``records`` of the source's records at ``at_ms`` are not copied. Later
    records are unknown."""

    records: int
    at_ms: int
    unknown_partitions: int = field(default=0, metadata=SPARSE)
    """Those without a known lag then, which are not in ``records``."""
    worst_partitions: tuple[PartitionLag, ...] = field(default=(), metadata=SPARSE)
    """The others that were furthest behind."""


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow, as its job reports it and ``status`` shows it in JSON. None means unknown, unless the field says
    otherwise. A job of an older release leaves out later fields."""

    name: str
    fingerprint: str
    """Fingerprint of the flow's part of the hand-over with which the job runs."""
    state: FlowState = "unknown"
    topics: int = 0
    """Number of matching source topics."""
    partitions: int = 0
    records_total: int = 0
    """Copied and committed by this application; ``transactions`` and ``retries``: likewise."""
    records_per_second: float = 0.0
    """Over the last ten seconds; ``bytes_per_second``: likewise."""
    bytes_per_second: float = 0.0
    records_lag: int | None = None
    """Source offsets without a committed copy, over all partitions."""
    seconds_lag: float | None = None
    """Age of the oldest record that was read and not committed; see ``oldest_unread_seconds``."""
    transactions: int | None = None
    """Commits of positions."""
    retries: int | None = None
    """Failed sessions of lanes, each followed by a new one: a few are usual after the loss of a broker."""
    filtered: int | None = field(default=None, metadata={**SPARSE, **named("records_filtered")})
    """Records that ``where`` left out; ``returning``: those that provenance left out; None: not configured."""
    returning: int | None = field(default=None, metadata={**SPARSE, **named("records_returning")})
    groups: GroupSyncStatus | None = field(default=None, metadata=SPARSE)
    """The last round of group sync; None: it is off."""
    paths: tuple[PathCount, ...] = ()
    """Numbers of partitions by path and reason."""
    worst_partitions: tuple[PartitionLag, ...] = ()
    """Partitions furthest behind, most records first."""
    conditions: tuple[ReportedCondition, ...] = ()
    """As many as fit into the record, the first ones."""
    condition_counts: tuple[ConditionCount, ...] = field(default=(), metadata=SPARSE)
    """All conditions by code, if ``conditions`` does not have all; else empty."""
    pauses: tuple[ReportedPause, ...] = field(default=(), metadata=SPARSE)
    """As many as fit, the newest ones."""
    pause_counts: PauseCounts | None = field(default=None, metadata=SPARSE)
    """All pauses together, if ``pauses`` does not have all; else None."""
    resuming_partitions: int = field(default=0, metadata=SPARSE)
    """Partitions whose pauses have ended, and whose lanes have not confirmed that yet."""
    lost: tuple[ReportedLoss, ...] = field(default=(), metadata=SPARSE)
    rate_limit: int | None = field(default=None, metadata=SPARSE)
    """The declared limit in bytes per second; None: no limit."""
    throttled_seconds: float | None = field(default=None, metadata=SPARSE)
    """Time in which the rate limit held lanes back, over all lanes."""
    catch_up: CatchUpStatus | None = field(default=None, metadata=SPARSE)
    """Only of a job that ends by itself."""
    records_lag_at_least: int = 0
    """The known part of an unknown lag: the sum over the other partitions."""
    lag_unknown_partitions: int = 0
    """Number of partitions without a known lag."""
    stalled_partitions: int = 0
    """Partitions that have or may have records to copy, and do not move."""
    same_offsets: SameOffsetsStatus | None = field(default=None, metadata=SPARSE)
    """None: the flow does not keep offsets."""
    last_lag: LastLag | None = field(default=None, metadata=SPARSE)
    """The last known lag, if the present one is unknown."""
    lanes: int = 0
    oldest_unread_seconds: float | None = None
    """Age of the oldest uncopied source record, 0 without one; None while a partition's is unknown."""

    @property
    def counted_conditions(self) -> Mapping[tuple[str, bool], int]:
        """(code, whether it stops copying) -> number of conditions, including unlisted ones."""
        if self.condition_counts:
            return {(each.code, each.stops): each.conditions for each in self.condition_counts}
        return Counter((each.code, each.stops) for each in self.conditions)

    @property
    def counted_pauses(self) -> tuple[int, int]:
        """Numbers of requests and of paused partitions, including unlisted ones."""
        if self.pause_counts is not None:
            return self.pause_counts.pauses, self.pause_counts.paused_partitions
        return len(self.pauses), sum(pause.paused_partitions for pause in self.pauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRecord:
    """The record of one application; the newest record of its key counts. Times are milliseconds since 1970 by the
    driver's clock."""

    environment: str
    mirror: str
    state: ApplicationState
    detail: str = field(default="", metadata=SPARSE)
    """Why the application ended; else empty."""
    application_id: str
    fingerprint: str
    """Fingerprint of the hand-over with which it runs: if git has another, a restart is due."""
    started_at_ms: int
    updated_at_ms: int
    """Time of this record."""
    status_interval_ms: int
    """Interval of its records; after several of them without a record readers call the job stale."""
    host: str
    """Host of its Spark driver; ``pid``: its process there."""
    pid: int
    run: str = field(default="", metadata=SPARSE)
    """Run id under which its submitter follows it in deploy mode cluster; else empty."""
    flows: Mapping[str, FlowStatus]
    """By name."""


def document(record: StatusRecord) -> dict[str, Any]:
    """As json.dumps takes it."""
    made: dict[str, Any] = {"format_version": FORMAT_VERSION, **_CODEC.encoded(record)}
    return made | {"flows": {name: flow_document(flow) for name, flow in record.flows.items()}}


def flow_document(flow: FlowStatus) -> dict[str, Any]:
    """Without its name, which is its key; renamed figures have both names."""
    fields = _CODEC.encoded(flow)
    del fields["name"]
    return with_former_names(fields)


def encoded(part: ReportedCondition | ReportedPause) -> dict[str, Any]:
    """One entry of a flow's document."""
    made: dict[str, Any] = _CODEC.encoded(part)
    return made


def loads(value: bytes, former_lag: bytes = b"") -> StatusRecord:
    """``former_lag``: the header of a record of the last release. Raises ValueError with the problem and its place."""
    try:
        given = parsed(value)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None
    try:
        version = given["format_version"]
        figures = parsed(former_lag)["flows"] if former_lag else {}
        flows: dict[str, Any] = {}
        for name, flow in given["flows"].items():
            # A job writes a renamed figure under both names, for older readers.
            now = {renamed(title): value for title, value in {**flow, **figures.get(name, {})}.items()}
            for conditions in now.keys() & {"conditions", "condition_counts"}:
                now[conditions] = [{**each, "code": renamed(each["code"])} for each in now[conditions]]
            flows[name] = {**now, "name": name}
    except (LookupError, AttributeError, TypeError) as error:
        raise MalformedError(f"is no object with flows: {error!r}") from None
    if type(version) is not int or version != FORMAT_VERSION:
        raise MalformedError(f"has format_version {version!r}; this program reads {FORMAT_VERSION}")
    return _CODEC.decoded(StatusRecord, {**given, "flows": flows})


def _whole(given: Any) -> int:
    if type(given) is not int or abs(given) >= MOST:
        raise MalformedError(f"is {given!r}; it must be a whole number of 64 bits")
    return given


def _number(given: Any) -> float:
    if type(given) not in (int, float) or abs(given) >= MOST:
        raise MalformedError(f"is {given!r}; it must be a number")
    number: float = given
    return number


_CODEC = Codec({int: (lambda value: value, _whole), float: (lambda value: value, _number)}, lenient=True)
