"""Pause and resume of a flow: parses the request, checks that its scope exists, and judges the job's confirmation."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.live import JobState, LiveCluster, LiveMirror
from reconciler.replication.records.pauses import Pause, Scope
from reconciler.replication.status import FlowStatus, ReportedPause
from reconciler.resources.flows.routes import selector_of
from reconciler.text import ANY_FOLDER, counted, moment, suggestion

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
