"""Which topics and groups of the origin a failover cannot see: brokers hide them silently, so they are asked for by
name. What is hidden would be left behind as though it were not there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from reconciler.backends.clusters.groups import Side
from reconciler.engine.doctor.rights import GroupNeed, moved_groups
from reconciler.model.environment.topology import Flow
from reconciler.model.reports.failover import ConsumerMove, FailoverCheck, Key, Leg, Level
from reconciler.replication.policy import TopicSelector
from reconciler.text import first_of

SHOWN = 3


def hidden(
    move: ConsumerMove,
    sides: tuple[Side, Side],
    flows: Mapping[str, Flow],
    selectors: Mapping[str, TopicSelector],
    seen: Collection[str],
) -> Iterator[FailoverCheck]:
    """``sides``: origin and destination, both reachable. ``seen``: groups of the origin. Raises ClusterError."""
    origin, destination = sides
    wanted: set[str] = set()
    for leg in move.legs:
        state = flows[leg.flow].state_name
        copied = (destination if leg.forward else origin).positions(state)
        wanted.update(_topics(leg, copied, selectors[leg.flow]))
    if denied := origin.denied_topics(sorted(wanted)):
        names = first_of(denied, SHOWN)
        text = f"{origin.name} hides topics that were copied from the principal {origin.principal}: {names}"
        yield FailoverCheck("hidden-topics", Level.STOPS, f"{text}; groups that read them would be left behind", _TODO)
    for need in moved_groups(flows[move.flow]):
        if origin.is_denied_group(need.asked):
            yield _group(origin, need, seen)


_TODO = "The principal mirror lacks Read on each topic there. reconciler doctor ENV has the commands"


def _group(origin: Side, need: GroupNeed, seen: Collection[str]) -> FailoverCheck:
    speaker = origin.speaker
    text = f"principal {origin.principal} may not describe {need.words} on {origin.name}, which hides them silently"
    text += f"; {len(seen)} groups are seen there, and others would be left behind" if seen else "; no group is seen"
    todo = f"It lacks Describe on {need.resource.removeprefix('--')}. Allow it: "
    todo += speaker.acl_command("Describe", need.resource)
    return FailoverCheck("hidden-groups", Level.WARNS if seen else Level.STOPS, text, todo)


def _topics(leg: Leg, positions: Iterable[Key], selector: TopicSelector) -> Iterable[str]:
    """Topics of the origin by the positions of a flow at its target, which name what it has copied."""
    copies = {topic for topic, _ in positions}
    if not leg.forward:
        return copies
    names = {selector.policy.upstream_topic(topic) for topic in copies}
    return {name for name in names if name is not None and selector.why_not(name) is None}
