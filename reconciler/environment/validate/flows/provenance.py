"""Validates flows with provenance: names that stay, no record on two paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.replication.policy import policy_word
from reconciler.resources.flows.names.automata import UndecidedError, both, shortest
from reconciler.resources.flows.names.carried import FlowNaming
from reconciler.resources.flows.provenance_proof import Doubled, Undecided, find_doubled


def check_provenance(topology: Topology, travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    for flow in topology.flows.values():
        if flow.provenance is not None and flow.naming.policy != "identity":
            problem = f"flow {flow.name}: provenance with naming policy {policy_word(flow.naming.policy)}"
            why = "It is for names that stay; default names already say where records have been"
            todo = "Write naming: {policy: identity}, or remove provenance"
            yield Problem("provenance-naming", places.of(flow, "provenance"), problem, why, todo)
    yield from _origins(travels, places)
    for value in find_doubled(travels.values()):
        yield _unproved(topology, places, value) if isinstance(value, Undecided) else _doubled(topology, places, value)


def _origins(travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """An offset is translated over the records of two clusters; those of a third would be skipped silently."""
    kept = [travel for travel in travels.values() if travel.flow.provenance is not None]
    for travel, other in product((travel for travel in kept if travel.flow.groups.sync_offsets), kept):
        flow, third = travel.flow, other.flow
        pair = (flow.source, flow.target)
        if third.target not in pair or third.source in pair or not _meet(travel, other):
            continue
        yield Problem(
            "offsets-of-three-clusters",
            places.of(flow, "groups", "sync_offsets"),
            f"flow {flow.name}: sync_offsets, but {third.source} writes to the same topics by {third.name}",
            f"A group's offset says what it has read of {flow.source} and {flow.target}; records of {third.source} "
            "could be skipped",
            "Write sync_offsets: false and move groups with reconciler failover, which warns, or make their topics "
            "disjoint",
        )


def _meet(travel: FlowNaming, other: FlowNaming) -> bool:
    """Whether both may bring records to one topic; yes where nobody can tell."""
    if travel.custom or other.custom:
        return True
    try:
        return shortest(both(travel.arriving, other.arriving)) is not None
    except UndecidedError:
        return True


def _unproved(topology: Topology, places: Places, undecided: Undecided) -> Problem:
    flow = topology.flows[min(undecided.flows)]
    problem = f"no proof that no record arrives twice over the flows {', '.join(undecided.flows)}"
    why = "The paths or expressions are too many to follow all of them, or a custom naming policy is among the flows"
    todo = "Use provenance: local on all of them, or simpler expressions"
    return Problem("records-doubled-unproved", places.of(flow, "provenance"), problem, why, todo)


def _doubled(topology: Topology, places: Places, doubled: Doubled) -> Problem:
    name, other = (", then ".join(way) for way in doubled.ways)
    said, doubt = f"records of {doubled.origin}/{doubled.topic} would", ""
    if doubled.doubtful:  # the name is of a wider rule, and nothing has tried the expressions on it
        said, doubt = f"records of {doubled.origin} may", f" (no proof covers {', '.join(doubled.doubtful)})"
    return Problem(
        "records-doubled",
        places.of(topology.flows[doubled.ways[1][-1]], "provenance"),
        f"{said} arrive on {doubled.target} twice: by {name}, and by {other}{doubt}",
        "Provenance keeps a record from coming back, not from coming on two ways",
        "Use provenance: local, so that each record travels straight from where it was written, or remove a flow",
    )
