"""Pause, resume and seek of a flow: parses the request, checks that its scope exists, and judges the job's
confirmation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.live import JobState, LiveCluster, LiveMirror
from reconciler.replication.records.pauses import Pause, Scope
from reconciler.replication.status import FlowStatus, ReportedPause
from reconciler.resources.flows.routes import selector_of
from reconciler.text import ANY_FOLDER, columns, counted, in_shell, moment, suggestion

FAILOVER = "failover to "
"""Prefix of the reason of a failover's pause; then the destination, and ``;`` before further text."""


@dataclass(frozen=True, slots=True)
class PauseRequest:
    """``flow``: empty for all flows; ``topic``: empty for the whole flow; ``partition``: -1 for the whole topic."""

    flow: str = ""
    topic: str = ""
    partition: int = -1


def scopes(topology: Topology, request: PauseRequest) -> tuple[Scope, ...]:
    """The requested scopes, one for each flow. Raises ReconcilerError for an undeclared flow, or an incomplete
    request."""
    if request.partition >= 0 and not request.topic:
        raise ReconcilerError(
            f"--partition {request.partition} is given without --topic",
            "A partition is one of a topic.",
            "Name the source topic with --topic.",
        )
    if request.topic and not request.flow:
        raise ReconcilerError(
            f"--topic {request.topic} is given without a flow",
            "The same topic may travel in several flows.",
            f"Name the flow: {', '.join(topology.flows) or 'none is declared'}.",
        )
    if request.flow and request.flow not in topology.flows:
        raise ReconcilerError(
            f"environment {topology.environment} has no flow {request.flow}",
            "There is nothing to act on.",
            f"{suggestion(request.flow, topology.flows, 'Check reconciler status ENV')}.",
        )
    flows = [request.flow] if request.flow else sorted(topology.flows)
    if not flows:
        raise ReconcilerError("no flow is declared", "There is nothing to act on.")
    return tuple(Scope(flow, request.topic, request.partition) for flow in flows)


def require_exists(flow: Flow, scope: Scope, source: LiveCluster | Unknown) -> str:
    """Raises ReconcilerError for a topic or partition that the flow does not mirror. Returns words for omitted
    checks."""
    selector = selector_of(flow)
    known = [] if isinstance(source, Unknown) else [name for name in source.topics if selector.why_not(name) is None]
    why = selector.why_not(scope.topic)
    if why is not None:
        raise ReconcilerError(
            f"flow {flow.name} does not mirror a topic {scope.topic}: {why}",
            f"It is the topic's name at the source, {flow.source}, that counts.",
            f"{suggestion(scope.topic, known, f'See: reconciler explain ENV {scope.topic}')}.",
        )
    # The flow's own expressions could be checked above without the source. A pause must be possible while the source is
    # down, often the very reason for it, so the rest is only reported.
    if isinstance(source, Unknown):
        return f"{flow.source} did not answer, so whether {scope.topic} exists there was not checked: {source.error}"
    topic = source.topics.get(scope.topic)
    if (hidden := source.hidden.get(scope.topic)) is not None:
        return hidden.with_todo
    if topic is None:
        raise ReconcilerError(
            f"{flow.source} has no topic {scope.topic}",
            "There is nothing to act on.",
            f"{suggestion(scope.topic, known, f'See: reconciler explain ENV {scope.topic}')}.",
        )
    if scope.partition >= len(topic.partitions):
        raise ReconcilerError(
            f"topic {scope.topic} of {flow.source} has no partition {scope.partition}",
            "There is nothing to act on.",
            "It has only partition 0."
            if len(topic.partitions) == 1
            else f"It has {len(topic.partitions)} partitions: 0 to {len(topic.partitions) - 1}.",
        )
    return ""


def resume_command(scope: Scope, folder: str = ANY_FOLDER) -> str:
    return f"reconciler mirror resume {folder} {scope.typed}"


