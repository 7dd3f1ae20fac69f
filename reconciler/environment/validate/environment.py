"""Validates the whole environment: runs the rules of every kind, and those over all flows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations

from reconciler.environment.declarations import clusters, expressions, flows, mirrors
from reconciler.environment.declarations.topics import MAX_TOPIC_NAME, check_topics
from reconciler.environment.validate import provenance_and_offsets
from reconciler.environment.validate.provenance_and_offsets import common
from reconciler.environment.yaml.locations import Places, unknown_clusters
from reconciler.environment.yaml.nodes import Mapping as YamlMapping
from reconciler.environment.yaml.nodes import Node, Scalar, node_at
from reconciler.environment.yaml.nodes import Sequence as YamlSequence
from reconciler.errors import Problem
from reconciler.model.environment.topology import Flow, Topic, Topology
from reconciler.model.principals import AccessRole, AclBinding, PatternType
from reconciler.resources.acls.derive_from_flows import FlowTopics, lets_write, mirror_principals
from reconciler.resources.acls.roles import expand_stable
from reconciler.resources.flows.loops import find_loops
from reconciler.resources.flows.names.automata import MAX_NAME, Intersection, UndecidedError, every_name, names
from reconciler.resources.flows.names.carried import FlowNaming, travels_of
from reconciler.resources.flows.provenance_proof import Unproved, may_share
from reconciler.resources.flows.routes import is_copy
from reconciler.text import grouped, sentence

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
    return tuple(map(_text, node.items)) if isinstance(node, YamlSequence) else ()


def _text(node: Node | None) -> str:
    data = node.data if isinstance(node, Scalar) else None
    return data if isinstance(data, str) else ""


def _over_all_flows(topology: Topology, places: Places) -> Iterator[Problem]:
    """Problems of all flows together: colliding names, topics with several writers, and loops. Checked last, once each
    flow is valid by itself."""
    travels = travels_of(topology)
    remote = arrivals(topology, travels)
    yield from check_flows_apart(travels, places)
    yield from check_declared_apart(topology, travels, places)
    yield from check_metric_names(topology, remote, places)
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
    yield from check_read_only(topology, travels, places)


# Validates flows with `copies: read_only`: the mirror's principal is known, and denials contradict neither `access` nor
# a flow the other way.

KEY = "copies"


def check_read_only(topology: Topology, travels: Mapping[str, FlowNaming], places: Places) -> Iterator[Problem]:
    """Flows with ``copies: read_only``: the mirror can be spared by name, and no two such flows write one name both
    ways."""
    kept = [travel for travel in travels.values() if travel.flow.read_only]
    for travel in kept:
        flow = travel.flow
        if not mirror_principals(topology, flow.target):
            yield Problem(
                "copies-principal-unknown",
                places.of(flow, KEY),
                f"flow {flow.name}: copies: read_only, but as which principal its mirror logs in to {flow.target} is "
                "not known: the settings of the cluster do not name it",
                "Everyone but the mirror is denied Write, so the rules have to know whom to spare",
                f'Add to access: {{role: mirror, principal: "User:...", flows: [{flow.name}]}}',
            )
        yield from _granted(topology, travel, places)

    # Under the same name in both directions each side is the copy of the other.
    for there, back in permutations(kept, 2):
        first, second = there.flow, back.flow
        faces = (first.source, first.target) == (second.target, second.source) and first.name < second.name
        stays = first.naming.policy == second.naming.policy == "identity"
        topic = common(there.arriving, back.arriving) if faces and stays else None
        if topic is not None:
            name = topic or "a topic (their expressions are too large to name one)"
            yield Problem(
                "copies-both-ways",
                places.of(second, KEY),
                f"the flows {first.name} and {second.name} carry {name} both ways under the same name, and both have "
                "copies: read_only",
                f"It would be a copy on {first.target} and on {second.target}, so that no client could write it at all",
                "Keep it on the flow whose target takes no writes, and remove it from the other",
            )


def _granted(topology: Topology, travel: FlowNaming, places: Places) -> Iterator[Problem]:
    """Entries of access that let someone write nothing but copies. One that gives the same name on the flow's source,
    too, is of a client that is ready to move there, and is denied until it has."""
    flow, mirrors = travel.flow, mirror_principals(topology, travel.flow.target)
    for rule in topology.access:
        moves = flow.source in rule.clusters and flow.naming.policy != "default"
        mirror = rule.role is AccessRole.MIRROR or rule.principal in mirrors
        if rule.absent or mirror or moves or flow.target not in rule.clusters:
            continue
        granted = next((acl for acl in expand_stable(rule) if lets_write(acl) and _only_copies(travel, acl)), None)
        if granted is not None:
            yield Problem(
                "access-writes-copies",
                places.of(rule),
                f"access rule {rule.number} has: {granted}, a copy on {flow.target} that flow {flow.name} keeps to "
                f"its mirror (copies: read_only in {flow.where})",
                "One lets the principal write, the other denies it, and a denial wins",
                f"Take the topic out of the entry, or remove copies: read_only from {flow.name}",
            )


def _only_copies(travel: FlowNaming, acl: AclBinding) -> bool:
    """Whether the rule covers only copies of this flow; unknown, so False, with a custom policy."""
    if acl.wildcard or travel.custom:
        return False
    if acl.pattern is PatternType.LITERAL:
        return is_copy(travel.selector, acl.name)
    begin = "" if travel.flow.naming.policy == "identity" else f"{travel.flow.source}{travel.flow.naming.separator}"
    carriage = FlowTopics(travel.flow, travel.selector, {})
    return acl.name.startswith(begin) and carriage.carries_all(acl.name.removeprefix(begin))


# Validates that flows and declared topics do not collide on a topic name of one cluster.
# The proof covers all names that flows could carry, not only declared ones.

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
        for meeting, topic, certain in _meetings(arriving):
            together = [travel for travel in arriving if travel.flow.name in meeting]
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
        # The automata are wider than what such a flow really carries, so each common name is tried against its own
        # expressions.
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
