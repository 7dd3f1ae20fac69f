"""The routes of topics: one for each remote topic, over all flows and hops.

A topic travels when it is live, declared, or the remote topic of another flow, so several hops are found in one pass.
Names come first, because they need no values; then partitions and configs, nearest hop first.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from reconciler.errors import ReconcilerError, Unknown
from reconciler.model.changes import About, Refused, Subject, Why, of_topic
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import BrokerConfigs, ConfigValue, LiveState, Source, usual_configs
from reconciler.replication.policy import HEARTBEATS, NO_MATCH, TopicSelector
from reconciler.resources.flows.explain import idle_names, left_out, left_out_words
from reconciler.resources.flows.names.carried import plain_names, selector_for
from reconciler.resources.topics import expected, internal, limits
from reconciler.resources.topics.defaults import layers_of, replication_factor
from reconciler.text import grouped


@dataclass(frozen=True, slots=True)
class Route:
    """One topic of one flow."""

    flow: str
    source: TopicRef
    remote: TopicRef
    partitions: int | None
    """None while the source topic is missing or hidden."""
    replication_factor: int | None
    """For a new remote topic; None: the brokers' default."""
    configs: expected.SyncedConfigs | Unknown
    """What config sync asks of the remote topic; Unknown while the source's configs are."""
    depth: int
    """Hops from a topic that no flow makes."""
    two_way: bool = False
    """The remote topic flows back under the same name, or flows with provenance share it, so that neither side's
    configs lead."""
    unseen: Unknown | None = None
    """A source on the way may exist but is hidden, so the remote topic's settings are unknown."""
    declared: bool = False
    """Git declares that topic."""


@dataclass(frozen=True, slots=True)
class Routing:
    """The routes of all flows, and the topics that follow from them."""

    routes: tuple[Route, ...]
    prospects: expected.Prospects
    """Topics after the plan."""
    contested: frozenset[TopicRef]
    """Remote topics of two flows."""
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class TopicHop:
    """One topic over one flow."""

    source: TopicRef
    remote: TopicRef
    flow: str


def selector_of(flow: Flow) -> TopicSelector:
    """Raises ReconcilerError for an unusable pattern or policy, which ``validate`` finds first."""
    try:
        return selector_for(flow)
    except ValueError as error:
        raise ReconcilerError(
            f"flow {flow.name} cannot be used: {error}",
            "Without it the topics that travel are unknown",
            "Correct its topics, exclude_topics or naming",
        ) from error


def is_copy(selector: TopicSelector, name: str) -> bool:
    """Whether ``name`` on a flow's target would be the copy of a source topic."""
    upstream = selector.policy.upstream_topic(name) or name
    return selector.why_not(upstream) is None and selector.remote_name(upstream) == name


def find_routes(topology: Topology, live: LiveState) -> Routing:
    """Routes of all flows with known source and target."""
    flows, selectors = _selected(topology, live)
    present = _present(topology, live)
    hops, endless, held = _hops(flows, selectors, present, limit=len(topology.clusters))
    makers: dict[TopicRef, list[TopicHop]] = defaultdict(list)
    for hop in sorted(hops):
        makers[hop.remote].append(hop)
    # Several flows may write one topic if provenance headers tell their records apart (`validate` proves more).
    marking = {flow.name for flow in flows if flow.provenance is not None}
    contested = frozenset(
        ref for ref, hops in makers.items() if len(hops) > 1 and not all(hop.flow in marking for hop in hops)
    )
    refused = tuple(_refusals(endless, {ref: makers[ref] for ref in sorted(contested)}))
    brokers = {name: usual_configs(cluster) for name in present if (cluster := live.known(name))}
    prospects = _prospects(topology, live, present, brokers)
    sound = {ref: hops for ref, hops in makers.items() if ref not in contested}
    # Keeps hops from existing topics, or from remote topics of such hops, so none after a contested topic.
    leaders = {ref: hops[0] for ref, hops in sound.items()}
    kept: dict[TopicRef, TopicHop] = {}
    while fresh := {r: h for r, h in leaders.items() if r not in kept and (h.source in prospects or h.source in kept)}:
        kept |= fresh
    leading = {ref: kept[ref] for ref in leaders if ref in kept}
    routes = _values(topology, prospects, brokers, {ref: sound[ref] for ref in leading})
    carried = {ref: [hop.flow for hop in hops] for ref, hops in makers.items()}
    notes = tuple(idle_names(topology, selectors, carried, held))
    return Routing(routes, prospects, contested, refused, notes)


def kept_less_by(routing: Routing) -> Iterator[limits.KeptLess]:
    """Copies with known settings that retain less than their source."""
    for route in routing.routes:
        both = [routing.prospects[ref].configs for ref in (route.source, route.remote) if ref in routing.prospects]
        here, there = both if len(both) == 2 else (None, None)
        if isinstance(here, Mapping) and isinstance(there, Mapping):
            yield from limits.kept_less(route.source, route.remote, here, there)


def hops_between(topology: Topology, live: LiveState) -> Collection[TopicHop]:
    """Every topic of every flow, by name alone, of flows with known source and target."""
    flows, selectors = _selected(topology, live)
    hops, _, _ = _hops(flows, selectors, _present(topology, live), limit=len(topology.clusters))
    return hops


