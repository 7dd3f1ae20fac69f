"""``moved``: renamed flows and environments, and the names under which their state continues. Topics are refused."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong
from reconciler.environment.yaml.locations import Places, unknown_name
from reconciler.errors import Problem
from reconciler.model.environment.topology import Flow, Rename, Topology
from reconciler.resources.topics.diff_deletions import WAY

KINDS = ("flow", "topic", "environment")


def build_rename(reading: Reading) -> Rename:
    """An entry of ``moved``: one kind of thing, its name now, and its name before."""
    given = [kind for kind in KINDS if reading.value(kind, default="")]
    if len(given) != 1:
        problem = f"the entry names {' and '.join(given) or 'nothing that was renamed'}"
        reading.wrong((), Wrong("bad-value", problem, "One thing was renamed", "Write flow: NEW, from: OLD"))
        return Rename("", "", "", reading.place.where)
    name = str(reading.value(given[0], default=""))
    return Rename(given[0], name, str(reading.value("from", default="")), reading.place.where)


def _first_names(renames: Iterable[Rename]) -> Mapping[str, str]:
    """Present name of a flow -> its first name. Circular renames are left out, since ``check_moved`` refuses them."""
    before = {rename.name: rename.before for rename in renames if rename.kind == "flow"}
    firsts: dict[str, str] = {}
    for name in before:
        first, passed = name, {name}
        while first in before and before[first] not in passed:
            first = before[first]
            passed.add(first)
        if first not in before:
            firsts[name] = first
    return firsts


def earlier_names(environment: str, renames: Iterable[Rename]) -> tuple[str, ...]:
    """Former names of ``environment``, the last one first. Stops at a circle."""
    before = {rename.name: rename.before for rename in renames if rename.kind == "environment"}
    names = [environment]
    while (name := before.get(names[-1])) is not None and name not in names:
        names.append(name)
    return tuple(names[1:])


def with_first_names(flows: Iterable[Flow], renames: Iterable[Rename]) -> list[Flow]:
    firsts = _first_names(renames)
    return [replace(flow, moved_from=firsts[flow.name]) if flow.name in firsts else flow for flow in flows]


def check_moved(topology: Topology, renames: Sequence[Rename], places: Places) -> Iterator[Problem]:
    """Entries of ``moved`` that would give one flow's positions to two, or to none."""
    firsts = _first_names(renames)
    passed_through = {rename.before for rename in renames if rename.kind == "flow"}
    taken: dict[str, str] = {}
    for rename in renames:
        name, before = rename.name, rename.before
        if rename.kind == "topic":
            problem = f"topic {name} cannot be moved from {before}"
            why = (
                "A topic's name is what it is in Kafka, on every cluster and for every client: records and group "
                f"offsets stay under {before}. An entry that goes to another file, or to another class, needs no "
                "moved"
            )
            yield Problem("topic-not-renamed", places.of(rename), problem, why, f"Remove the entry. {WAY}")
        elif rename.kind == "environment":
            if before not in topology.moved_from:
                problem = f"environment {name} was moved from {before}, and this is environment {topology.environment}"
                why = (
                    "The name of an environment is its folder's, and only what leads to this one says whose its flows "
                    "were"
                )
                todo = f"Write environment: {topology.environment}, from: OLD, or remove the entry"
                yield Problem("moved-environment", places.of(rename), problem, why, todo)
        else:
            if before in topology.flows or places.has("flows", before):
                problem = f"flow {name} was moved from {before}, and a flow of that name is declared, too"
                why = f"Positions, offset map and transactional ids named {before} can belong to one of the two"
                todo = f"Give the flow {before} a name that no flow had, or remove the entry"
                yield Problem("moved-from-declared", places.of(rename, "from"), problem, why, todo)
            if name not in passed_through:  # of A -> B -> C only the last name is a flow's
                where = places.of(rename, "flow")
                yield from unknown_name(places, topology.flows, name, f"moved from {before}", where, "flows")
            # A circle has no first name, and positions lie under the first name of a flow.
            if name not in firsts:
                problem = f"flow {name} was moved from {before}, which leads back to itself"
                why = "It would be unknown under which name its positions are kept"
                todo = (
                    "If the flow has its first name again, remove these entries; else continue with a name it never had"
                )
                yield Problem("moved-in-circle", places.of(rename), problem, why, todo)
            elif before in taken:
                problem = f"flow {name} was moved from {before}, and so was flow {taken[before]}"
                why = "Two flows would copy with one position, and keep fencing each other"
                todo = "Keep the entry of one of the two"
                yield Problem("moved-twice", places.of(rename, "from"), problem, why, todo)
            taken.setdefault(before, name)
