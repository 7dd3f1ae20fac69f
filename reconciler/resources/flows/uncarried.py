"""Notes about topics a flow does not carry although its author may think so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.replication.policy import TopicSelector
from reconciler.text import first_of

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
        begun_there = [topic for topic in held.get(name, ()) if TopicRef(flow.source, topic) not in carried]
        odd = sorted(text for text in begun_there if _is_odd(topology, selectors[name], text))
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
        f" {flow.target}, as its name says (the cycle rule): {first_of(held, NAMED)}"
    )


def _left_out(flow: Flow, names: Sequence[str]) -> str:
    them = "1 topic" if len(names) == 1 else f"{len(names)} topics"
    return (
        f"flow {flow.name} does not carry {them} of {flow.source} that its expressions match: {first_of(names, NAMED)}."
        f" In a name, {flow.source} or {flow.target} before a separator is taken for a cluster that its records have"
        " been on (the cycle rule). Another naming.separator or another alias carries them"
    )