def paused_notes(mirror: LiveMirror) -> tuple[str, ...]:
    """Pauses, as intended differences from git, for plans and drift reports."""
    names = []
    for name, flow in sorted(mirror.flows.items()):
        for pause, _ in reported_pauses(name, flow):
            until = f"it is not copied until {resume_command(pause.scope)}"
            names.append(f"{pause.scope} is paused {words(pause)}; {until}")
        if more := flow.counted_pauses[0] - len(flow.pauses):
            names.append(f"flow {name} has {counted(more, 'pause')} more; see reconciler status ENV")
    return tuple(names)


def reported_pauses(name: str, flow: FlowStatus) -> Iterator[tuple[Pause, ReportedPause]]:
    """Pauses of a flow, each with its job's report."""
    for reported in flow.pauses:
        scope = Scope(name, reported.topic or "", -1 if reported.partition is None else reported.partition)
        yield Pause(scope, reported.since_ms, reported.by, reported.reason), reported


def to_lift(scope: Scope, pauses: Iterable[Pause]) -> tuple[Pause, ...]:
    """Pauses that a resume of ``scope`` deletes: all within it.

    Raises ReconcilerError while a wider pause covers it, since a part of a pause cannot be lifted.
    """
    held = list(pauses)
    wider = next((pause for pause in held if scope.within(pause.scope) and pause.scope != scope), None)
    if wider is not None:
        raise ReconcilerError(
            f"{scope} cannot be resumed alone: {wider.scope} is paused as a whole {words(wider)}",
            "A pause is lifted as it was set.",
            f"Resume {wider.scope}, and pause what should stay.",
        )
    return tuple(pause for pause in held if pause.scope.within(scope))


def failed_over_to(reason: str) -> str:
    """The destination of consumers, from the reason of a failover's pause; empty for other pauses."""
    return reason.removeprefix(FAILOVER).partition(";")[0] if reason.startswith(FAILOVER) else ""


def words(pause: Pause) -> str:
    """``since 2026-01-01 12:00:00 UTC by ann@host: maintenance``."""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"since {moment(pause.since_ms)} by {pause.by}{reason}"


@dataclass(frozen=True, slots=True)
class PauseProgress:
    """The job's progress. ``runs``: False if no job reads pauses now."""

    runs: bool
    done: bool
    words: str


def progress(
    mirror: LiveMirror | Unknown | None, wanted: Sequence[Scope], *, paused: bool, asked_ms: int
) -> PauseProgress:
    """Whether the job reports, after ``asked_ms``, all of ``wanted`` as paused, or none of them."""
    if isinstance(mirror, Unknown):
        return PauseProgress(True, False, f"its status record cannot be read: {mirror.error}")
    if mirror is None or mirror.state in (JobState.ABSENT, JobState.STOPPED, JobState.FAILED):
        return PauseProgress(False, False, "no mirror job runs")
    if mirror.state is JobState.STALE:
        return PauseProgress(True, False, "it has been silent for long; perhaps it was killed")
    flows = {scope.flow: mirror.flows.get(scope.flow) for scope in wanted}
    if any(flow is None for flow in flows.values()):
        return PauseProgress(True, False, "the mirror job that runs does not carry the flow; apply restarts it")
    # An older record may show a former pause of the same scope.
    fresh = (mirror.updated_at_ms or 0) > asked_ms
    reported = {
        pause.scope: counts
        for name, flow in flows.items()
        if flow is not None
        for pause, counts in reported_pauses(name, flow)
    }
    capped = [flow for flow in flows.values() if flow is not None and flow.pause_counts is not None]
    if not paused:
        resuming = sum(flow.resuming_partitions for flow in flows.values() if flow is not None)
        gone = not any(each_scope.within(scope) for each_scope in reported for scope in wanted)
        said = f"not copied yet: {counted(resuming, 'partition')}" if gone else "it has not read the request yet"
        if gone and capped:
            said = "it has too many pauses to report each, so whether it has read this request is not known"
        return PauseProgress(True, fresh and gone and not resuming and not capped, said)
    asked = [reported[scope] for scope in wanted if scope in reported]
    total, done = sum(each.partitions for each in asked), sum(each.paused_partitions for each in asked)
    complete = fresh and len(asked) == len(wanted) and done == total
    return PauseProgress(
        True, complete, f"{done} of {total} partitions are paused" if reported else "it has not read the request yet"
    )


