"""Validates ``moved``: each flow that was renamed is declared once, and no two have one state. Topics are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.environment.parse.moved import first_names
from reconciler.environment.yaml.locations import Places, unknown_name
from reconciler.errors import Problem
from reconciler.model.environment.topology import Rename, Topology
from reconciler.resources.topics.diff_deletions import WAY


def check_moved(topology: Topology, renames: Sequence[Rename], places: Places) -> Iterator[Problem]:
    flows = [rename for rename in renames if rename.kind == "flow"]
    firsts = first_names(renames)
    passed_through = {rename.before for rename in flows}
    taken: dict[str, str] = {}
    for rename in renames:
        if rename.kind == "topic":
            yield _topic(rename, places)
    for rename in renames:
        if rename.kind == "environment" and rename.before not in topology.moved_from:
            yield _environment(topology, rename, places)
    for rename in flows:
        yield from _declared_before(topology, rename, places)
        if rename.name not in passed_through:
            subject = f"moved from {rename.before}"
            yield from unknown_name(places, topology.flows, rename.name, subject, places.of(rename, "flow"), "flows")
        if rename.name not in firsts:
            problem = f"flow {rename.name} was moved from {rename.before}, which leads back to itself"
            why = "Nobody could tell under which name its positions are kept"
            todo = "If the flow has its first name again, remove these entries; else go on with a name it never had"
            yield Problem("moved-in-circle", places.of(rename), problem, why, todo)
        elif rename.before in taken:
            problem = f"flow {rename.name} was moved from {rename.before}, and so was flow {taken[rename.before]}"
            why = "Two flows would copy with one position, and each would fence the other again and again"
            todo = "Keep the entry of one of the two"
            yield Problem("moved-twice", places.of(rename, "from"), problem, why, todo)
        taken.setdefault(rename.before, rename.name)


def _declared_before(topology: Topology, rename: Rename, places: Places) -> Iterator[Problem]:
    if rename.before in topology.flows or places.has("flows", rename.before):
        problem = f"flow {rename.name} was moved from {rename.before}, and a flow of that name is declared, too"
        why = f"Positions, offset map and transactional ids named {rename.before} can belong to one of the two"
        todo = f"Give the flow {rename.before} a name that no flow had, or remove the entry"
        yield Problem("moved-from-declared", places.of(rename, "from"), problem, why, todo)


def _environment(topology: Topology, rename: Rename, places: Places) -> Problem:
    problem = (
        f"environment {rename.name} was moved from {rename.before}, and this is environment {topology.environment}"
    )
    why = "The name of an environment is its folder's, and only what leads to this one says whose its flows were"
    todo = f"Write environment: {topology.environment}, from: OLD, or remove the entry"
    return Problem("moved-environment", places.of(rename), problem, why, todo)


def _topic(rename: Rename, places: Places) -> Problem:
    problem = f"topic {rename.name} cannot be moved from {rename.before}"
    why = (
        "A topic's name is what it is in Kafka, on every cluster and for every client: records and group offsets stay"
        f" under {rename.before}. An entry that stands in another file, or under another class, needs no moved"
    )
    todo = f"Remove the entry. {WAY}"
    return Problem("topic-not-renamed", places.of(rename), problem, why, todo)
