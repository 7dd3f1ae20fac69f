"""Proves over the whole flow graph that with provenance no record arrives twice.

At run time, a flow with provenance carries no record to a cluster in its header, and none that has been on its source
before; with ``local`` only records without a header. A loop in which all flows have provenance is cut, since each of
its clusters is in the header; ``goes_round`` decides on others. It remains to prove that two paths never lead the same
record to the same topic.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from reconciler.model.environment.flow_settings import Carry
from reconciler.model.environment.topology import Flow
from reconciler.resources.flows.names import automata
from reconciler.resources.flows.names.carried import FlowNaming
from reconciler.text import grouped

MAX_STATES = 40_000
MAX_PATHS = 20_000


@dataclass(frozen=True, slots=True)
class Doubled:
    """Records that arrive twice."""

    origin: str
    """Where they were written."""
    topic: str
    target: str
    ways: tuple[tuple[str, ...], tuple[str, ...]]
    """The two ways, as names of flows."""
    doubtful: tuple[str, ...] = ()
    """Expressions that no proof covers; empty if it is certain."""


@dataclass(frozen=True, slots=True)
class Undecided:
    """The search was given up, or a custom naming policy prevents it."""

    flows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Path:
    """A way of records from their origin over several flows."""

    origin: str
    travels: tuple[FlowNaming, ...] = ()
    prefix: str = ""
    rules: tuple[automata.Language, ...] = ()
    """Languages of first topic names that travel this path."""
    marked: bool = False
    """A flow on the path writes the header."""

    @property
    def here(self) -> str:
        return self.travels[-1].flow.target if self.travels else self.origin

    @property
    def flows(self) -> tuple[str, ...]:
        return tuple(travel.flow.name for travel in self.travels)


@dataclass(slots=True)
class _Search:
    by_source: Mapping[str, Sequence[FlowNaming]]
    found: dict[tuple[str, str], Doubled] = field(default_factory=dict)
    effort: automata.Effort = field(default_factory=lambda: automata.Effort(MAX_STATES))
    paths: int = 0


def cut_everywhere(flows: Iterable[Flow]) -> bool:
    """Whether provenance cuts every loop of these flows, for any expressions."""
    return all(flow.provenance is not None for flow in flows)


def goes_round(flows: Sequence[Flow]) -> bool:
    """Whether a record from the source of the first flow passes all of them, including the last."""
    path: tuple[str, ...] = ()
    for flow in flows:
        if flow.provenance is None:
            continue
        if path and (flow.provenance is Carry.LOCAL or flow.source in path or flow.target in path):
            return False
        path = (*path, flow.source)
    return True


def may_share(left: Flow, right: Flow) -> bool:
    """Whether both flows may write one topic, since headers tell their records apart, unless a record comes twice."""
    return left.provenance is not None and right.provenance is not None


def find_doubled(travels: Iterable[FlowNaming]) -> tuple[Doubled | Undecided, ...]:
    """One example for each pair of flows with provenance that bring the same record to the same topic."""
    all_of_them = sorted(travels, key=lambda travel: travel.flow.name)
    # Flows with provenance that share a target.
    pairs = (
        (left.flow, right.flow) for left, right in combinations(all_of_them, 2) if left.flow.target == right.flow.target
    )
    asked = {flow.name for left, right in pairs if may_share(left, right) for flow in (left, right)}
    if not asked:
        return ()
    if any(travel.custom for travel in all_of_them):
        return (Undecided(tuple(sorted(asked))),)
    by_source = grouped((travel.flow.source, travel) for travel in all_of_them)
    search = _Search(by_source)
    try:
        for origin in sorted(by_source):
            # All paths of a record from `origin`, short ones first; a second path to a topic is not
            # extended.
            arrived: dict[tuple[str, str], list[_Path]] = {}
            waiting = deque([_Path(origin)])
            while waiting:
                path = waiting.popleft()
                for longer in _longer(search, path):
                    before = arrived.setdefault((longer.here, longer.prefix), [])
                    doubled = [_doubled(search, other, longer) for other in before]
                    if not any(doubled):
                        waiting.append(longer)
                    before.append(longer)
    except automata.UndecidedError:
        return (*search.found.values(), Undecided(tuple(sorted(asked))))
    return tuple(search.found.values())


def _longer(search: _Search, path: _Path) -> Iterable[_Path]:
    """Paths extended by one flow to an unvisited cluster, with at least one name. A flow for local records extends no
    marked path."""
    visited = {path.origin, *(travel.flow.target for travel in path.travels)}
    for travel in search.by_source.get(path.here, ()):
        flow = travel.flow
        if flow.target in visited or (flow.provenance is Carry.LOCAL and path.marked):
            continue
        for renaming in travel.renamings:
            search.paths += 1
            if search.paths > MAX_PATHS:
                raise automata.UndecidedError
            rules = (*path.rules, automata.After(path.prefix, renaming.when))
            prefix = renaming.prefix + path.prefix
            marked = path.marked or flow.provenance is not None
            longer = _Path(path.origin, (*path.travels, travel), prefix, rules, marked)
            if _example(search, rules, prefix) is not None:
                yield longer


def _doubled(search: _Search, path: _Path, other: _Path) -> bool:
    """Whether a name travels both paths to one cluster; a finding if the last flows write the same topic."""
    name = _example(search, (*path.rules, *other.rules), path.prefix)
    if name is None:
        return False
    left, right = path.travels[-1].flow, other.travels[-1].flow
    if left is not right and may_share(left, right):
        doubtful = tuple(text for way in (path, other) for travel in way.travels for text in travel.inexact)
        first, second = sorted((left.name, right.name))
        doubled = Doubled(path.origin, name, path.here, (path.flows, other.flows), tuple(dict.fromkeys(doubtful)))
        search.found.setdefault((first, second), doubled)
    return True


def _example(search: _Search, rules: tuple[automata.Language, ...], prefix: str) -> str | None:
    return next(automata.names(automata.Intersection(rules), automata.MAX_NAME - len(prefix), search.effort), None)
