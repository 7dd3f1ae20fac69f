"""Two things that want the same topic on one cluster: flows, declared topics, and names Kafka's metrics mix up.

Border: offline. That flows cannot collide is proved over all names they could carry, not only the declared ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from reconciler.errors import Problem
from reconciler.languages import MAX_NAME, AllOf, UndecidedError, names
from reconciler.places import Places
from reconciler.provenance_proof import may_share
from reconciler.topology import Topic, Topology
from reconciler.travels import Travel

EXAMPLES = 200
MAX_HOPS = 8


@dataclass(frozen=True, slots=True)
class Arrival:
    """A declared topic as it arrives on another cluster: its name there, and the flow that brings it."""

    cluster: str
    name: str
    flow: str
    source: str
    upstream: str


def arrivals(topology: Topology, travels: Mapping[str, Travel]) -> tuple[Arrival, ...]:
    """Every remote topic that the declared topics lead to, over all hops. A loop ends at the first return."""
    by_source: dict[str, list[Travel]] = {}
    for name in sorted(travels):
        by_source.setdefault(travels[name].flow.source, []).append(travels[name])
    found: list[Arrival] = []
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
            found.append(Arrival(target, remote, travel.flow.name, cluster, name))
            waiting.append((target, remote, (*path, target)))
    return tuple(sorted(found, key=lambda one: (one.cluster, one.name, one.flow, one.upstream)))


def check_flows_apart(travels: Mapping[str, Travel], places: Places) -> list[Problem]:
    """No two flows may write to one topic of one cluster, unless provenance keeps their records apart."""
    problems = []
    for left, right in combinations((travels[name] for name in sorted(travels)), 2):
        if left.flow.target != right.flow.target or may_share(left.flow, right.flow):
            continue
        example, certain = _common(left, right)
        if example is None:
            continue
        one, other = left.flow, right.flow
        verb = "both write" if certain else "may both write"
        doubt = "" if certain else f" (no proof is possible with {', '.join((*left.inexact, *right.inexact))})"
        problems.append(
            Problem(
                "remote-name-collision",
                places.find("flows", other.name, "topics", or_else=other.where),
                f"the flows {one.name} and {other.name} {verb} to {one.target}/{example}{doubt}",
                "Records of two sources would be mixed, or doubled, in one topic",
                "Make their topics disjoint by topics or exclude_topics, or choose naming that keeps them apart",
            )
        )
    return problems


def _common(left: Travel, right: Travel) -> tuple[str | None, bool]:
    """A name both flows can write to, and whether that is certain."""
    if left.custom or right.custom:
        return None, True
    try:
        found = list(islice(names(AllOf((left.arriving, right.arriving)), MAX_NAME), EXAMPLES))
    except UndecidedError:
        return "(too large to say)", False
    if not found:
        return None, True
    if not left.inexact and not right.inexact:
        return found[0], True
    for name in found:
        if _writes(left, name) and _writes(right, name):
            return name, True
    return found[0], False


def _writes(travel: Travel, name: str) -> bool:
    """Does the flow write to ``name`` by the real rules, if its source has the topic for it?"""
    prefix = travel.flow.source + travel.flow.naming.separator
    upstream = {name, name.removeprefix(prefix)}
    return any(
        travel.selector.why_not(topic) is None and travel.selector.remote_name(topic) == name for topic in upstream
    )


def check_declared_apart(topology: Topology, travels: Mapping[str, Travel], places: Places) -> list[Problem]:
    """A declared topic may not also be the remote topic of a flow, unless it is declared on both sides of it."""
    problems = []
    for name in sorted(travels):
        travel = travels[name]
        target = travel.flow.target
        for topic in topology.topics.values():
            if _both_sides(travel, topic):
                continue
            if target in topic.clusters and not travel.custom and _writes(travel, topic.name):
                index = topic.clusters.index(target)
                problems.append(
                    Problem(
                        "remote-name-collision",
                        places.find("topics", topic.name, "clusters", index, or_else=topic.where),
                        f"the topic {topic.name} is declared on {target}, where the flow {name} writes to it too",
                        "Its records would be mixed with mirrored ones, and two rules would set its configs",
                        f"Remove {target} from its clusters if the flow is to make it, or exclude it from the flow",
                    )
                )
    return problems


def _both_sides(travel: Travel, topic: Topic) -> bool:
    """One declaration for the topic and its copy under the same name: what it says holds on both clusters."""
    kept = travel.flow.naming.policy == "identity" and not topic.name.endswith("heartbeats")
    return kept and {travel.flow.source, travel.flow.target} <= set(topic.clusters)


def check_metric_names(topology: Topology, found: Sequence[Arrival], places: Places) -> list[Problem]:
    """Kafka refuses a topic whose name differs from another one only in '.' and '_'."""
    every = {*topology.topics, *(one.name for one in found)}
    if len({name.replace(".", "_") for name in every}) == len(every):
        return []
    holders: dict[tuple[str, str], dict[str, str]] = {}
    for topic in topology.topics.values():
        for cluster in topic.clusters:
            holders.setdefault((cluster, topic.name.replace(".", "_")), {})[topic.name] = topic.name
    for one in found:
        holders.setdefault((one.cluster, one.name.replace(".", "_")), {}).setdefault(
            one.name, f"{one.name} by {one.flow}"
        )
    problems = []
    for (cluster, _), by_name in sorted(holders.items()):
        if len(by_name) < 2:
            continue
        shown: Sequence[str] = [by_name[name] for name in sorted(by_name)]
        declared = [name for name in sorted(by_name) if name in topology.topics]
        flows = sorted(one.flow for one in found if one.cluster == cluster and one.name in by_name)
        where = (
            places.find("topics", declared[-1], or_else=topology.topics[declared[-1]].where)
            if declared
            else places.find("flows", flows[-1], or_else=topology.flows[flows[-1]].where)
        )
        problems.append(
            Problem(
                "metric-name-collision",
                where,
                f"on {cluster} these topics differ only in '.' and '_': {', '.join(shown)}",
                "Kafka turns '.' into '_' in metric names and refuses to create the second one",
                "Rename one of them",
            )
        )
    return problems
