"""Decides on drills: the canary of a flow, whether a drill may begin, and what its readings come to. Pure functions."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.errors import BlockedError, ReconcilerError
from reconciler.model.environment.flow_settings import Objectives
from reconciler.model.environment.topology import Flow, Topology
from reconciler.model.reports.cutover import CutoverPlan
from reconciler.model.reports.drill import CanaryRecords, DrillPlaces, ObjectiveSeen, RecoveryPoint
from reconciler.model.reports.failover import Key, Level, PartitionState
from reconciler.model.state.cutover_journal import CutoverJournal, CutoverState
from reconciler.replication.groups import make_group_selector
from reconciler.replication.records.pauses import Pause, Scope
from reconciler.resources.flows.routes import selector_of
from reconciler.resources.mirrors.pause_and_seek import words
from reconciler.text import BRIEF, first_of

_NOTHING_DONE = "Nothing was changed."
_NOT_OF_A_DRILL = frozenset({"hook", "part", "producer-topics", "shared-topics", "left-out", "groups"})
"""Checks of a cut-over that do not apply to a canary: no hook runs, and only the drill writes and reads it."""


def exactly_name(name: str) -> str:
    """An expression that matches only this name."""
    return re.sub(r"([^A-Za-z0-9_-])", r"\\\1", name)


def require_declared(topology: Topology, flow: Flow, canary: str) -> None:
    """Raises BlockedError with the YAML to add: a drill moves only topics that the environment owns."""
    lines: list[str] = []
    where = topology.topics[canary].clusters if canary in topology.topics else ()
    if flow.source not in where:
        both = [flow.source, flow.target] if _carrier(topology, flow, canary, declared=False) else [flow.source]
        lines += ["topics:", f"  {canary}: {{clusters: [{', '.join(both)}]}}"]
    if selector_of(flow).why_not(canary) is not None:
        topics = ", ".join(f"'{each}'" for each in (*flow.topics, exactly_name(canary)))
        lines += ["flows:", f"  {flow.name}:", f"    topics: [{topics}]"]
    if lines:
        raise BlockedError(
            f"the environment does not declare {canary} on {flow.source} as a topic that {flow.name} copies",
            f"A drill writes and moves only a canary that the environment owns. {_NOTHING_DONE}",
            "\n".join(("Add it, and apply; or name another topic with --canary:", *lines)),
        )
    if why := make_group_selector(flow.groups.include, flow.groups.exclude).why_not(canary):
        raise BlockedError(
            f"{flow.name} does not move the group {canary}: {why}",
            f"The drill proves positions with it. {_NOTHING_DONE}",
            f"Let groups of {flow.name} include '{exactly_name(canary)}', and apply.",
        )


def places_of(
    topology: Topology, flow: Flow, canary: str, standing: Collection[str], there: Collection[str]
) -> DrillPlaces:
    """``standing``: running flows. ``there``: topics of the destination."""
    copy = selector_of(flow).remote_name(canary)
    back = _carrier(topology, flow, canary)
    if back is not None and back.name in standing and canary in there:
        return DrillPlaces(canary, copy, canary, selector_of(back).remote_name(canary), back.name)
    if back is None:
        note = f"no flow carries {canary} from {flow.target} to {flow.source}"
    elif canary not in there:
        note = f"{flow.target} has no topic {canary}, which {back.name} would carry back"
    else:
        note = f"{back.name}, which would carry {canary} back, does not copy"
    if canary in there and canary != copy:
        note += f": what is written on {flow.target} stays there, and only its group comes back"
        return DrillPlaces(canary, copy, canary, note=note)
    note += (
        f": nothing is written on {flow.target}, since a record there would stay in the copy; the canary is read there"
    )
    return DrillPlaces(canary, copy, note=f"{note}, and taken back")


def _carrier(topology: Topology, flow: Flow, canary: str, *, declared: bool = True) -> Flow | None:
    """The only flow that copies the canary from the target back. ``declared``: the flow must already match the
    canary."""
    others = [each for each in topology.flows.values() if (each.source, each.target) == (flow.target, flow.source)]
    if declared:
        others = [each for each in others if selector_of(each).why_not(canary) is None]
    return others[0] if len(others) == 1 else None


def require_alone(
    topology: Topology,
    flow: Flow,
    canary: str,
    pauses: Mapping[Scope, Pause],
    journals: Iterable[CutoverJournal],
    reason: str,
) -> None:
    """Raises BlockedError for a pause that no drill set, and for an unfinished cut-over between the two clusters.
    ``reason``: prefix of the reason of a drill's pauses."""
    for scope, pause in pauses.items():
        if scope.topic in ("", canary) and not (scope.topic and pause.reason.startswith(reason)):
            raise BlockedError(
                f"{scope} is paused {words(pause)}",
                f"A drill needs a mirror that copies, and does not lift the pause of another. {_NOTHING_DONE}",
                f"If it is over: reconciler mirror resume ENV {flow.name}{f' --topic {canary}' if scope.topic else ''}",
            )
    # A cut-over in the other direction counts, too: it moves the same clients.
    both = {flow.source, flow.target}
    between = {each.name for each in topology.flows.values() if {each.source, each.target} == both}
    for journal in journals:
        if journal.state is CutoverState.UNDER_WAY and (journal.flow in between or canary in journal.topics):
            raise BlockedError(
                f"a cut-over of {journal.flow} by {journal.who} is under way: it has come to step "
                f"{journal.begun or 'none'}",
                f"A drill would measure that one, and could get in its way. {_NOTHING_DONE}",
                "End it, or take it back, with its own plan file: reconciler cutover rollback ENV --plan FILE",
            )


