"""Proves that flows form no loops: no record comes back to a cluster that it has been on.

The search follows a record from cluster c0 and topic t hop by hop. Default and identity naming only put text before t,
so every rule along a path (patterns, exclusions, internal topics, the cycle rule) is a language of t. A loop exists
exactly if all these languages share a name and provenance does not cut the loop. Custom policies are simulated with
sample names.

If all flows between clusters that reach each other have default naming with one separator, a name contains its whole
path, and the policy's cycle rule refuses every return: no search is needed. This requires aliases without the
separator, so that they can be parsed out of a name.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from reconciler.resources.flows.names import automata
from reconciler.resources.flows.names.carried import FlowNaming
from reconciler.resources.flows.provenance_proof import FlowPath, Unproved, cut_everywhere, goes_round

MAX_STATES = 20_000  # for all questions between clusters that reach each other
MAX_WALKS = 50_000
SAMPLES = 200
FEW = 2_000
SOME = "..."
"""Placeholder for the topic of a loop without a known example."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a loop."""

    flow: str
    source: str
    before: str
    """The topic's name on ``source``; ``after``: on ``target``."""
    target: str
    after: str


@dataclass(frozen=True, slots=True)
class Loop:
    """``hops``: the path of one record. ``doubtful``: expressions without an automaton; if there are any, no example
    was found, topics of ``hops`` are ``SOME``, and the loop is possible but not certain."""

    flows: tuple[str, ...]
    hops: tuple[Hop, ...]
    doubtful: tuple[str, ...] = ()

    def __str__(self) -> str:
        way = [f"{self.hops[0].source}/{self.hops[0].before}"]
        way += [f"-({hop.flow})-> {hop.target}/{hop.after}" for hop in self.hops]
        return " ".join(way)


@dataclass(slots=True)
class _Search:
    """Loops found so far, and spent effort."""

    topics: Mapping[str, Sequence[str]]
    found: list[Loop] = field(default_factory=list)
    effort: automata.Effort = field(default_factory=lambda: automata.Effort(MAX_STATES))
    walks: int = 0
    gave_up: bool = False

    def known(self, flows: Iterable[str]) -> bool:
        """Whether a known loop uses one of these flows."""
        return not {flow for loop in self.found for flow in loop.flows}.isdisjoint(flows)


def find_loops(travels: Iterable[FlowNaming], topics: Mapping[str, Sequence[str]]) -> tuple[Loop | Unproved, ...]:
    """Loops in which a record can come back, each with an example; one of several loops that share a flow.

    ``topics``: declared topics of each cluster, preferred as examples. Raises as a custom policy.
    """
    answer: list[Loop | Unproved] = []
    for region in _regions(list(travels)):
        if _proved_by_names(region) or cut_everywhere(travel.flow for travel in region):
            continue
        search = _Search(topics)
        for start in sorted({travel.flow.source for travel in region}):
            _follow(search, region, start)
            _simulate(search, region, start)
        answer += search.found
        if search.gave_up:
            answer.append(Unproved(tuple(sorted(travel.flow.name for travel in region))))
    return tuple(answer)


def _regions(travels: Sequence[FlowNaming]) -> Iterator[list[FlowNaming]]:
    """Flows within strongly connected components of clusters; other flows close no loop."""
    targets: dict[str, set[str]] = {}
    for travel in travels:
        targets.setdefault(travel.flow.source, set()).add(travel.flow.target)
    reach = {cluster: automata.reached(cluster, targets) for cluster in targets}
    done: set[str] = set()
    for cluster in sorted(targets):
        members = {other for other in reach[cluster] if cluster in reach.get(other, ())}
        if cluster in done or not members:
            continue
        done |= members
        inside = [travel for travel in travels if {travel.flow.source, travel.flow.target} <= members]
        yield sorted(inside, key=lambda travel: travel.flow.name)


def _proved_by_names(region: Sequence[FlowNaming]) -> bool:
    separators = {travel.flow.naming.separator for travel in region}
    if len(separators) > 1 or any(travel.flow.naming.policy != "default" for travel in region):
        return False
    separator = separators.pop()
    aliases = {travel.flow.source for travel in region}
    return all((alias + separator).index(separator) == len(alias) for alias in aliases)


