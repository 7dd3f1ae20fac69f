"""Validates that flows and declared topics do not collide on a topic name of one cluster.

The proof covers all names that flows could carry, not only declared ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.resources.flows.names.automata import MAX_NAME, Intersection, UndecidedError, every_name, names
from reconciler.resources.flows.names.carried import FlowNaming
from reconciler.resources.flows.provenance_proof import may_share
from reconciler.text import grouped

EXAMPLES, FEW = 200, 2_000
MAX_HOPS = 8


@dataclass(frozen=True, slots=True)
class Arrival:
    """A declared topic as it arrives on another cluster: its name there, and the flow that brings it."""

    cluster: str
    name: str
    """On ``cluster``; ``upstream``: on ``source``."""
    flow: str
    source: str
    upstream: str


def arrivals(topology: Topology, travels: Mapping[str, FlowNaming]) -> tuple[Arrival, ...]:
    """Every remote topic that flows make of the declared topics, over all hops. A loop ends at the first return."""
    by_source = grouped((travel.flow.source, travel) for _, travel in sorted(travels.items()))
    all_arrivals: list[Arrival] = []
    waiting: list[tuple[str, str, tuple[str, ...]]] = [
        (cluster, topic.name, (cluster,))
        for topic in (topology.topics.values() if by_source else ())
        for cluster in topic.clusters
    ]
    while waiting:
        cluster, name, path = waiting.pop()
        for travel in by_source.get(cluster, ()):
            target = travel.flow.target
            if target in path or len(path) > MAX_HOPS or travel.selector.why_not(name) is not None:
                continue
            remote = travel.selector.remote_name(name)
            all_arrivals.append(Arrival(target, remote, travel.flow.name, cluster, name))
            waiting.append((target, remote, (*path, target)))
    return tuple(sorted(all_arrivals, key=lambda it: (it.cluster, it.name, it.flow, it.upstream)))


def check_flows_apart(travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """No two flows may write one topic, unless provenance tells their records apart. One problem for each such topic,
    with all its flows."""
    by_target = grouped((travel.flow.target, travel) for _, travel in sorted(travels.items()))
    for target, arriving in sorted(by_target.items()):
        for flows, topic, certain in _meetings(arriving):
            together = [travel for travel in arriving if travel.flow.name in flows]
            wheres = {travel.flow.name: places.of(travel.flow, "topics") for travel in together}
            *others, last = wheres
            names = f"{', '.join(f'{name} ({wheres[name]})' for name in others)} and {last}"
            every = "both" if len(others) == 1 else "all"
            description = f"the flows {names} {every} write to {target}/{topic}"
            if not certain:
                inexact = dict.fromkeys(text for travel in together for text in travel.inexact)
                doubt = (
                    f" (none is possible with {', '.join(inexact)})" if inexact else ": their expressions are too large"
                )
                description = f"no proof that the flows {names} write to different topics of {target}{doubt}"
            why = "Records of two sources would be mixed, or doubled, in one topic"
            todo = "Make their topics disjoint by topics or exclude_topics, or choose naming that keeps them apart"
            yield Problem("remote-name-collision", wheres[last], description, why, todo)


def _meetings(travels: Sequence[FlowNaming]) -> list[tuple[frozenset[str], str, bool]]:
    """Names of two flows or more that write to one topic, that topic, and whether that is certain. If not, the topic is
    empty: no search found one, and no proof excludes one."""
    writers: dict[str, frozenset[str]] = {}
    doubtful: dict[str, set[str]] = {}
    for left, right in combinations(travels, 2):
        pair = {left.flow.name, right.flow.name}
        if may_share(left.flow, right.flow) or any(pair <= known for known in writers.values()):
            continue
        topic, certain = _common(left, right)  # the expensive step: pairs in a known collision were left out above
        if topic is None:
            continue
        if certain:
            writers[topic] = frozenset(pair.union(naming.flow.name for naming in travels if _writes(naming, topic)))
        else:
            doubtful.setdefault(topic, set()).update(pair)
    sets = writers.values()
    widest = [(flows, topic, True) for topic, flows in writers.items() if not any(flows < more for more in sets)]
    return [*widest, *((frozenset(flows), topic, False) for topic, flows in doubtful.items())]


def _common(left: FlowNaming, right: FlowNaming) -> tuple[str | None, bool]:
    """A name both flows can write to, and whether that is certain; (empty, False) if no search ends."""
    if left.custom or right.custom:
        return None, True
    shared = Intersection((left.arriving, right.arriving))
    few = None
    try:
        words = list(islice(names(shared, MAX_NAME), EXAMPLES))
        if words and (left.inexact or right.inexact):
            few = every_name(shared, FEW)
    except UndecidedError:
        return "", False
    if not words:
        return None, True
    if not left.inexact and not right.inexact:
        return words[0], True
    for name in words if few is None else few:
        if _writes(left, name) and _writes(right, name):
            return name, True
    return ("", False) if few is None else (None, True)


def _writes(travel: FlowNaming, name: str) -> bool:
    """Whether the flow writes to ``name`` by the real rules, if its source has the topic. No for a custom policy."""
    if travel.custom:
        return False
    prefix = travel.flow.source + travel.flow.naming.separator
    upstream = {name, name.removeprefix(prefix)}
    selector = travel.selector
    return any(selector.why_not(topic) is None and selector.remote_name(topic) == name for topic in upstream)


def check_declared_apart(topology: Topology, travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """A declared topic may not also be the remote topic of a flow, unless it is declared on both sides of it."""
    for name, travel in sorted(travels.items()):
        target = travel.flow.target
        for topic in topology.topics.values():
            # One declaration for the topic and its copy under the same name: its values hold on both clusters.
            kept = travel.flow.naming.policy == "identity" and not topic.name.endswith("heartbeats")
            both_sides = kept and {travel.flow.source, target} <= set(topic.clusters)
            if target in topic.clusters and not both_sides and _writes(travel, topic.name):
                index = topic.clusters.index(target)
                problem = f"the topic {topic.name} is declared on {target}, where the flow {name} writes to it too"
                why = "Its records would be mixed with mirrored ones, and two rules would set its configs"
                todo = f"Remove {target} from its clusters if the flow is to create it, or exclude it from the flow"
                yield Problem("remote-name-collision", places.of(topic, "clusters", index), problem, why, todo)


def check_metric_names(topology: Topology, given_arrivals: Sequence[Arrival], places: Places) -> Iterator[Problem]:
    """Finds names that differ only in '.' and '_': Kafka refuses the second one."""
    every = {*topology.topics, *(arrival.name for arrival in given_arrivals)}
    if len({name.replace(".", "_") for name in every}) == len(every):
        return
    holders: dict[tuple[str, str], dict[str, str]] = {}
    for topic in topology.topics.values():
        for cluster in topic.clusters:
            holders.setdefault((cluster, topic.name.replace(".", "_")), {})[topic.name] = topic.name
    for arrival in given_arrivals:
        names_there = holders.setdefault((arrival.cluster, arrival.name.replace(".", "_")), {})
        names_there.setdefault(arrival.name, f"{arrival.name} by {arrival.flow}")
    for (cluster, _), by_name in sorted(holders.items()):
        if len(by_name) < 2:
            continue
        shown = [by_name[name] for name in sorted(by_name)]
        declared = [topology.topics[name] for name in sorted(by_name) if name in topology.topics]
        flows = sorted(it.flow for it in given_arrivals if it.cluster == cluster and it.name in by_name)
        yield Problem(
            "metric-name-collision",
            places.of(declared[-1] if declared else topology.flows[flows[-1]]),
            f"on {cluster} these topics differ only in '.' and '_': {', '.join(shown)}",
            "Kafka turns '.' into '_' in metric names and refuses to create the second one",
            "Rename one of them",
        )
