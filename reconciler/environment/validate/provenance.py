"""What flows with provenance may be: names that stay, and no record on two ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from reconciler.errors import Problem, Where
from reconciler.languages import both
from reconciler.name_search import UndecidedError, shortest
from reconciler.places import Places
from reconciler.provenance_proof import Doubled, Undecided, find_doubled
from reconciler.topology import Flow, Topology
from reconciler.travels import Travel


def check_provenance(topology: Topology, travels: Mapping[str, Travel], places: Places) -> Iterator[Problem]:
    for flow in topology.flows.values():
        if flow.provenance is not None and flow.naming.policy != "identity":
            yield Problem(
                "provenance-naming",
                places.find("flows", flow.name, "provenance", or_else=flow.where),
                f"flow {flow.name}: provenance with naming policy {flow.naming.policy}",
                "It is for names that stay; default names tell by themselves where records have been",
                "Write naming: {policy: identity}, or remove provenance",
            )
    yield from _origins(travels, places)
    for found in find_doubled(travels.values()):
        yield _unproved(topology, places, found) if isinstance(found, Undecided) else _doubled(topology, places, found)


def _origins(travels: Mapping[str, Travel], places: Places) -> Iterator[Problem]:
    """An offset is translated over the records of two clusters; those of a third would be skipped without a word."""
    synced = (one for one in travels.values() if one.flow.provenance is not None and one.flow.groups.sync_offsets)
    for travel, other in product(synced, travels.values()):
        flow, third = travel.flow, other.flow
        pair = (flow.source, flow.target)
        if third.provenance is None or third.target not in pair or third.source in pair or not _meet(travel, other):
            continue
        yield Problem(
            "offsets-of-three-clusters",
            places.find("flows", flow.name, "groups", "sync_offsets", or_else=flow.where),
            f"flow {flow.name}: sync_offsets, but {third.source} writes to the same topics by {third.name}",
            f"A group's offset tells what it has read of {flow.source} and {flow.target}; records of {third.source} "
            "could be skipped",
            "Write sync_offsets: false and move groups with reconciler failover, which warns, or make their topics "
            "disjoint",
        )


def _meet(travel: Travel, other: Travel) -> bool:
    """Whether both may bring records to one topic; yes where nobody can tell."""
    if travel.custom or other.custom:
        return True
    try:
        return shortest(both(travel.arriving, other.arriving)) is not None
    except UndecidedError:
        return True


def _unproved(topology: Topology, places: Places, found: Undecided) -> Problem:
    flow = topology.flows[min(found.flows)]
    return Problem(
        "records-doubled-unproved",
        _at(places, flow),
        f"no proof that no record arrives twice over the flows {', '.join(found.flows)}",
        "The paths or expressions are too many to follow all of them, or a custom naming policy is among the flows",
        "Use provenance: local on all of them, or simpler expressions",
    )


def _doubled(topology: Topology, places: Places, found: Doubled) -> Problem:
    one, other = (", then ".join(way) for way in found.ways)
    doubt = f" (no proof is possible with {', '.join(found.doubtful)})" if found.doubtful else ""
    return Problem(
        "records-doubled",
        _at(places, topology.flows[found.ways[1][-1]]),
        f"records of {found.origin}/{found.topic} {'may' if doubt else 'would'} arrive on {found.target} twice: by "
        f"{one}, and by {other}{doubt}",
        "Provenance keeps a record from coming back, not from coming on two ways",
        "Use provenance: local, so that each record travels straight from where it was written, or remove a flow",
    )


def _at(places: Places, flow: Flow) -> Where:
    return places.find("flows", flow.name, "provenance", or_else=flow.where)
