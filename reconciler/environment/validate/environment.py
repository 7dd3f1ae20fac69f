"""Validates the whole environment: runs the rules of every kind."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from reconciler.environment.parse.flow_start import check_starts
from reconciler.environment.parse.partial import half_read_flows, half_read_topics
from reconciler.environment.validate.client_settings import check_connections, check_one_path
from reconciler.environment.validate.clusters import check_clusters
from reconciler.environment.validate.deployment import check_deployments
from reconciler.environment.validate.expressions import check_expressions, expression_faults
from reconciler.environment.validate.flows.collisions import (
    arrivals,
    check_declared_apart,
    check_flows_apart,
    check_metric_names,
)
from reconciler.environment.validate.flows.provenance import check_provenance
from reconciler.environment.validate.flows.same_offsets import check_same_offsets
from reconciler.environment.validate.spark import check_spark
from reconciler.environment.yaml.characters import named
from reconciler.environment.yaml.locations import Places, unknown_clusters, unknown_name
from reconciler.errors import Problem
from reconciler.model.environment.topology import Flow, Mirror, Topology
from reconciler.replication.names import CONTROL_TOPIC, OFFSETS_TOPIC, STATUS_TOPIC
from reconciler.resources.flows.loops import Loop, Unproved, find_loops
from reconciler.resources.flows.names.carried import policy_fault, travels_of
from reconciler.text import sentence, suggestion

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
        *check_deployments(topology, places),
        *check_spark(topology, places),
        *check_expressions(topology.flows.values(), places),
        *_half_read(topology, places),
    ]
    try:
        problems += _over_all_flows(topology, places)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code of a naming policy: anything may come out of it, SystemExit too
        if not any(":" in flow.naming.policy for flow in topology.flows.values()):
            raise
        problems.append(_policy_problem(topology, places, f"{type(error).__name__}: {error}"))
    return tuple(problems)


def _half_read(topology: Topology, places: Places) -> Iterator[Problem]:
    for topic in half_read_topics(topology, places):
        yield from unknown_clusters(places, topology.clusters, topic, f"topic {topic.name}")
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
    for arrival in remote:
        if len(arrival.name) > MAX_TOPIC_NAME:
            flow = topology.flows[arrival.flow]
            problem = f"the flow {arrival.flow} would name a topic with {len(arrival.name)} characters: {arrival.name}"
            why = f"Kafka allows {MAX_TOPIC_NAME} characters"
            todo = f"Exclude {arrival.upstream}, or give the cluster {arrival.source} a shorter alias"
            yield Problem("bad-topic-name", places.of(flow, "naming"), problem, why, todo)
    declared = {
        cluster: sorted(topic.name for topic in topology.topics.values() if cluster in topic.clusters)
        for cluster in topology.clusters
    }
    for find_loop in find_loops(travels.values(), declared):
        yield _loop_problem(topology, places, find_loop)
    yield from check_provenance(topology, travels, places)
    yield from check_same_offsets(topology, travels, places)


def _loop_problem(topology: Topology, places: Places, value: Loop | Unproved) -> Problem:
    where = places.of(topology.flows[min(value.flows)])
    if isinstance(value, Unproved):
        problem = f"no proof that records do not go in circles over the flows {', '.join(value.flows)}"
        why = "The paths or expressions are too many to follow all of them"
        todo = "Use default naming with one separator for all of them, or simpler expressions"
        return Problem("mirror-loop-unproved", where, problem, why, todo)
    start = value.hops[0].source
    lacking = [name for name in value.flows if topology.flows[name].provenance is None]
    cure = (
        f"give {', '.join(lacking)} provenance, too: a loop is cut where all of its flows have it"
        if all(topology.flows[name].naming.policy == "identity" for name in value.flows)
        else "use default naming with one separator on all of these flows and aliases without it"
    )
    return Problem(
        "mirror-loop",
        where,
        f"{'possible ' if value.doubtful else ''}mirror loop, a record would come back to {start}: {value}",
        f"The expressions {', '.join(value.doubtful)} use a construct that no proof covers: no name was found that "
        "comes back, and none is excluded"
        if value.doubtful
        else "Each round would copy the record again, without end or under ever longer names",
        f"{sentence(cure)}, or make their topics disjoint with topics and exclude_topics",
    )


def _policy_problem(topology: Topology, places: Places, subject: str) -> Problem:
    flow = min((flow for flow in topology.flows.values() if ":" in flow.naming.policy), key=lambda flow: flow.name)
    why = "Without it nobody knows how remote topics are named"
    todo = "Fix the class, or use default or identity"
    return Problem("bad-policy", places.of(flow, "naming", "policy"), f"a naming policy failed: {subject}", why, todo)


def _topics(topology: Topology, places: Places) -> Iterator[Problem]:
    for topic in topology.topics.values():
        if not topology.clusters.keys() >= {*topic.clusters}:
            yield from unknown_clusters(places, topology.clusters, topic, f"topic {topic.name}")
        wrong = _illegal(topic.name)
        if wrong:
            allowed = f"letters, digits, '.', '_' and '-', at most {MAX_TOPIC_NAME} of them"
            why = f"Kafka allows {allowed}; . and .. are taken"
            problem = f'the topic name "{topic.name[:80]}" {wrong}'
            yield Problem("bad-topic-name", places.of(topic), problem, why, "Rename the topic")
        elif topic.name in KAFKA_TOPICS or topic.name in (STATUS_TOPIC, OFFSETS_TOPIC, CONTROL_TOPIC):
            owner = "Kafka" if topic.name in KAFKA_TOPICS else "the mirror job"
            problem = f"the internal topic {topic.name} is declared"
            why = f"{sentence(owner)} looks after it itself"
            yield Problem("internal-topic", places.of(topic), problem, why, "Remove it")


def _illegal(name: str) -> str:
    if name in ("", ".", ".."):
        return "is not allowed"
    if len(name) > MAX_TOPIC_NAME:
        return f"has {len(name)} characters"
    bad = sorted(set(re.sub(r"[A-Za-z0-9._-]", "", name)))
    return f"holds {', '.join(repr(char) if char.isascii() else named(char) for char in bad)}" if bad else ""


def _flow_clusters(topology: Topology, places: Places, flow: Flow) -> Iterator[Problem]:
    for field, cluster in (("source", flow.source), ("target", flow.target)):
        if cluster:
            subject, where = f"flow {flow.name}: {field}", places.of(flow, field)
            yield from unknown_name(places, topology.clusters, cluster, subject, where)


def _flows(topology: Topology, places: Places) -> Iterator[Problem]:
    for flow in topology.flows.values():
        yield from _flow_clusters(topology, places, flow)
        if flow.source == flow.target:
            problem = f"flow {flow.name}: source and target are both {flow.source}"
            why = "Records would be copied into the cluster they come from"
            yield Problem("same-source-and-target", places.of(flow, "target"), problem, why, "Name two clusters")
        wrong = policy_fault(flow)
        if wrong:
            why = "Without it nobody knows how remote topics are named"
            todo = "Check the import path, or use default or identity"
            yield Problem("bad-policy", places.of(flow, "naming", "policy"), f"flow {flow.name}: {wrong}", why, todo)


def _mirrors(topology: Topology, places: Places) -> Iterator[Problem]:
    carriers: dict[str, Mirror] = {}
    doubtful: set[str] = set()  # they name a flow that is not there, perhaps a slip for one that is
    for mirror in sorted(topology.mirrors.values(), key=lambda mirror: mirror.name):
        if not mirror.flows and places.complete and not _with_errors("flows", topology.flows, places):
            problem = f"mirror {mirror.name} has no flow"
            why = f"It names none, and no flow that is still free goes to a cluster {mirror.name}"
            todo = "Name its flows, give it the alias of a target cluster, or remove it"
            yield Problem("mirror-without-flows", places.of(mirror), problem, why, todo)
        for index, name in enumerate(mirror.flows):
            where = places.of(mirror, "flows", index)
            if name not in topology.flows:
                doubtful.add(mirror.name)
                if places.complete and not places.has("flows", name):
                    todo = suggestion(name, topology.flows, "Declare it under flows")
                    problem = f"mirror {mirror.name} names the unknown flow {name}"
                    yield Problem("unknown-flow", where, problem, "No file of the environment declares it", todo)
                continue
            other = carriers.setdefault(name, mirror)
            if other is not mirror:
                problem = f"the flow {name} is in the mirrors {other.name} and {mirror.name}"
                why = "Two applications would fence each other for ever"
                yield Problem("flow-in-two-mirrors", where, problem, why, "Keep it in one of them")
    idle = [flow for flow in topology.flows.values() if flow.name not in carriers and flow.target in topology.mirrors]
    if not idle or not places.complete or _with_errors("mirrors", topology.mirrors, places):
        return
    for flow in idle:
        if flow.target not in doubtful:
            problem = f"flow {flow.name} is in no mirror: mirror {flow.target} lists its flows and leaves it out"
            todo = f"Add it to mirrors.{flow.target}.flows, or name it in a mirror of its own"
            yield Problem("flow-without-mirror", places.of(flow), problem, "No application would run it", todo)


def _with_errors(section: str, built: Collection[str], places: Places) -> bool:
    """Is there an entry that could not be read? A flow may belong to any mirror, a mirror may name any flow."""
    return any(of == section and name not in built for of, name in places.entries)
