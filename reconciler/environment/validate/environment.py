"""Rules over the whole topology that no single file can know.

Border: nouns in, problems out, nothing of YAML but the places to point at. ``loading.load`` runs it on what it built.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from reconciler.checking_clusters import check_clusters
from reconciler.collisions import arrivals, check_declared_apart, check_flows_apart, check_metric_names
from reconciler.connecting import check_connections, check_one_path
from reconciler.copying import check_starts
from reconciler.errors import Problem, Where
from reconciler.expressions import check_expressions, expression_faults
from reconciler.half_read import half_read_flows, half_read_topics
from reconciler.loops import Loop, Unproved, find_loops
from reconciler.places import Places, Step, suggestion, unknown_cluster
from reconciler.provenance_rules import check_provenance
from reconciler.topology import Flow, Mirror, Topic, Topology
from reconciler.travels import policy_fault, travels_of
from replication.names import OFFSETS_TOPIC, STATUS_TOPIC

NO_PLACES = Places()
MAX_TOPIC_NAME = 249
KAFKA_TOPICS = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata"}
)


def check(topology: Topology, places: Places = NO_PLACES) -> tuple[Problem, ...]:
    """Every problem of the relations between clusters, topics, flows and mirrors."""
    problems = [
        *check_clusters(topology, places),
        *_topics(topology, places),
        *_flows(topology, places),
        *_mirrors(topology, places),
        *check_connections(topology, places),
        *check_one_path(topology, places),
        *check_expressions(topology.flows.values(), places),
        *_half_read(topology, places),
    ]
    try:
        problems += _over_all_flows(topology, places)
    except Exception as error:  # user code of a naming policy: anything may come out of it
        if not any(":" in flow.naming.policy for flow in topology.flows.values()):
            raise
        problems.append(_policy_problem(topology, places, f"{type(error).__name__}: {error}"))
    return tuple(problems)


def _half_read(topology: Topology, places: Places) -> Iterator[Problem]:
    for topic in half_read_topics(topology, places):
        yield from _topic_clusters(topology, places, topic)
    for flow in half_read_flows(topology, places):
        yield from _flow_clusters(topology, places, flow)
        yield from expression_faults(flow, places)


def _over_all_flows(topology: Topology, places: Places) -> Iterator[Problem]:
    travels = travels_of(topology)
    remote = arrivals(topology, travels)
    yield from check_flows_apart(travels, places)
    yield from check_declared_apart(topology, travels, places)
    yield from check_metric_names(topology, remote, places)
    yield from check_starts(travels, places)
    for one in remote:
        if len(one.name) > MAX_TOPIC_NAME:
            flow = topology.flows[one.flow]
            yield Problem(
                "bad-topic-name",
                _at(places, flow, "naming"),
                f"the flow {one.flow} would name a topic with {len(one.name)} characters: {one.name}",
                f"Kafka allows {MAX_TOPIC_NAME} characters",
                f"Exclude {one.upstream}, or give the cluster {one.source} a shorter alias",
            )
    declared = {
        cluster: sorted(topic.name for topic in topology.topics.values() if cluster in topic.clusters)
        for cluster in topology.clusters
    }
    for found in find_loops(travels.values(), declared):
        yield _loop_problem(topology, places, found)
    yield from check_provenance(topology, travels, places)


def _loop_problem(topology: Topology, places: Places, found: Loop | Unproved) -> Problem:
    where = _at(places, topology.flows[min(found.flows)])
    if isinstance(found, Unproved):
        return Problem(
            "mirror-loop-unproved",
            where,
            f"no proof that records do not go in circles over the flows {', '.join(found.flows)}",
            "The paths or expressions are too many to follow all of them",
            "Use default naming with one separator for all of them, or simpler expressions",
        )
    start = found.hops[0].source
    lacking = [name for name in found.flows if topology.flows[name].provenance is None]
    cure = (
        f"give {', '.join(lacking)} provenance, too: a loop is cut where all of its flows have it"
        if all(topology.flows[name].naming.policy == "identity" for name in found.flows)
        else "use default naming with one separator on all of these flows and aliases without it"
    )
    return Problem(
        "mirror-loop",
        where,
        f"{'possible ' if found.doubtful else ''}mirror loop, a record would come back to {start}: {found}",
        f"The expressions {', '.join(found.doubtful)} use a construct that no proof covers, so a loop is not excluded"
        if found.doubtful
        else "Each round would copy the record again, without end or under ever longer names",
        f"{cure[0].upper()}{cure[1:]}, or make their topics disjoint with topics and exclude_topics",
    )


def _policy_problem(topology: Topology, places: Places, what: str) -> Problem:
    flow = min((flow for flow in topology.flows.values() if ":" in flow.naming.policy), key=lambda flow: flow.name)
    return Problem(
        "bad-policy",
        _at(places, flow, "naming", "policy"),
        f"a naming policy failed: {what}",
        "Without it nobody knows how remote topics are named",
        "Mend the class, or use default or identity",
    )


def _at(places: Places, noun: Topic | Flow | Mirror, *path: Step) -> Where:
    section = f"{type(noun).__name__.lower()}s"
    return places.find(section, noun.name, *path, or_else=noun.where)


def _topic_clusters(topology: Topology, places: Places, topic: Topic) -> Iterator[Problem]:
    if topology.clusters.keys() >= {*topic.clusters}:
        return
    for index, cluster in enumerate(topic.clusters):
        yield from _known_cluster(topology, places, cluster, f"topic {topic.name}", topic, "clusters", index)


def _topics(topology: Topology, places: Places) -> Iterator[Problem]:
    for topic in topology.topics.values():
        yield from _topic_clusters(topology, places, topic)
        wrong = _illegal(topic.name)
        if wrong:
            why = (
                f"Kafka allows letters, digits, '.', '_' and '-', at most {MAX_TOPIC_NAME} of them; . and .. are taken"
            )
            what = f'the topic name "{topic.name[:80]}" {wrong}'
            yield Problem("bad-topic-name", _at(places, topic), what, why, "Rename the topic")
        elif topic.name in KAFKA_TOPICS or topic.name in (STATUS_TOPIC, OFFSETS_TOPIC):
            owner = "Kafka" if topic.name in KAFKA_TOPICS else "the mirror job"
            what = f"the internal topic {topic.name} is declared"
            yield Problem(
                "internal-topic",
                _at(places, topic),
                what,
                f"{owner[0].upper()}{owner[1:]} looks after it itself",
                "Remove it",
            )


def _illegal(name: str) -> str:
    if name in ("", ".", ".."):
        return "is not allowed"
    if len(name) > MAX_TOPIC_NAME:
        return f"has {len(name)} characters"
    bad = sorted(set(re.sub(r"[A-Za-z0-9._-]", "", name)))
    return f"holds {', '.join(map(repr, bad))}" if bad else ""


def _known_cluster(
    topology: Topology, places: Places, name: str, subject: str, noun: Topic | Flow, *path: Step
) -> Iterator[Problem]:
    if not name or name in topology.clusters:
        return
    if problem := unknown_cluster(places, topology.clusters, name, subject, _at(places, noun, *path)):
        yield problem


def _flow_clusters(topology: Topology, places: Places, flow: Flow) -> Iterator[Problem]:
    for field, cluster in (("source", flow.source), ("target", flow.target)):
        yield from _known_cluster(topology, places, cluster, f"flow {flow.name}: {field}", flow, field)


def _flows(topology: Topology, places: Places) -> Iterator[Problem]:
    for flow in topology.flows.values():
        yield from _flow_clusters(topology, places, flow)
        if flow.source == flow.target:
            what = f"flow {flow.name}: source and target are both {flow.source}"
            why = "Records would be copied into the cluster they come from"
            yield Problem("same-source-and-target", _at(places, flow, "target"), what, why, "Name two clusters")
        wrong = policy_fault(flow)
        if wrong:
            why = "Without it nobody knows how remote topics are named"
            todo = "Check the import path, or use default or identity"
            yield Problem("bad-policy", _at(places, flow, "naming", "policy"), f"flow {flow.name}: {wrong}", why, todo)


def _mirrors(topology: Topology, places: Places) -> Iterator[Problem]:
    carriers: dict[str, Mirror] = {}
    doubtful: set[str] = set()  # they name a flow that is not there, perhaps a slip for one that is
    for mirror in sorted(topology.mirrors.values(), key=lambda mirror: mirror.name):
        if not mirror.flows and places.complete and not _with_errors("flows", topology.flows, places):
            what = f"mirror {mirror.name} carries no flow"
            why = f"It names none, and no flow that is still free goes to a cluster {mirror.name}"
            todo = "Name its flows, give it the alias of a target cluster, or remove it"
            yield Problem("mirror-without-flows", _at(places, mirror), what, why, todo)
        for index, name in enumerate(mirror.flows):
            where = _at(places, mirror, "flows", index)
            if name not in topology.flows:
                doubtful.add(mirror.name)
                if places.complete and not places.has("flows", name):
                    todo = suggestion(name, topology.flows, "Declare it under flows")
                    what = f"mirror {mirror.name} names the unknown flow {name}"
                    yield Problem("unknown-flow", where, what, "No file of the environment declares it", todo)
                continue
            other = carriers.setdefault(name, mirror)
            if other is not mirror:
                what = f"the flow {name} is in the mirrors {other.name} and {mirror.name}"
                why = "Two applications would fence each other for ever"
                yield Problem("flow-in-two-mirrors", where, what, why, "Keep it in one of them")
    left = [one for one in topology.flows.values() if one.name not in carriers and one.target in topology.mirrors]
    if not left or not places.complete or _with_errors("mirrors", topology.mirrors, places):
        return
    for flow in left:
        if flow.target not in doubtful:
            what = f"flow {flow.name} is in no mirror: mirror {flow.target} lists its flows and leaves it out"
            todo = f"Add it to mirrors.{flow.target}.flows, or name it in a mirror of its own"
            yield Problem("flow-without-mirror", _at(places, flow), what, "No application would carry it", todo)


def _with_errors(section: str, built: Collection[str], places: Places) -> bool:
    """Is there an entry that could not be read? A flow may belong to any mirror, a mirror may name any flow."""
    return any(of == section and name not in built for of, name in places.entries)
