"""Validates the whole environment: runs the rules of every kind, and those over all flows."""

from collections.abc import Iterator

from reconciler.environment.declarations import clusters, expressions, flows, mirrors
from reconciler.environment.declarations.topics import MAX_TOPIC_NAME, check_topics
from reconciler.environment.validate import collisions, provenance_and_offsets, read_only
from reconciler.environment.yaml.locations import Places, unknown_clusters
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, Sequence, node_at
from reconciler.errors import Problem
from reconciler.model.environment.topology import Flow, Topic, Topology
from reconciler.resources.flows.loops import Unproved, find_loops
from reconciler.resources.flows.names.carried import travels_of
from reconciler.text import sentence

NO_PLACES = Places()


def check(topology: Topology, places: Places = NO_PLACES) -> tuple[Problem, ...]:
    """Every problem of the relations between clusters, topics, flows and mirrors."""
    # First the rules of each kind and entries that could not be built; then proofs over all flows, which run code of
    # custom naming policies.
    problems = [
        *clusters.check_clusters(topology, places),
        *clusters.check_own_topics(topology, places),
        *check_topics(topology, places),
        *flows.check_flows(topology, places),
        *mirrors.check_mirrors(topology, places),
        *clusters.check_connections(topology, places),
        *mirrors.check_deployments(topology, places),
        *expressions.check_expressions(topology.flows.values(), places),
        *_half_read(topology, places),
    ]
    try:
        problems += _over_all_flows(topology, places)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # user code of a naming policy: anything may come out of it, SystemExit too
        custom = [flow for flow in topology.flows.values() if ":" in flow.naming.policy]
        if not custom:
            raise
        problem = f"a naming policy failed: {type(error).__name__}: {error}"
        where = places.of(min(custom, key=lambda flow: flow.name), "naming", "policy")
        why = "Without it the names of remote topics are unknown"
        problems.append(Problem("bad-policy", where, problem, why, "Fix the class, or use default or identity"))
    return tuple(problems)


def _half_read(topology: Topology, places: Places) -> Iterator[Problem]:
    """Clusters and expressions of entries that could not be built: a wrong type in one field must not hide an unknown
    cluster in the next."""
    for (section, name), place in places.entries.items():
        fields = place.entry.value
        if not isinstance(fields, YamlMapping):
            continue
        if section == "topics" and name not in topology.topics:
            topic = Topic(name, _texts(node_at(fields, "clusters")))
            yield from unknown_clusters(places, topology.clusters, topic, f"topic {name}")
        elif section == "flows" and name not in topology.flows:
            source, target = (_text(node_at(fields, end)) for end in ("source", "target"))
            topics, excluded = (_texts(node_at(fields, of)) for of in ("topics", "exclude_topics"))
            flow = Flow(name, source, target, topics, excluded)
            yield from flows.check_ends(topology, places, flow)
            yield from expressions.expression_faults(flow, places)


def _texts(node: Node | None) -> tuple[str, ...]:
    """Items of a list by position; an item that is no text is empty."""
    return tuple(map(_text, node.items)) if isinstance(node, Sequence) else ()


def _text(node: Node | None) -> str:
    data = node.data if isinstance(node, Scalar) else None
    return data if isinstance(data, str) else ""


def _over_all_flows(topology: Topology, places: Places) -> Iterator[Problem]:
    """Problems of all flows together: colliding names, topics with several writers, and loops. Checked last, once each
    flow is valid by itself."""
    travels = travels_of(topology)
    remote = collisions.arrivals(topology, travels)
    yield from collisions.check_flows_apart(travels, places)
    yield from collisions.check_declared_apart(topology, travels, places)
    yield from collisions.check_metric_names(topology, remote, places)
    yield from flows.check_starts(travels, places)
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
    # A loop fills both clusters before anyone looks, so flows without a proof that they have none are refused, too.
    for loop in find_loops(travels.values(), declared):
        where = places.of(topology.flows[min(loop.flows)])
        if isinstance(loop, Unproved):
            problem = f"no proof that records do not go in circles over the flows {', '.join(loop.flows)}"
            why = "The paths or expressions are too many to follow all of them"
            todo = "Use default naming with one separator for all of them, or simpler expressions"
            yield Problem("mirror-loop-unproved", where, problem, why, todo)
            continue
        lacking = [name for name in loop.flows if topology.flows[name].provenance is None]
        cure = "use default naming with one separator on all of these flows and aliases without it"
        if all(topology.flows[name].naming.policy == "identity" for name in loop.flows):
            cure = f"give {', '.join(lacking)} provenance, too: a loop is cut where all of its flows have it"
        possible, why = "", "Each round would copy the record again, without end or under ever longer names"
        if loop.doubtful:
            possible = "possible "
            why = (
                f"The expressions {', '.join(loop.doubtful)} use a construct that no proof covers: no name was found "
                "that comes back, and none is excluded"
            )
        problem = f"{possible}mirror loop, a record would come back to {loop.hops[0].source}: {loop}"
        todo = f"{sentence(cure)}, or make their topics disjoint with topics and exclude_topics"
        yield Problem("mirror-loop", where, problem, why, todo)
    yield from provenance_and_offsets.check_provenance(topology, travels, places)
    yield from provenance_and_offsets.check_same_offsets(topology, travels, places)
    yield from read_only.check_read_only(topology, travels, places)
