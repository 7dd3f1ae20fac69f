"""The status record of a mirror: what its job writes every few seconds, and what the reconciler knows of its flows.

One document both ways (schemas/status.schema.json), in a compacted topic on the status cluster. Within its format
version fields are only added: readers leave aside what they do not know, and what an older job does not write has its
default. A figure of a flow is a field of ``FlowStatus`` (CONTRIBUTING.md says what else it takes).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from reconciler.replication.json_codec import SPARSE, Codec, MalformedError, named, parsed
from reconciler.replication.names import renamed, with_former_names

FORMAT_VERSION = 1
FORMER_LAG_HEADER = "lag"
"""Header of a record of the last release: figures of flows that the release before it refused as fields."""
MOST = 2**63

ApplicationState = Literal["starting", "running", "stopping", "stopped", "superseded", "failed"]
FlowState = Literal["unknown", "starting", "running", "degraded", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class PathCount:
    """How many partitions are copied this way, and why."""

    path: str
    reason: str
    partitions: int


@dataclass(frozen=True, slots=True)
class PartitionLag:
    topic: str
    partition: int
    records_lag: int
    seconds_lag: float | None


@dataclass(frozen=True, slots=True)
class GroupSyncStatus:
    """Group sync of a flow, after its last round. ``active``: groups with members at the target, left alone.

    ``inexact``: partitions whose target offset is a safe earlier one for now. ``read_ms``: when the source was read.
    """

    groups: int = 0
    active: int = 0
    unsupported: int = 0
    inexact: int = 0
    written_total: int = 0
    checkpoints_total: int = 0
    read_ms: int = 0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCondition:
    """``topic`` and ``partition`` None: of more than one. ``stops``: the partition is not copied until someone acts."""

    code: str
    topic: str | None = field(default=None, metadata=SPARSE)
    partition: int | None = field(default=None, metadata=SPARSE)
    text: str
    todo: str
    since_ms: int
    stops: bool = False


@dataclass(frozen=True, slots=True)
class ConditionCount:
    code: str
    stops: bool
    conditions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPause:
    """``topic`` None: of the flow as a whole. ``partitions``: that it covers; ``paused_partitions``: for how many of
    them lanes have confirmed."""

    topic: str | None = field(default=None, metadata=SPARSE)
    partition: int | None = field(default=None, metadata=SPARSE)
    since_ms: int
    by: str
    reason: str
    partitions: int
    paused_partitions: int


@dataclass(frozen=True, slots=True)
class PauseCounts:
    """All pauses of a flow together; each partition counts once."""

    pauses: int
    partitions: int
    paused_partitions: int


@dataclass(frozen=True, slots=True)
class ReportedLoss:
    """What the partitions of a flow left behind because of one condition, together; ``text``: the newest of one."""

    code: str
    partitions: int
    offsets: int = 0
    records: int = 0
    batches: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class CatchUpStatus:
    """In the mode that ends by itself: partitions, those that are copied so far, and offsets left (None: not known).
    ``offsets_undecided``: held back by open transactions of the source when it began; not waited for."""

    partitions: int
    done: int
    offsets_left: int | None
    offsets_undecided: int = field(default=0, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class Filling:
    """New copies that are brought to where their source begins. ``offsets_per_second`` 0: not known."""

    partitions: int
    offsets_left: int
    offsets_per_second: float


@dataclass(frozen=True, slots=True)
class SameOffsetsStatus:
    """Of a flow that keeps offsets, by this application. ``holes``: stretches of source offsets without a record that
    were filled; ``fillers``: empty records they were filled with; ``refusals``: batches that brokers refused as not the
    next one, so that the log's end was looked up again. ``filling`` None: no copy is being filled."""

    holes: int = 0
    fillers: int = 0
    refusals: int = 0
    filling: Filling | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class LastLag:
    """The lag of a flow when it was known last: of what its source had at ``at_ms``, at most ``records`` are not
    copied. What was written there since is unknown. ``unknown_partitions`` are not in it: theirs was not known then.
    ``worst_partitions``: those furthest behind, of the others."""

    records: int
    at_ms: int
    unknown_partitions: int = field(default=0, metadata=SPARSE)
    worst_partitions: tuple[PartitionLag, ...] = field(default=(), metadata=SPARSE)


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow as its job reports it, and as ``status`` shows it in JSON. Lag is None while not known; then
    ``records_lag_at_least`` is what is known of it, ``lag_unknown_partitions`` how many partitions it is not known of.
    ``stalled_partitions`` have records to copy, or may have, and do not move.

    ``paths`` counts partitions by the way they are copied and why; ``worst_partitions`` are those furthest behind.
    ``filtered`` and ``returning`` count records that ``where`` or provenance kept from the target; None: not asked for.
    A job of an older release reports neither, and its ``transactions`` and ``retries`` are None.
    ``groups``: what group sync did in its last round; None: it is off. ``condition_counts``: all conditions by code,
    where ``conditions`` holds only the first; empty where it holds all. ``pause_counts``: all pauses together, where
    ``pauses`` holds only the newest; None where it holds all. ``same_offsets`` None: the flow does not keep offsets.
    ``throttled_seconds``: how long the rate limit held lanes back, added up over lanes. ``last_lag``: of an unknown
    lag, when the job knew it last. ``oldest_unread_seconds``: the age of the oldest source record that is not copied, 0
    where there is none; None while that of one partition is not known. ``seconds_lag`` is of records under way alone.
    """

    name: str
    fingerprint: str
    state: FlowState = "unknown"
    topics: int = 0
    partitions: int = 0
    records_total: int = 0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    records_lag: int | None = None
    seconds_lag: float | None = None
    transactions: int | None = None
    retries: int | None = None
    filtered: int | None = field(default=None, metadata={**SPARSE, **named("records_filtered")})
    returning: int | None = field(default=None, metadata={**SPARSE, **named("records_returning")})
    groups: GroupSyncStatus | None = field(default=None, metadata=SPARSE)
    paths: tuple[PathCount, ...] = ()
    worst_partitions: tuple[PartitionLag, ...] = ()
    conditions: tuple[ReportedCondition, ...] = ()
    condition_counts: tuple[ConditionCount, ...] = field(default=(), metadata=SPARSE)
    pauses: tuple[ReportedPause, ...] = field(default=(), metadata=SPARSE)
    pause_counts: PauseCounts | None = field(default=None, metadata=SPARSE)
    resuming_partitions: int = field(default=0, metadata=SPARSE)
    lost: tuple[ReportedLoss, ...] = field(default=(), metadata=SPARSE)
    rate_limit: int | None = field(default=None, metadata=SPARSE)
    throttled_seconds: float | None = field(default=None, metadata=SPARSE)
    catch_up: CatchUpStatus | None = field(default=None, metadata=SPARSE)
    records_lag_at_least: int = 0
    lag_unknown_partitions: int = 0
    stalled_partitions: int = 0
    same_offsets: SameOffsetsStatus | None = field(default=None, metadata=SPARSE)
    last_lag: LastLag | None = field(default=None, metadata=SPARSE)
    lanes: int = 0
    oldest_unread_seconds: float | None = None

    @property
    def counted_conditions(self) -> Mapping[tuple[str, bool], int]:
        """(code, whether it stops copying) -> conditions, those that are not listed in full included."""
        if self.condition_counts:
            return {(each.code, each.stops): each.conditions for each in self.condition_counts}
        return Counter((each.code, each.stops) for each in self.conditions)

    @property
    def counted_pauses(self) -> tuple[int, int]:
        """Requests, and partitions that are paused: those included that are not listed one by one."""
        if self.pause_counts is not None:
            return self.pause_counts.pauses, self.pause_counts.paused_partitions
        return len(self.pauses), sum(pause.paused_partitions for pause in self.pauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRecord:
    """Of one application. ``host`` and ``pid``: of its Spark driver. ``run``: under which records its submitter follows
    it in deploy mode cluster."""

    environment: str
    mirror: str
    state: ApplicationState
    detail: str = field(default="", metadata=SPARSE)
    application_id: str
    fingerprint: str
    started_at_ms: int
    updated_at_ms: int
    status_interval_ms: int
    host: str
    pid: int
    run: str = field(default="", metadata=SPARSE)
    flows: Mapping[str, FlowStatus]


def document(record: StatusRecord) -> dict[str, Any]:
    """As json.dumps takes it."""
    made: dict[str, Any] = {"format_version": FORMAT_VERSION, **_CODEC.encoded(record)}
    return made | {"flows": {name: flow_document(flow) for name, flow in record.flows.items()}}


def flow_document(flow: FlowStatus) -> dict[str, Any]:
    """Without its name, which is its key; figures that had another name are there under both."""
    fields = _CODEC.encoded(flow)
    del fields["name"]
    return with_former_names(fields)


def encoded(part: ReportedCondition | ReportedPause) -> dict[str, Any]:
    """One entry of a flow's document."""
    made: dict[str, Any] = _CODEC.encoded(part)
    return made


def loads(value: bytes, former_lag: bytes = b"") -> StatusRecord:
    """``former_lag``: the header of a record of the last release. Raises ValueError: what is wrong, and where."""
    try:
        given = parsed(value)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None
    try:
        version = given["format_version"]
        figures = parsed(former_lag)["flows"] if former_lag else {}
        flows: dict[str, Any] = {}
        for name, flow in given["flows"].items():
            # Both names of a renamed figure have one value, where a job writes both for older readers.
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
