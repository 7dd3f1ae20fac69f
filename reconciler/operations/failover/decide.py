"""Failover and failback as decisions: which flows are meant, what stands in the way, which offsets may be set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from reconciler.counts import counted
from reconciler.errors import ReconcilerError, Unknown
from reconciler.failovers import (
    Check,
    GroupMove,
    GroupOffset,
    Key,
    Leg,
    Level,
    Move,
    Seen,
    Step,
    StepResult,
    Unmapped,
    Way,
)
from reconciler.topology import Flow, Topology
from replication.groups import idle, may_write

_MARK = "failover to "
_STARTED = "; started for it: "
ALIVE = ("starting", "running")


@dataclass(frozen=True, slots=True)
class FailoverWish:
    """``unplanned``: go on although the origin does not answer. ``accept_loss``: go on although records of the origin
    are not copied. ``drain_s``: how long the flow may take to reach the origin's end of now."""

    unplanned: bool = False
    accept_loss: bool = False
    drain_s: float = 60.0


def pause_reason(move: Move, starts: str) -> str:
    """Why a flow is paused, for people and for the failback. ``starts``: the flow that this failover sets going."""
    return f"{_MARK}{move.destination}{_STARTED + starts if starts else ''}"


def ours(reason: str) -> bool:
    """Whether a failover paused it."""
    return reason.startswith(_MARK)


def started_by(reason: str, flow: str) -> bool:
    """Whether the failover that paused with this reason set ``flow`` going."""
    return ours(reason) and reason.endswith(f"{_STARTED}{flow}")


def move_of(topology: Topology, way: Way, name: str) -> Move:
    """Raises ReconcilerError for a flow that is not declared."""
    flow = topology.flows.get(name)
    if flow is None:
        raise ReconcilerError(
            f"environment {topology.environment} has no flow {name}",
            "There is nothing to move consumers along.",
            f"Its flows: {', '.join(topology.flows) or 'none'}.",
        )
    back, note = _back(topology, flow)
    note = note or _third(topology, flow)
    legs = (Leg(flow.name, way is Way.FAILOVER), *([Leg(back, way is Way.FAILBACK)] if back else []))
    match way:
        case Way.FAILOVER:
            return Move(way, name, flow.source, flow.target, legs, drained=name, started=back, note=note)
        case Way.FAILBACK:
            return Move(way, name, flow.target, flow.source, legs, drained=back, started=name, note=note)


def _back(topology: Topology, flow: Flow) -> tuple[str, str]:
    """The flow that carries the same topics the other way, or why there is none."""
    others = [o for o in topology.flows.values() if (o.source, o.target) == (flow.target, flow.source)]
    if len(others) > 1:
        others = [o for o in others if set(o.topics) & set(flow.topics)] or others
    if len(others) > 1:
        names = ", ".join(o.name for o in others)
        return "", f"several flows go from {flow.target} to {flow.source} ({names}): none is taken for the way back"
    if not others:
        return (
            "",
            f"no flow is declared from {flow.target} to {flow.source}: what is written on {flow.target} stays there",
        )
    return others[0].name, ""


def _third(topology: Topology, flow: Flow) -> str:
    """Where more than two clusters write the same topics, offsets of two of them are not all there is."""
    both = {flow.source, flow.target}
    into = [other for other in topology.flows.values() if other.provenance is not None and other.target in both]
    if flow.provenance is None or not (third := sorted({other.source for other in into} - both)):
        return ""
    return f"{', '.join(third)} may write to the same topics: a group may miss or read again records from there"


def checks_of(seen: Seen, wish: FailoverWish) -> tuple[Check, ...]:
    """Every finding, the worst first."""
    order = list(Level)[::-1]
    found = (*_origin(seen, wish), *_flow(seen, wish), *_groups(seen))
    return tuple(sorted(found, key=lambda check: order.index(check.level)))


def _origin(seen: Seen, wish: FailoverWish) -> Iterator[Check]:
    move = seen.move
    if seen.reachable:
        yield Check("origin", Level.FINE, f"{move.origin} answers: offsets are translated exactly, records are drained")
    else:
        level = Level.WARNS if wish.unplanned else Level.STOPS
        text = (
            f"{move.origin} does not answer, groups are set as their last checkpoints tell: {seen.unreachable_because}"
        )
        todo = f"If {move.origin} is lost, pass --unplanned. If only this machine cannot reach it, run this elsewhere."
        yield Check("origin", level, text, "" if wish.unplanned else todo)
    if move.note:
        yield Check("way-back", Level.WARNS, move.note)