def require_ready(plan: CutoverPlan, canary: str) -> None:
    """Raises BlockedError for checks that stop a cut-over of the canary."""
    if not plan.topics:
        raise BlockedError(
            f"{plan.origin} has no topic {canary} that {plan.flow} copies",
            f"It is declared, and not there. {_NOTHING_DONE}",
            "Make it: reconciler apply ENV",
        )
    stops = [each for each in plan.checks if each.level is Level.STOPS and each.code not in _NOT_OF_A_DRILL]
    if stops:
        raise BlockedError(first_of([each.text for each in stops], BRIEF), _NOTHING_DONE, stops[0].todo)


def warnings_of(plan: CutoverPlan) -> Iterator[str]:
    """Warnings of the plan that concern the canary."""
    for check in plan.checks:
        if check.level is Level.WARNS and check.code in ("fence", "fence-limits"):
            yield check.text


# Computes the results of a drill from its readings. Pure functions.


@dataclass
class PointWatch:
    """The worst recovery point while the canary is written. ``accepted``: for each acknowledged batch its time, and the
    ends of the partitions after it."""

    accepted: list[tuple[float, Mapping[Key, int]]] = field(default_factory=list)
    worst: RecoveryPoint = field(default_factory=RecoveryPoint)

    def wrote(self, at: float, states: Mapping[Key, PartitionState]) -> None:
        self.accepted.append((at, {key: state.end or 0 for key, state in states.items()}))

    def look(self, at: float, states: Mapping[Key, PartitionState]) -> int:
        """The number of records not copied yet. Raises ReconcilerError if it is unknown."""
        left = uncopied(states)
        waiting = [
            when
            for when, ends in self.accepted
            if any((states[key].position or 0) < end for key, end in ends.items() if key in states)
        ]
        age = max(0.0, at - waiting[0]) if waiting else 0.0
        self.worst = RecoveryPoint(max(left, self.worst.records), max(age, self.worst.age_s))
        return left


def uncopied(states: Mapping[Key, PartitionState]) -> int:
    """Offsets not copied yet. Raises ReconcilerError if an end is unknown."""
    unknown = [f"{key[0]}-{key[1]}" for key, state in states.items() if state.left is None]
    if unknown:
        raise ReconcilerError(
            f"how far {unknown[0]} is copied is not known: its leader does not answer",
            "Without it neither a recovery point nor the end of copying is known.",
            "Check with reconciler status ENV, and run the drill again.",
        )
    return sum(state.left or 0 for state in states.values())


def tally(written: Iterable[int], read: Iterable[int], strange: int, compared: tuple[int, int]) -> CanaryRecords:
    wrote, times = set(written), Counter(read)
    once = sum(times[number] == 1 for number in wrote)
    doubled = sum(times[number] > 1 for number in wrote)
    missing = len(wrote) - once - doubled
    return CanaryRecords(len(wrote), once, doubled, missing, strange, *compared)


def objectives_seen(
    declared: Objectives | None, recovery_s: float | None, point: RecoveryPoint | None
) -> tuple[ObjectiveSeen, ...]:
    """RTO and RPO in seconds: declared (None if not) and measured (None if the drill ended before)."""
    wanted = declared or Objectives()
    return (
        ObjectiveSeen("rto", _seconds(wanted.rto_ms), recovery_s),
        ObjectiveSeen("rpo", _seconds(wanted.rpo_ms), None if point is None else point.age_s),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
