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
    """"batch": batches travel whole. "record level": their records are encoded again."""
    reason: str
    """In a few words without names or numbers, so that few reasons come together."""
    partitions: int


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far one partition is behind, of those that are listed because they are furthest."""

    topic: str
    partition: int
    records_lag: int
    """Source offsets behind the committed position; markers and removed records count as well."""
    seconds_lag: float | None
    """Age of its oldest record under way; None: that record is not read yet."""


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
    """Partitions whose target offset is a safe earlier one for now."""
    written_total: int = 0
    """Offsets written on the target since the application began, as ``checkpoints_total``."""
    checkpoints_total: int = 0
    read_ms: int = 0
    """When the source was read, in milliseconds since 1970: a later commit of a group is not in it."""
    cpu_seconds: float = 0.0
    """Of the driver's process, for all rounds so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCondition:
    """``topic`` and ``partition`` None: of more than one. ``stops``: the partition is not copied until someone acts."""

    code: str
    topic: str | None = field(default=None, metadata=SPARSE)
    partition: int | None = field(default=None, metadata=SPARSE)
    text: str
    """What is wrong, with both values; complete without the code."""
    todo: str
    """What to do, as a command where there is one."""
    since_ms: int
    """When the driver first heard of it. One that ended and came back is new."""
    stops: bool = False


@dataclass(frozen=True, slots=True)
class ConditionCount:
    """How many conditions of one code a flow has, where not all of them are listed."""

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
    """When it was asked for, not when it took effect."""
    by: str
    """Who asked, as USER on HOST."""
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
    """Source offsets that were skipped; not each of them need have been a record."""
    records: int = 0
    """Where they could be counted, as in a corrupt batch whose header can be read."""
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
    """One flow as its job reports it, and as ``status`` shows it in JSON. What is None is not known, unless its field
    says otherwise. A job of an older release leaves out later fields."""

    name: str
    fingerprint: str
    """Of the flow's part of the hand-over that the job runs with."""
    state: FlowState = "unknown"
    topics: int = 0
    """Source topics that match."""
    partitions: int = 0
    records_total: int = 0
    """Copied and committed by this application, as ``transactions`` and ``retries``."""
    records_per_second: float = 0.0
    """Over the last ten seconds, as ``bytes_per_second``."""
    bytes_per_second: float = 0.0
    records_lag: int | None = None
    """Source offsets that are not committed at the target, over all partitions."""
    seconds_lag: float | None = None
    """Age of the oldest record under way alone; see ``oldest_unread_seconds``."""
    transactions: int | None = None
    """Commits of positions."""
    retries: int | None = None
    """Sessions of lanes that failed and were begun again: a few after a broker went away are usual."""
    filtered: int | None = field(default=None, metadata={**SPARSE, **named("records_filtered")})
    """Records that ``where`` kept from the target, as ``returning`` those that provenance did; None: not asked for."""
    returning: int | None = field(default=None, metadata={**SPARSE, **named("records_returning")})
    groups: GroupSyncStatus | None = field(default=None, metadata=SPARSE)
    """What group sync did in its last round; None: it is off."""
    paths: tuple[PathCount, ...] = ()
    """How many partitions are copied which way, and why."""
    worst_partitions: tuple[PartitionLag, ...] = ()
    """Those furthest behind, most records first."""
    conditions: tuple[ReportedCondition, ...] = ()
    """The first ones, as many as fit into the record."""
    condition_counts: tuple[ConditionCount, ...] = field(default=(), metadata=SPARSE)
    """All conditions by code, where ``conditions`` does not hold all; else empty."""
    pauses: tuple[ReportedPause, ...] = field(default=(), metadata=SPARSE)
    """The newest ones, as many as fit."""
    pause_counts: PauseCounts | None = field(default=None, metadata=SPARSE)
    """All pauses together, where ``pauses`` does not hold all; else None."""
    resuming_partitions: int = field(default=0, metadata=SPARSE)
    """No pause covers them any more, and their lanes have not confirmed that yet."""
    lost: tuple[ReportedLoss, ...] = field(default=(), metadata=SPARSE)
    rate_limit: int | None = field(default=None, metadata=SPARSE)
    """Bytes per second that are declared; None: no limit."""
    throttled_seconds: float | None = field(default=None, metadata=SPARSE)
    """How long the rate limit held lanes back, added up over lanes."""
    catch_up: CatchUpStatus | None = field(default=None, metadata=SPARSE)
    """Only of a job that ends by itself."""
    records_lag_at_least: int = 0
    """What is known of an unknown lag: the sum over the other partitions."""
    lag_unknown_partitions: int = 0
    """How many partitions have none."""
    stalled_partitions: int = 0
    """They have records to copy, or may have, and do not move."""
    same_offsets: SameOffsetsStatus | None = field(default=None, metadata=SPARSE)
    """None: the flow does not keep offsets."""
    last_lag: LastLag | None = field(default=None, metadata=SPARSE)
    """Of an unknown lag: when the job knew it last."""
    lanes: int = 0
    oldest_unread_seconds: float | None = None
    """Age of the oldest source record that is not copied, 0 where there is none; None while that of one partition is
    not known."""

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
    """Of one application; the newest record of its key counts. Times are milliseconds since 1970 by the driver's
    clock."""

    environment: str
    mirror: str
    state: ApplicationState
    detail: str = field(default="", metadata=SPARSE)
    """Why it ended, for one that did."""
    application_id: str
    fingerprint: str
    """Of the hand-over that it runs with: another one than git's means that a restart is due."""
    started_at_ms: int
    updated_at_ms: int
    status_interval_ms: int
    """How often it writes; a reader takes a job for stale after several of these."""
    host: str
    """Where its Spark driver runs, as ``pid``."""
    pid: int
    run: str = field(default="", metadata=SPARSE)
    """Under which records its submitter follows it in deploy mode cluster; empty otherwise."""
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