def _flow(seen: Seen, wish: FailoverWish) -> Iterator[Check]:
    flow, move = seen.flow, seen.move
    if flow is None:
        return
    name = move.drained
    if isinstance(flow.partitions, Unknown):
        yield Check("positions", Level.STOPS, f"positions of {name} are not known: {flow.partitions.error}")
    mine = ours(flow.pause_reason)
    runs = flow.job in ALIVE
    if flow.paused_by and not mine:
        why = f": {flow.pause_reason}" if flow.pause_reason else ""
        yield Check("paused", Level.WARNS, f"{name} was paused by {flow.paused_by}{why}")
    elif not runs and not mine:
        yield Check("job", Level.WARNS, f"the mirror of {name} is {flow.job}")
    for condition in flow.conditions:
        yield Check("condition", Level.WARNS, f"{name}: {condition}")
    if not seen.reachable:
        lag = "not known" if flow.lag is None else counted(flow.lag, "offset")
        yield Check(
            "loss", Level.WARNS, f"records of {move.origin} that may be lost: the mirror's last known lag was {lag}"
        )
        return
    if flow.undecided:
        text = f"open transactions on {move.origin} hold back {counted(flow.undecided, 'offset')} until they end"
        yield Check("transactions", Level.WARNS, text, "End or abort them first (kafka-transactions.sh find-hanging)")
    if flow.left and (flow.paused_by or not runs):
        level = Level.WARNS if wish.accept_loss or mine else Level.STOPS
        text = f"{flow.left} offsets on {move.origin} are not copied and nothing copies them: {name} does not run"
        todo = f"Let {name} run until it has caught up, or pass --accept-loss to leave them on {move.origin}"
        yield Check("lag", level, text, "" if level is Level.WARNS else todo)
    elif flow.left is not None:
        yield Check("lag", Level.FINE, f"{name} has {flow.left} offsets to copy")


def _groups(seen: Seen) -> Iterator[Check]:
    move = seen.move
    for one in seen.groups:
        if one.origin.members:
            text = f"group {one.group} has {one.origin.members} members on {move.origin}: what they read from now on "
            text += "is read again"
            yield Check("members-origin", Level.WARNS, text, "Stop them first for exactly no record read again")
        if not idle(one.destination.state):
            text = f"group {one.group} has members on {move.destination}: its offsets are left alone"
            yield Check("members-destination", Level.WARNS, text, "Stop them and run this again to have them set")
    if seen.unmapped is not None:
        yield _unmapped(move, seen.unmapped)
    for group, why in sorted(seen.unsupported.items()):
        yield Check("unsupported", Level.WARNS, f"group {group} {why}")
    if not seen.groups:
        yield Check("groups", Level.WARNS, f"no group has offsets on topics of {move.flow}: nobody is moved")


def _unmapped(move: Move, found: Unmapped) -> Check:
    topics, here = _some(found.topics), move.destination
    text = f"how far groups had read copies of {topics} on {move.origin} is not known without it: what they read of "
    text += f"{here}'s own topics goes on where they stood on {here}"
    if found.without:
        text += f", and by auto.offset.reset where they have never been: {_some(found.without)}"
    todo = f"These records are not in the counts below. Set those groups on {topics} by hand where that matters"
    return Check("copies", Level.WARNS, text, todo)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def due(groups: tuple[GroupMove, ...]) -> Mapping[str, tuple[GroupOffset, ...]]:
    """Which offsets are set: never backwards, never under members, only where a safe offset is known."""
    return {
        one.group: offsets
        for one in groups
        if idle(one.destination.state)
        and (
            offsets := tuple(
                o
                for o in one.offsets
                if o.translated.offset is not None and may_write(o.translated.offset, o.before, rewound=False)
            )
        )
    }


def written(group: GroupMove, refused: Mapping[Key, str]) -> GroupMove:
    """The group once ``due`` was carried out; ``refused``: partition of the destination -> why it was not set."""
    mine = due((group,)).get(group.group, ())
    offsets = tuple(
        replace(o, after=o.translated.offset)
        if o in mine and o.destination not in refused
        else replace(o, after=o.before)
        for o in group.offsets
    )
    moved = replace(group, offsets=offsets)
    return replace(moved, note="" if moved.exact else _why_not(moved, refused))


def offsets_planned(groups: Sequence[GroupMove], destination: str) -> Step:
    """What the step *offsets* would do; a group that is not as it should be is told also where nothing can be done."""
    wanted, wrong = due(tuple(groups)), otherwise(groups)
    if wanted:
        offsets = counted(sum(map(len, wanted.values())), "offset")
        return Step("offsets", StepResult.PLANNED, f"set {offsets} of {counted(len(wanted), 'group')} on {destination}")
    return Step("offsets", StepResult.ALREADY, f"no offset can be set{wrong}" if wrong else "all offsets are set")


def otherwise(groups: Sequence[GroupMove]) -> str:
    """``; 4 groups not as they should be: ...``, or empty."""
    wrong = [one for one in groups if one.note]
    if not wrong:
        return ""
    some = "; ".join(f"{one.group} ({one.note})" for one in wrong[:3])
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return f"; {counted(len(wrong), 'group')} not as they should be: {some}{more}"


def _why_not(group: GroupMove, refused: Mapping[Key, str]) -> str:
    if not idle(group.destination.state):
        return "it has members there"
    if refused:
        return min(refused.values())
    if any(one.missed for one in group.offsets):
        return "it was further there already: it has read there, or was set ahead; offsets are never set back"
    if any(one.after is None for one in group.offsets):
        return "no offset is known for some of its partitions"
    return next((one.translated.reason for one in group.offsets if one.translated.reason), "")


def least(offers: tuple[GroupOffset, ...]) -> tuple[GroupOffset, ...]:
    """One entry a destination partition: where two topics of the origin lead to one, the earlier offset, so that no
    record is missed."""
    found: dict[Key, GroupOffset] = {}
    for one in offers:
        known = found.get(one.destination)
        if known is None or _earlier(one, known):
            found[one.destination] = one
    return tuple(found.values())


def _earlier(one: GroupOffset, other: GroupOffset) -> bool:
    if one.translated.offset is None or other.translated.offset is None:
        return one.translated.offset is None
    return one.translated.offset < other.translated.offset
