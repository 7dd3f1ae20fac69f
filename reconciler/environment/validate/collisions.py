"""Two things that want the same topic on one cluster: flows, declared topics, and names Kafka's metrics mix up.

Border: offline. That flows cannot collide is proved over all names they could carry, not only the declared ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from reconciler.errors import Problem
from reconciler.languages import AllOf
from reconciler.name_search import MAX_NAME, UndecidedError, names
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
    """No two flows may write to one topic of one cluster, unless provenance keeps their records apart. Of each topic
    that several want there is one problem, with all of them."""
    by_target: dict[str, list[Travel]] = {}
    for name in sorted(travels):
        by_target.setdefault(travels[name].flow.target, []).append(travels[name])
    return [
        _together(target, meeting, places) for target in sorted(by_target) for meeting in _meetings(by_target[target])
    ]


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Two flows or more with one target, in order of name. ``topic`` is one that all of them write to, or, where not
    ``certain``, may write to; empty where their expressions are too large to find one."""

    flows: tuple[Travel, ...]
    topic: str
    certain: bool


def _meetings(travels: Sequence[Travel]) -> list[_Meeting]:
    writers: dict[str, frozenset[str]] = {}
    doubtful: dict[str, set[str]] = {}
    for left, right in combinations(travels, 2):
        pair = {left.flow.name, right.flow.name}
        if may_share(left.flow, right.flow) or any(pair <= known for known in writers.values()):
            continue
        topic, certain = _common(left, right)
        if topic is None:
            continue
        if certain:
            writers[topic] = frozenset(pair.union(one.flow.name for one in travels if _writes(one, topic)))
        else:
            doubtful.setdefault(topic, set()).update(pair)
    widest = [(topic, flows) for topic, flows in writers.items() if not any(flows < more for more in writers.values())]
    told = [(flows, topic, True) for topic, flows in widest] + [
        (flows, topic, False) for topic, flows in doubtful.items()
    ]
    return [_Meeting(tuple(t for t in travels if t.flow.name in flows), topic, sure) for flows, topic, sure in told]


def _together(target: str, meeting: _Meeting, places: Places) -> Problem:
    wheres = {t.flow.name: places.find("flows", t.flow.name, "topics", or_else=t.flow.where) for t in meeting.flows}
    *others, last = wheres
    names = f"{', '.join(f'{name} ({wheres[name]})' for name in others)} and {last}"
    every = "both" if len(others) == 1 else "all"
    inexact = tuple(dict.fromkeys(text for travel in meeting.flows for text in travel.inexact))
    if meeting.certain:
        what = f"the flows {names} {every} write to {target}/{meeting.topic}"
    elif meeting.topic:
        doubt = f" (no proof is possible with {', '.join(inexact)})"
        what = f"the flows {names} may {every} write to {target}/{meeting.topic}{doubt}"
    else:
        what = f"no proof that the flows {names} write to different topics of {target}: their expressions are too large"
    return Problem(
        "remote-name-collision",
        wheres[last],
        what,
        "Records of two sources would be mixed, or doubled, in one topic",
        "Make their topics disjoint by topics or exclude_topics, or choose naming that keeps them apart",
    )


def _common(left: Travel, right: Travel) -> tuple[str | None, bool]:
    """A name both flows can write to, and whether that is certain. Empty when no search ends."""
    if left.custom or right.custom:
        return None, True
    try:
        found = list(islice(names(AllOf((left.arriving, right.arriving)), MAX_NAME), EXAMPLES))
    except UndecidedError:
        return "", False
    if not found:
        return None, True
    if not left.inexact and not right.inexact:
        return found[0], True
    for name in found:
        if _writes(left, name) and _writes(right, name):
            return name, True
    return found[0], False


def _writes(travel: Travel, name: str) -> bool:
    """Does the flow write to ``name`` by the real rules, if its source has the topic for it? No for a custom policy."""
    if travel.custom:
        return False
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
            if target in topic.clusters and _writes(travel, topic.name):
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