def _selected(topology: Topology, live: LiveState) -> tuple[list[Flow], dict[str, TopicSelector]]:
    """Flows whose source and target are known, with their selectors."""
    flows = [f for f in topology.flows.values() if live.known(f.source) and live.known(f.target)]
    return flows, {flow.name: selector_of(flow) for flow in flows}


def left_out_by(flow: Flow, topology: Topology, live: LiveState) -> str:
    """Words for topics on the flow's source that its author may wrongly believe to be carried; empty without any, or
    with an unknown source."""
    source = live.known(flow.source)
    rules = left_out(topology, flow, selector_of(flow), source.topics) if source is not None else {}
    return left_out_words(flow, rules) if rules else ""


def remote_names(topology: Topology, live: LiveState) -> Iterator[TopicRef]:
    """Every topic that a flow writes to."""
    return (hop.remote for hop in hops_between(topology, live))


def sources_among(topology: Topology, topics: Collection[TopicRef]) -> Mapping[TopicRef, Sequence[TopicRef]]:
    """Remote topic -> its sources, both among ``topics``; without pairs that are each other's source."""
    ways: set[tuple[TopicRef, TopicRef]] = set()
    for flow in topology.flows.values():
        here = [ref for ref in topics if ref.cluster == flow.source]
        selector = selector_of(flow) if here and any(ref.cluster == flow.target for ref in topics) else None
        for source in here if selector is not None else ():
            if selector is not None and selector.why_not(source.name) is None:
                ways.add((TopicRef(flow.target, selector.remote_name(source.name)), source))
    return grouped(way for way in sorted(ways) if way[0] in topics and way[::-1] not in ways)


def _present(topology: Topology, live: LiveState) -> dict[str, set[str]]:
    """Known cluster -> topic names, without planned remote topics, but with hidden topics that a flow names."""
    names: dict[str, set[str]] = {}
    for name in topology.clusters:
        if cluster := live.known(name):
            names[name] = set(cluster.topics)
    for name, here in names.items():
        here.update(topic.name for topic in topology.topics.values() if name in topic.clusters)
    for flow in topology.flows.values():
        if cluster := live.known(flow.source):
            names[flow.source] |= plain_names(flow) & cluster.hidden.keys()
    for name in internal.heartbeats_places(topology):
        if name in names:
            names[name].add(HEARTBEATS)
    return names


def _hops(
    flows: list[Flow], selectors: Mapping[str, TopicSelector], present: Mapping[str, set[str]], limit: int
) -> tuple[set[TopicHop], set[TopicHop], Mapping[str, set[str]]]:
    """Fixpoint over all flows. A name after more hops than there are clusters has come round, so it is endless. The
    last part: flow -> names that it matches but does not carry."""
    ends = {end: present[end] for flow in flows for end in (flow.source, flow.target)}
    fresh = {cluster: dict.fromkeys(names, 0) for cluster, names in ends.items()}
    known_names = {cluster: set(names) for cluster, names in ends.items()}
    hops: set[TopicHop] = set()
    endless: set[TopicHop] = set()
    held: dict[str, set[str]] = defaultdict(set)
    # Only names that are new on a cluster continue in the next round, so opposite flows terminate.
    while any(fresh.values()):
        by_name: dict[str, dict[str, int]] = {cluster: {} for cluster in ends}
        for flow in flows:
            selector = selectors[flow.name]
            for name, hop_count in fresh[flow.source].items():
                if why := selector.why_not(name):
                    if why != NO_MATCH:
                        held[flow.name].add(name)
                    continue
                remote = selector.remote_name(name)
                hop = TopicHop(TopicRef(flow.source, name), TopicRef(flow.target, remote), flow.name)
                if hop_count >= limit:
                    endless.add(hop)
                    continue
                hops.add(hop)
                if remote not in known_names[flow.target]:
                    known_names[flow.target].add(remote)
                    by_name[flow.target][remote] = hop_count + 1
        fresh = by_name
    return hops, endless, held


def _nearest_first(hops: Mapping[TopicRef, TopicHop]) -> tuple[list[TopicRef], frozenset[TopicRef]]:
    """Remote topics, each after its source. The second part: topics on a ring of flows with identity naming."""
    order: list[TopicRef] = []
    placed: set[TopicRef] = set()
    ring: set[TopicRef] = set()
    for start in sorted(hops):
        path: list[TopicRef] = []
        current = start
        while current in hops and current not in placed and current not in path:
            path.append(current)
            current = hops[current].source
        if current in path:
            ring.update(path[path.index(current) :])
        order.extend(reversed(path))
        placed.update(path)
    return order, frozenset(ring)


