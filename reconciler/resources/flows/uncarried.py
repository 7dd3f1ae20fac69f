"""What a flow does not carry although its author may think so: all of it, or topics whose names tell of an alias.

Border: words for a plan's notes; which names are held back, and by which rule, is ``routing``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from reconciler.topology import Flow, TopicRef, Topology
from replication.policy import TopicSelector

NAMED = 5


def idle_names(
    topology: Topology,
    selectors: Mapping[str, TopicSelector],
    carried: Mapping[TopicRef, Collection[str]],
    held: Mapping[str, Collection[str]],
) -> Iterator[str]:
    """``carried``: remote topic -> the flows that make it. ``held``: flow -> names the cycle rule keeps from it."""
    carrying = {flow for flows in carried.values() for flow in flows}
    for name in sorted(selectors):
        flow = topology.flows[name]
        begun_there = [one for one in held.get(name, ()) if TopicRef(flow.source, one) not in carried]
        odd = sorted(one for one in begun_there if _is_odd(topology, selectors[name], one))
        if odd:
            yield _left_out(flow, odd)
        elif name not in carrying:
            yield _none_carried(flow, sorted(held.get(name, ())))


def _is_odd(topology: Topology, selector: TopicSelector, name: str) -> bool:
    """Not of a mirror that this topology does not know: those make names that begin with an alias, and nobody declares
    them."""
    declared = topology.topics.get(name)
    here = declared is not None and selector.source_alias in declared.clusters
    return here or selector.policy.topic_source(name) not in topology.clusters


def _none_carried(flow: Flow, held: Sequence[str]) -> str:
    if not held:
        return f"flow {flow.name} matches no topic on {flow.source} yet"
    return (
        f"flow {flow.name} carries no topic of {flow.source} yet: what its expressions match there has been on"
        f" {flow.target}, as its name says (the cycle rule): {_first(held)}"
    )


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _left_out(flow: Flow, names: Sequence[str]) -> str:
    them = "1 topic" if len(names) == 1 else f"{len(names)} topics"
    return (
        f"flow {flow.name} does not carry {them} of {flow.source} that its expressions match: {_first(names)}."
        f" In a name, {flow.source} or {flow.target} before a separator is taken for a cluster that its records have"
        " been on (the cycle rule). Another naming.separator or another alias carries them"
    )
