"""Proves over the whole flow graph that with provenance no record arrives twice.

At run time, a flow with provenance carries no record to a cluster in its header, and none that has been on its source
before; with ``local`` only records without a header. A loop in which all flows have provenance is cut, since each of
its clusters is in the header; ``goes_round`` decides on others. It remains to prove that two paths never lead the same
record to the same topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from reconciler.model.environment.flow_settings import Carry
from reconciler.model.environment.topology import Flow
from reconciler.resources.flows.names import automata
from reconciler.resources.flows.names.carried import FlowNaming, Renaming
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
class Unproved:
    """The search was given up, or a custom naming policy prevents it."""

    flows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlowPath:
    """A way of records from their origin over several flows."""

    origin: str
    travels: tuple[FlowNaming, ...] = ()
    prefix: str = ""
    """What the flows put before a topic's first name."""
    rules: tuple[automata.Language, ...] = ()
    """Languages of first names, all of which a topic that travels this path is in."""

    @property
    def here(self) -> str:
        return self.travels[-1].flow.target if self.travels else self.origin

    @property
    def flows(self) -> tuple[str, ...]:
        return tuple(travel.flow.name for travel in self.travels)

    @property
    def marked(self) -> bool:
        """Whether a flow on the path writes the header."""
        return any(travel.flow.provenance is not None for travel in self.travels)

    @property
    def inexact(self) -> tuple[str, ...]:
        return tuple(text for travel in self.travels for text in travel.inexact)

    @property
    def longest(self) -> int:
        """The length of the longest first name: the last flow has to be able to write it."""
        return automata.MAX_NAME - len(self.prefix)

    def visits(self, cluster: str) -> bool:
        return cluster == self.origin or any(travel.flow.target == cluster for travel in self.travels)

    def over(self, travel: FlowNaming, renaming: Renaming) -> FlowPath:
        """The path with one more flow."""
        rules = (*self.rules, automata.After(self.prefix, renaming.when))
        return FlowPath(self.origin, (*self.travels, travel), renaming.prefix + self.prefix, rules)

    def names(self, effort: automata.Effort, *rules: automata.Language) -> Iterator[str]:
        """First names that travel this path and are in ``rules``, too. Raises UndecidedError."""
        return automata.names(automata.Intersection((*self.rules, *rules)), self.longest, effort)


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


def find_doubled(travels: Iterable[FlowNaming]) -> tuple[Doubled | Unproved, ...]:
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
        return (Unproved(tuple(sorted(asked))),)
    by_source = grouped((travel.flow.source, travel) for travel in all_of_them)
    search = _Search(by_source)
    try:
        for origin in sorted(by_source):
            # All paths of a record from `origin`, short ones first; a second path to a topic is not
            # extended.
            arrived: dict[tuple[str, str], list[FlowPath]] = {}
            waiting = deque([FlowPath(origin)])
            while waiting:
                path = waiting.popleft()
                for longer in _longer(search, path):
                    before = arrived.setdefault((longer.here, longer.prefix), [])
                    doubled = [_doubled(search, other, longer) for other in before]
                    if not any(doubled):
                        waiting.append(longer)
                    before.append(longer)
    except automata.UndecidedError:
        return (*search.found.values(), Unproved(tuple(sorted(asked))))
    return tuple(search.found.values())


def _longer(search: _Search, path: FlowPath) -> Iterable[FlowPath]:
    """Paths extended by one flow to an unvisited cluster, with at least one name. A flow for local records extends no
    marked path."""
    for travel in search.by_source.get(path.here, ()):
        flow = travel.flow
        if path.visits(flow.target) or (flow.provenance is Carry.LOCAL and path.marked):
            continue
        for renaming in travel.renamings:
            search.paths += 1
            if search.paths > MAX_PATHS:
                raise automata.UndecidedError
            longer = path.over(travel, renaming)
            if next(longer.names(search.effort), None) is not None:
                yield longer


def _doubled(search: _Search, path: FlowPath, other: FlowPath) -> bool:
    """Whether a name travels both paths to one cluster; a finding if the last flows write the same topic."""
    name = next(path.names(search.effort, *other.rules), None)
    if name is None:
        return False
    left, right = path.travels[-1].flow, other.travels[-1].flow
    if left is not right and may_share(left, right):
        first, second = sorted((left.name, right.name))
        doubtful = tuple(dict.fromkeys((*path.inexact, *other.inexact)))
        doubled = Doubled(path.origin, name, path.here, (path.flows, other.flows), doubtful)
        search.found.setdefault((first, second), doubled)
    return True