def _values(
    topology: Topology,
    prospects: expected.Prospects,
    brokers: Mapping[str, BrokerConfigs],
    makers: Mapping[TopicRef, Sequence[TopicHop]],
) -> tuple[Route, ...]:
    """Computes every remote topic and adds it to ``prospects``. Of several flows to one topic, the first leads."""
    hops = {ref: hops[0] for ref, hops in makers.items()}
    order, ring = _nearest_first(hops)
    two_way = ring | {ref for ref, hops in makers.items() if len(hops) > 1}
    # All topics of a ring need the largest partition count among them, since records keep their partition.
    on_rings = [ref for ref in order if ref in two_way]
    for _ in on_rings:
        for ref in on_rings:
            for hop in makers[ref]:
                if (upstream := prospects.get(hop.source)) is not None:
                    prospect = prospects.get(ref) or expected.Prospect(None, brokers[ref.cluster])
                    prospects.put(ref, prospect.at_least(upstream.partitions))
    # Nearest hop first, so that each route finds the settings of its source topic already computed.
    depths: dict[TopicRef, int] = {}
    routes: list[Route] = []
    for ref in order:
        hop = hops[ref]
        flow, target, source = topology.flows[hop.flow], layers_of(topology, ref.cluster), prospects[hop.source]
        depths[ref] = depths.get(hop.source, 0) + 1
        sync = replace(flow.configs, enabled=flow.configs.enabled and ref not in two_way)
        unseen = next((why for maker in makers[ref] if (why := prospects[maker.source].unseen)), None)
        configs = unseen or expected.synced_configs(sync, hop.source, source.configs, target)
        factor = flow.replication_factor or replication_factor(target)
        partitions = prospects[ref].partitions if ref in two_way else source.partitions
        lead = Route(
            flow.name,
            hop.source,
            ref,
            partitions,
            factor,
            configs,
            depths[ref],
            ref in two_way,
            unseen,
            source.declared,
        )
        routes += [replace(lead, flow=maker.flow, source=maker.source) for maker in makers[ref]]
        before = prospects.get(ref)
        remote = expected.prospect_of_remote(before, partitions, configs, target, brokers[ref.cluster])
        known_as = unseen if before is None else before.unseen
        remote = replace(remote, unseen=known_as, declared=remote.declared or source.declared)
        # Git may declare a remote topic, too, and its values then override those of the source.
        desired = topology.topics.get(ref.name)
        if desired is not None and ref.cluster in desired.clusters:
            remote = replace(
                remote,
                configs=expected.declared_over(
                    remote.configs, prospects[ref], layers_of(topology, ref.cluster, desired)
                ),
            )
        prospects.put(ref, remote)
    return tuple(sorted(routes, key=attrgetter("remote.cluster", "remote.name")))


def _prospects(
    topology: Topology, live: LiveState, present: Mapping[str, set[str]], brokers: Mapping[str, BrokerConfigs]
) -> expected.Prospects:
    """Topics after the plan, existing or new; computed on demand and cached, since routes over several hops share
    them."""

    def work_out(ref: TopicRef) -> expected.Prospect:
        cluster, desired = live.known(ref.cluster), topology.topics.get(ref.name)
        assert cluster is not None
        # A hidden topic may exist, with other partitions than declared.
        if (topic := cluster.topics.get(ref.name)) is None and (hidden := cluster.hidden.get(ref.name)) is not None:
            return expected.Prospect(None, hidden, hidden)
        prospect = expected.Prospect(len(topic.partitions), topic.configs) if topic is not None else None
        if desired is not None and ref.cluster in desired.clusters:
            prospect = expected.prospect_of_declared(
                prospect, desired, layers_of(topology, ref.cluster, desired), brokers[ref.cluster]
            )
        # No cluster has this topic before the first apply that makes it, and flows carry it from then on.
        if ref.name == HEARTBEATS and prospect is None:
            values = {key: ConfigValue(value, Source.TOPIC) for key, value in internal.COMPACTED.items()}
            prospect = expected.Prospect(1, {**brokers[ref.cluster], **values})
        assert prospect is not None
        return prospect

    return expected.Prospects(present, work_out)


def _refusals(endless: Iterable[TopicHop], contested: Mapping[TopicRef, Sequence[TopicHop]]) -> Iterator[Refused]:
    """Refusals of endless topics, and of topics that several flows would write."""
    for hop in sorted(endless):
        problem = f"{hop.source} comes round through every cluster and would be mirrored on as {hop.remote}"
        todo = "Exclude it with exclude_topics, or give all flows of the ring the same naming"
        yield Refused.of(Subject(About.FLOW, name=hop.flow), Why.MIRROR_LOOP, f"{problem}, without end", todo)
    for remote, makers in contested.items():
        by = " and ".join(f"flow {hop.flow} from {hop.source}" for hop in makers)
        problem = f"{remote} would be written by {by}; their records would be mixed or doubled"
        todo = "Narrow the topics of one flow, or use naming policy default"
        yield Refused.of(of_topic(remote), Why.REMOTE_NAME_COLLISION, problem, todo)


def declared_flow(topology: Topology, name: str, why: str) -> Flow:
    """Raises ReconcilerError for an undeclared flow. ``why``: the purpose, for the message."""
    if name not in topology.flows:
        todo = f"Its flows: {', '.join(topology.flows) or 'none'}."
        raise ReconcilerError(f"environment {topology.environment} has no flow {name}", why, todo)
    return topology.flows[name]