# Seek: new positions of a flow, whether a seek is allowed now, and its costs.

SHOWN = 10


@dataclass(frozen=True, slots=True)
class SeekPartition:
    """One source partition before a seek."""

    partition: int
    position: int | None
    """The next offset to copy; None: no position."""
    begin: int
    """First offset that the source still has; ``end``: its high watermark."""
    end: int
    foreign: int | None = None
    """An offset that another client committed."""
    former: int | None = None
    """The position in a deleted topic of the same name, meaningless for this one."""
    lost_from: int | None = None
    """The source offset from which on the target has lost its copies."""

    @property
    def behind(self) -> int | None:
        return None if self.position is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class TopicPositions:
    """Positions of one topic of a flow, before a seek."""

    environment: str
    flow: Flow
    topic: str
    remote: str
    """Name of its copy."""
    standings: tuple[SeekPartition, ...]
    moved: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    """Partition -> new source offset, empty if only shown."""
    left: tuple[int, ...] = ()
    """Requested partitions that stay, since flow ``taken_from`` has no position for them."""
    taken_from: str = ""
    """The flow whose positions were taken over; empty without one."""


def require_place(to: str) -> None:
    """Raises ReconcilerError for an invalid place."""
    if to not in ("earliest", "latest") and not (to.isascii() and to.isdigit() and len(to) < 20):
        raise ReconcilerError(
            f'--to is "{to}"', "A position is a source offset.", "Write earliest, latest, or an offset such as 1200."
        )


def destinations(standings: Sequence[SeekPartition], to: str) -> Mapping[int, int]:
    """Partition -> offset. Raises ReconcilerError for an invalid place, or one outside of the source's log."""
    if to == "earliest":
        return {part.partition: part.begin for part in standings}
    if to == "latest":
        return {part.partition: part.end for part in standings}
    require_place(to)
    if outside := [part for part in standings if not part.begin <= int(to) <= part.end]:
        has = "; ".join(f"partition {part.partition} has {part.begin} to {part.end}" for part in outside[:SHOWN])
        raise ReconcilerError(
            f"--to is {to}, which the source does not have: {has}",
            "Copying could not continue there.",
            "Name an offset within, or earliest, or latest; with --partition for one partition.",
        )
    return {part.partition: int(to) for part in standings}


def taken_over(
    standings: Sequence[SeekPartition], by_name: Mapping[int, int], other: str
) -> tuple[Mapping[int, int], tuple[int, ...]]:
    """Partition -> position of flow ``other``, and partitions without one.

    Raises ReconcilerError for a position outside of the source's log, or without any position.
    """
    if not by_name:
        raise ReconcilerError(
            f"flow {other} has no position there that it committed itself",
            "There is nothing to take over.",
            "Check the spelling; or name a place with --to.",
        )
    # Not moved to the nearest offset: what lies between was deleted, and whether to go on without it is not for a seek
    # to decide.
    if outside := [s for s in standings if s.partition in by_name and not s.begin <= by_name[s.partition] <= s.end]:
        part = outside[0]
        has = f"of which the source has {part.begin} to {part.end}"
        raise ReconcilerError(
            f"flow {other} is at {by_name[part.partition]} of partition {part.partition}, {has}",
            "Copying could not continue there.",
            "Name a place with --to, partition by partition.",
        )
    not_taken_over = tuple(part.partition for part in standings if part.partition not in by_name)
    return {part.partition: by_name[part.partition] for part in standings if part.partition in by_name}, not_taken_over


