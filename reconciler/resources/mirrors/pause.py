"""Pause and resume: what is meant, whether it exists, and whether the job has done it.

Border: nouns in, nouns and words out; the records are read and written by edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from reconciler.counts import counted
from reconciler.errors import ReconcilerError, Unknown
from reconciler.live import FlowStatus, JobState, LiveCluster, LiveMirror
from reconciler.places import suggestion
from reconciler.routing import selector_of
from reconciler.topology import Flow, Topology
from replication.pauses import Pause, Scope


@dataclass(frozen=True, slots=True)
class Wish:
    """``flow`` empty: every flow; ``topic`` empty: all of it; ``partition`` -1: all of the topic."""

    flow: str = ""
    topic: str = ""
    partition: int = -1


def scopes(topology: Topology, wish: Wish) -> tuple[Scope, ...]:
    """What is meant, one scope a flow. Raises ReconcilerError for a flow that is not declared, or half a wish."""
    if wish.partition >= 0 and not wish.topic:
        raise ReconcilerError(
            f"--partition {wish.partition} is given without --topic",
            "A partition is one of a topic.",
            "Name the source topic with --topic.",
        )
    if wish.topic and not wish.flow:
        raise ReconcilerError(
            f"--topic {wish.topic} is given without a flow",
            "The same topic may travel in several flows.",
            f"Name the flow: {', '.join(topology.flows) or 'none is declared'}.",
        )
    if wish.flow and wish.flow not in topology.flows:
        raise ReconcilerError(
            f"environment {topology.environment} has no flow {wish.flow}",
            "There is nothing to act on.",
            f"{suggestion(wish.flow, topology.flows, 'Look at reconciler status')}.",
        )
    flows = [wish.flow] if wish.flow else sorted(topology.flows)
    if not flows:
        raise ReconcilerError("no flow is declared", "There is nothing to act on.")
    return tuple(Scope(flow, wish.topic, wish.partition) for flow in flows)


def require_exists(flow: Flow, scope: Scope, source: LiveCluster | Unknown) -> str:
    """Raises ReconcilerError for a topic or partition the flow does not mirror. What could not be checked, in words."""
    selector = selector_of(flow)
    known = [] if isinstance(source, Unknown) else [name for name in source.topics if selector.why_not(name) is None]
    why = selector.why_not(scope.topic)
    if why is not None:
        raise ReconcilerError(
            f"flow {flow.name} does not mirror a topic {scope.topic}: {why}",
            f"It is the topic's name at the source, {flow.source}, that counts.",
            f"{suggestion(scope.topic, known, f'See: reconciler explain ENV {scope.topic}')}.",
        )
    if isinstance(source, Unknown):
        return f"{flow.source} did not answer, so nobody looked whether {scope.topic} exists there: {source.error}"
    found = source.topics.get(scope.topic)
    if found is None:
        raise ReconcilerError(
            f"{flow.source} has no topic {scope.topic}",
            "There is nothing to act on.",
            f"{suggestion(scope.topic, known, f'See: reconciler explain ENV {scope.topic}')}.",
        )
    if scope.partition >= len(found.partitions):
        raise ReconcilerError(
            f"topic {scope.topic} of {flow.source} has no partition {scope.partition}",
            "There is nothing to act on.",
            "It has only partition 0."
            if len(found.partitions) == 1
            else f"It has {len(found.partitions)} partitions: 0 to {len(found.partitions) - 1}.",
        )
    return ""


def paused_notes(mirror: LiveMirror) -> tuple[str, ...]:
    """For plans and drift reports: what differs from git's wish because a person wished so."""
    found = []
    for name, flow in sorted(mirror.flows.items()):
        for scope, one in told(name, flow):
            pause = Pause(scope, _number(one["since_ms"]), str(one["by"]), str(one["reason"]))
            found.append(f"{scope} is paused {words(pause)}; nothing of it is copied until reconciler mirror resume")
    return tuple(found)


def told(name: str, flow: FlowStatus) -> Iterator[tuple[Scope, Mapping[str, object]]]:
    """The pauses of a flow as its job reports them."""
    for one in flow.pauses:
        yield Scope(name, str(one.get("topic", "")), _number(one.get("partition", -1))), one


def to_lift(scope: Scope, pauses: Iterable[Pause]) -> tuple[Pause, ...]:
    """What a resume of ``scope`` deletes: every pause within it.

    Raises ReconcilerError while a wider pause covers it: lifting a part of that cannot be said.
    """
    held = list(pauses)
    wider = next((one for one in held if scope.within(one.scope) and one.scope != scope), None)
    if wider is not None:
        raise ReconcilerError(
            f"{scope} cannot be resumed alone: {wider.scope} is paused as a whole {words(wider)}",
            "A pause is lifted as it was set.",
            f"Resume {wider.scope}, and pause what should stay.",
        )
    return tuple(one for one in held if one.scope.within(scope))


def words(pause: Pause) -> str:
    """``since 2026-01-01 12:00:00 UTC by ann@host: maintenance``."""
    reason = f": {pause.reason}" if pause.reason else ""
    return f"since {moment(pause.since_ms)} by {pause.by}{reason}"


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the job has come. ``runs`` False: no job reads pauses now."""

    runs: bool
    done: bool
    words: str


def progress(mirror: LiveMirror | Unknown | None, wanted: Sequence[Scope], *, paused: bool, asked_ms: int) -> Progress:
    """Whether ``wanted`` are all paused, or none of them any more, by the job's own word after ``asked_ms``."""
    if isinstance(mirror, Unknown):
        return Progress(True, False, f"its status record cannot be read: {mirror.error}")
    if mirror is None or mirror.state in (JobState.ABSENT, JobState.STOPPED, JobState.FAILED):
        return Progress(False, False, "no mirror job runs")
    if mirror.state is JobState.STALE:
        return Progress(True, False, "it has been silent for long; perhaps it was killed")
    flows = {scope.flow: mirror.flows.get(scope.flow) for scope in wanted}
    if any(flow is None for flow in flows.values()):
        return Progress(True, False, "the mirror job that runs does not carry the flow; apply starts it anew")
    fresh = (mirror.updated_at_ms or 0) > asked_ms
    reported = {scope: one for name, flow in flows.items() if flow is not None for scope, one in told(name, flow)}
    if not paused:
        left = sum(flow.resuming_partitions for flow in flows.values() if flow is not None)
        gone = not any(one.within(scope) for one in reported for scope in wanted)
        said = f"not copied yet: {counted(left, 'partition')}" if gone else "it has not read the wish yet"
        return Progress(True, fresh and gone and not left, said)
    counts = [reported.get(scope) for scope in wanted]
    total = sum(_number(one["partitions"]) for one in counts if one is not None)
    done = sum(_number(one["paused_partitions"]) for one in counts if one is not None)
    complete = fresh and None not in counts and done == total
    return Progress(
        True, complete, f"{done} of {total} partitions are paused" if reported else "it has not read the wish yet"
    )


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