def _follow(search: _Search, region: Sequence[FlowNaming], start: str) -> None:
    """Extends paths of distinct clusters from ``start``, short ones first, and notes paths back to ``start``.

    A path through a known loop is not followed, because the user must remove that loop first.
    """
    # Short paths first, so that the loop that is reported is the shortest: it is the easiest to check.
    waiting = deque([FlowPath(start)])
    while waiting and not search.gave_up:
        path = waiting.popleft()
        for travel in region:
            flow = travel.flow
            if flow.source != path.here or (path.visits(flow.target) and flow.target != start):
                continue
            for longer in (path.over(travel, renaming) for renaming in travel.renamings):
                if search.known(longer.flows):
                    continue
                if flow.target == start:
                    _close(search, longer)
                elif _candidates(search, longer, 1):
                    waiting.append(longer)


def _candidates(search: _Search, path: FlowPath, count: int) -> list[str]:
    """First names that pass all known rules of the path."""
    try:
        return list(islice(path.names(search.effort), count))
    except automata.UndecidedError:
        search.gave_up = True
        return []


def _close(search: _Search, path: FlowPath) -> None:
    """Notes the loop along ``path``, if some topic really comes back over it, or if no rule excludes that."""
    travels, doubtful = path.travels, path.inexact
    if not goes_round([travel.flow for travel in travels]):
        return
    candidates = _candidates(search, path, SAMPLES if doubtful else 1)
    if not candidates:
        return
    declared = search.topics.get(path.origin, ())
    # All names that pass the known rules, if they are few enough to try each.
    whole = None
    if doubtful:
        with suppress(automata.UndecidedError):
            whole = automata.every_name(automata.Intersection(path.rules), FEW, path.longest)
    for topic in (*declared, *(candidates if whole is None else whole)):
        hops = _walk(travels, topic)
        if hops:
            _note(search, Loop(path.flows, hops))
            return
    if doubtful and whole is None:  # else the real rules keep every name there is
        ends = ((travel.flow.name, travel.flow.source, travel.flow.target) for travel in travels)
        hops = tuple(Hop(flow, source, SOME, target, SOME) for flow, source, target in ends)
        _note(search, Loop(path.flows, hops, doubtful))


def _note(search: _Search, loop: Loop) -> None:
    if not search.known(loop.flows):
        search.found.append(loop)


def _walk(travels: Sequence[FlowNaming], topic: str) -> tuple[Hop, ...]:
    """Hops of one topic by the real rules; empty if a flow does not carry it."""
    name = topic
    for travel in travels:
        if len(name) > automata.MAX_NAME or travel.selector.why_not(name) is not None:
            return ()
        name = travel.selector.remote_name(name)
    return _hops(travels, topic) if len(name) <= automata.MAX_NAME else ()


def _hops(travels: Sequence[FlowNaming], topic: str) -> tuple[Hop, ...]:
    hops = []
    for travel in travels:
        after = travel.selector.remote_name(topic)
        hops.append(Hop(travel.flow.name, travel.flow.source, topic, travel.flow.target, after))
        topic = after
    return tuple(hops)


def _simulate(search: _Search, region: Sequence[FlowNaming], start: str) -> None:
    """Follows sample names from ``start`` along paths with a custom policy."""
    if not any(travel.custom for travel in region):
        return
    # Declared topics of the cluster, then short names its flows could carry.
    samples = dict.fromkeys(islice(search.topics.get(start, ()), SAMPLES))
    for travel in region:
        with suppress(automata.UndecidedError):
            samples |= dict.fromkeys(islice(automata.names(travel.matching), 5))
    waiting: deque[tuple[str, str, str, tuple[FlowNaming, ...]]] = deque((start, topic, topic, ()) for topic in samples)
    while waiting:
        here, topic, name, path = waiting.popleft()
        visited = {start, *(travel.flow.target for travel in path)}
        for travel in region:
            target = travel.flow.target
            back = target == start
            if travel.flow.source != here or (target in visited and not back) or travel.selector.why_not(name):
                continue
            way = (*path, travel)
            search.walks += 1
            if search.walks > MAX_WALKS:
                search.gave_up = True
                return
            if not back:
                waiting.append((target, topic, travel.selector.remote_name(name), way))
            elif any(each.custom for each in way):
                _note(search, Loop(tuple(each.flow.name for each in way), _hops(way, topic)))