def require_still(mirror: LiveMirror | Unknown | None, scope: Scope, partitions: Sequence[int]) -> None:
    """Raises ReconcilerError while a job copies one of ``partitions``: its next commit would overwrite the position."""
    if isinstance(mirror, Unknown):
        raise ReconcilerError(
            f"whether {scope} is copied now is not known: {mirror.error}",
            "A copy that runs would write over the position with its next commit.",
            mirror.todo,
        )
    if mirror is None or not mirror.state.runs:
        return
    flow = mirror.flows.get(scope.flow)
    if flow is None:
        return
    if busy := [number for number in partitions if not _still(flow, scope.topic, number)]:
        name = f" --partition {busy[0]}" if len(busy) == 1 else ""
        shown = ", ".join(map(str, busy[:SHOWN])) + (" ..." if len(busy) > SHOWN else "")
        raise ReconcilerError(
            f"{scope.topic} is being copied: partition{'s' if len(busy) > 1 else ''} {shown}",
            "The next commit would write over the position.",
            f"First: reconciler mirror pause ENV {scope.flow} --topic {in_shell(scope.topic)}{name}."
            " Then move, then resume.",
        )


def _still(flow: FlowStatus, topic: str, partition: int) -> bool:
    covering = [each for pause, each in reported_pauses(flow.name, flow) if pause.scope.covers(topic, partition)]
    return any(each.partitions == each.paused_partitions for each in covering) or any(
        condition.stops and condition.topic == topic and condition.partition in (None, partition)
        for condition in flow.conditions
    )


def table(standings: Sequence[SeekPartition]) -> list[str]:
    """Table of positions. It marks positions of other clients and of deleted topics, since moving them has another
    meaning."""
    rows = [("partition", "position", "source begins", "source ends", "behind")]
    for part in standings:
        behind = "unknown" if part.behind is None else f"{part.behind:,}"
        place = "none" if part.position is None else str(part.position)
        place = place if part.foreign is None else f"{part.foreign}, not the mirror's"
        place = place if part.former is None else f"{part.former}, of a deleted topic"
        rows.append((str(part.partition), place, str(part.begin), str(part.end), behind))
    return list(columns(rows, right=range(len(rows[0]))))


def costs(standings: Sequence[SeekPartition], chosen: Mapping[int, int]) -> list[str]:
    """Effects of a seek on records: skipped for ever, or copied again."""
    # Each partition counts in one way only: from a position of another client, or without one, nothing follows about
    # which records the target has.
    skipped = again = unknown = foreign = former = 0
    for part in standings:
        if part.foreign is not None:
            foreign += 1
        elif part.former is not None:
            former += 1
            skipped += chosen[part.partition] - part.begin
        elif part.position is None:
            unknown += 1
        else:
            skipped += max(0, chosen[part.partition] - max(part.position, part.begin))
            kept = part.position if part.lost_from is None else part.lost_from
            again += max(0, min(kept, part.end) - chosen[part.partition])
    lines = [f"passed over and never copied: {counted(skipped, 'offset')} that the source has"] if skipped else []
    lines += [f"copied again, so that the target has the records twice: {counted(again, 'offset')}"] if again else []
    if unknown:
        verb = "has" if unknown == 1 else "have"
        lines.append(f"{counted(unknown, 'partition')} {verb} no position yet and would else begin where start says")
    if former:
        has = "has a position" if former == 1 else "have positions"
        copies = "its copies stay in the target, before those of the topic as it is now"
        lines.append(f"{counted(former, 'partition')} {has} in a deleted topic of the same name: {copies}")
    if foreign:
        has = "has a position that another client" if foreign == 1 else "have positions that another client"
        copied = "how much is copied again or passed over is not known"
        lines.append(f"{counted(foreign, 'partition')} {has} committed: {copied}")
    return lines
