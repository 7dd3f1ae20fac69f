"""The desired topics of each cluster, and why: declared, remote topics of flows, internal topics."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.errors import Unknown
from reconciler.model.changes import Reason, Role, Why
from reconciler.model.environment.services import offer_of
from reconciler.model.environment.topology import Topic, TopicRef, Topology, Undeclared
from reconciler.model.live import LiveCluster, LiveState
from reconciler.replication.policy import HEARTBEATS
from reconciler.resources.flows.routes import Route, Routing
from reconciler.resources.topics.defaults import layers_of, partitions, replication_factor, undeclared
from reconciler.resources.topics.expected import ByCluster, DesiredConfig, SyncedConfigs, wanted_configs
from reconciler.resources.topics.internal import INTERNAL_FACTOR, InternalTopic, internal_topics

AUDIT_CONFIGS: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """A topic as files and flows want it."""

    ref: TopicRef
    role: Role
    reason: Reason
    partitions: int | None = None
    """None: the broker decides."""
    exact: bool = False
    """More live partitions contradict git."""
    new_partitions: int | None = None
    """For a topic that does not exist yet; None: the brokers' default."""
    replication_factor: int | None = None
    """None: no file or flow gives one, so an existing topic keeps its own."""
    new_factor: int | None = None
    """Likewise."""
    configs: Mapping[str, DesiredConfig] = field(default_factory=dict)
    reset: frozenset[str] = frozenset()
    """Overrides that are removed, so that the cluster's default counts."""
    unreadable: Unknown | None = None
    """A failed read on which the configs depend, or a source topic that may exist unseen, on which everything
    depends."""
    depth: int = 0
    """Hops from a topic that no flow makes."""
    source: TopicRef | None = None
    """The source of a remote topic."""
    source_partitions: int | None = None
    source_live: int | None = None
    """The source's present number of partitions."""
    undeclared: Undeclared = Undeclared.IGNORE
    """The policy for other overrides."""
    in_no_file: frozenset[str] = frozenset()
    """As in ``SyncedConfigs``."""
    source_declared: bool = False
    """Git declares the source of the copy."""


class DesiredTopics(ByCluster[DesiredTopic]):
    """The desired state of each topic, by name. Among ten thousand topics most differ from a hundred others in their
    name alone, so equal states are kept once, and ``__getitem__`` makes the state of one topic."""

    def __init__(self, alike: Mapping[str, Mapping[str, DesiredTopic]]) -> None:
        """``alike``: cluster -> name -> a state that differs from the topic's own in ``ref`` at most."""
        super().__init__(alike)
        self.alike = alike

    def __getitem__(self, ref: TopicRef) -> DesiredTopic:
        if ref not in self:
            raise KeyError(ref)
        desired = self.alike[ref.cluster][ref.name]
        return desired if desired.ref == ref else replace(desired, ref=ref)


def desired_topics(topology: Topology, live: LiveState, routing: Routing) -> DesiredTopics:
    """The desired topics of each known cluster. A remote topic that git also declares is one desired topic, and its
    declaration wins."""
    topics = _declared(topology, live)
    # By cluster, not by route: a flow of thousands of topics shares them.
    policies = {name: undeclared(layers_of(topology, name)) for name in topology.clusters}
    offers = {name: offer_of(declared) for name, declared in topology.clusters.items()}
    for route in routing.routes:
        source, ref = live.topic(route.source), route.remote
        source_live = len(source.partitions) if source else None
        policy = policies[ref.cluster]
        configs = SyncedConfigs({}) if isinstance(route.configs, Unknown) else route.configs
        remote = DesiredTopic(
            ref=route.remote,
            role=Role.REMOTE,
            reason=Reason(Why.FLOW_MATCHES, f"flow {route.flow} mirrors {route.source}"),
            partitions=route.partitions,
            new_partitions=route.partitions,
            replication_factor=offers[ref.cluster].factor(topology.flows[route.flow].replication_factor),
            new_factor=offers[ref.cluster].factor(route.replication_factor),
            configs=configs.set,
            reset=configs.reset,
            unreadable=_unread(route, route.configs) if isinstance(route.configs, Unknown) else None,
            depth=route.depth,
            source=route.source,
            source_partitions=route.partitions,
            source_live=source_live,
            undeclared=policy if configs.led else Undeclared.IGNORE,
            in_no_file=configs.in_no_file,
            source_declared=route.declared,
        )
        declared = topics[ref.cluster].get(ref.name)
        topics[ref.cluster][ref.name] = _declared_over(replace(declared, ref=ref), remote) if declared else remote
    # Last, and only where nothing else defines the topic: git may declare our own topics.
    for desired in _internal(topology, live):
        topics[desired.ref.cluster].setdefault(desired.ref.name, desired)
    return DesiredTopics({cluster: {name: named[name] for name in sorted(named)} for cluster, named in topics.items()})


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that the layers give a topic; topics with equal declarations and equal live configs share them."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, DesiredConfig]
    undeclared: Undeclared


def _declared(topology: Topology, live: LiveState) -> dict[str, dict[str, DesiredTopic]]:
    """As ``DesiredTopics.alike``, for each known cluster. The layers are applied once for all topics with equal
    declarations and equal live configs."""
    known = {name: cluster for name in sorted(topology.clusters) if (cluster := live.known(name))}
    # Each topic gets the number of its declaration within its file (the file is part of the reason), and each of these
    # numbers the number of the declaration alone.
    numbers: dict[tuple[int, str], int] = {}
    wordings: dict[Hashable, int] = {}
    numbered = {
        name: numbers.setdefault((wordings.setdefault(_said(topic), len(wordings)), topic.where.file), len(numbers))
        for name, topic in topology.topics.items()
    }
    said, words = numbered, [word for word, _ in numbers]
    return {name: _declared_on(topology, cluster, said, words) for name, cluster in known.items()}


def _declared_on(
    topology: Topology, cluster: LiveCluster, said: Mapping[str, int], words: Sequence[int]
) -> dict[str, DesiredTopic]:
    """The declared topics of one cluster, with equal ones shared. ``said``: topic -> number of its declaration;
    ``words``: by that number, the number of its text alone, whatever the file."""
    topics: dict[str, DesiredTopic] = {}
    offer = offer_of(topology.clusters[cluster.name])
    kept: dict[tuple[int, int], DesiredTopic] = {}
    laid: dict[tuple[int, int], _Values] = {}
    here, there = cluster.name, cluster.topics
    for name, topic in topology.topics.items():
        if here not in topic.clusters:
            continue
        live = there.get(topic.name)
        configs = live.configs if live is not None else None
        key = said[name], id(configs)  # ``cluster`` keeps the object, so its id stays unique
        if (desired := kept.get(key)) is None:
            like = words[said[name]], id(configs)
            if (values := laid.get(like)) is None:
                layers = layers_of(topology, here, topic)
                counts = partitions(layers), replication_factor(layers)
                values = laid[like] = _Values(*counts, wanted_configs(layers, configs), undeclared(layers))
            desired = kept[key] = DesiredTopic(
                ref=TopicRef(here, topic.name),
                role=Role.DECLARED,
                reason=Reason(Why.DECLARED, f"declared in {topic.where.file}"),
                partitions=topic.partitions,
                exact=topic.partitions is not None,
                new_partitions=values.partitions,
                replication_factor=offer.factor(topic.replication_factor),
                new_factor=offer.factor(values.replication_factor),
                configs=values.configs,
                undeclared=values.undeclared,
            )
        topics[topic.name] = desired
    return topics


def _said(topic: Topic) -> Hashable:
    """Everything of a topic that ``layers_of`` reads."""
    configs, steps = tuple(topic.configs.items()), tuple(topic.lower_retention_by.items())
    return topic.partitions, topic.replication_factor, topic.class_name, topic.undeclared, configs, steps


def _unread(route: Route, configs: Unknown) -> Unknown:
    if route.unseen is not None:
        return replace(route.unseen, detail=(*route.unseen.detail, str(route.remote)))
    todo = configs.todo or f"Let the plan principal describe the configs of {route.source}."
    return Unknown(f"{route.source} configs", configs.error, todo, (f"{route.remote} configs",))


def _declared_over(declared: DesiredTopic, remote: DesiredTopic) -> DesiredTopic:
    """A topic that is declared and remote: the declaration wins, and fields without one follow the source."""
    return replace(
        declared,
        reason=Reason(Why.DECLARED_REMOTE, f"{declared.reason.text}; also the remote topic of {remote.source}"),
        partitions=declared.partitions or remote.partitions,
        new_partitions=declared.partitions or remote.partitions,
        replication_factor=declared.replication_factor or remote.replication_factor,
        new_factor=declared.replication_factor or remote.new_factor,
        configs={**remote.configs, **declared.configs},
        reset=remote.reset - declared.configs.keys(),
        unreadable=remote.unreadable,
        depth=remote.depth,
        source=remote.source,
        source_partitions=remote.source_partitions,
        source_live=remote.source_live,
        in_no_file=remote.in_no_file - declared.configs.keys(),
        source_declared=remote.source_declared,
    )


def _internal(topology: Topology, live: LiveState) -> list[DesiredTopic]:
    """Topics that mirrors and the audit need. Without a declared factor they get the one of the cluster's own internal
    topics."""
    return [
        *_audit(topology, live),
        *(
            DesiredTopic(
                ref=topic.ref,
                role=Role.INTERNAL,
                reason=Reason(Why.MIRROR_NEEDS, topic.reason),
                partitions=topic.partitions,
                new_partitions=topic.partitions,
                replication_factor=(offer := offer_of(topology.clusters[topic.ref.cluster])).factor(
                    factor := replication_factor(layers_of(topology, topic.ref.cluster))
                ),
                new_factor=offer.factor(factor or internal_factor(cluster)),
                configs=_needed(topic, cluster),
            )
            for topic in internal_topics(topology)
            if (cluster := live.known(topic.ref.cluster))
        ),
    ]


def _needed(topic: InternalTopic, cluster: LiveCluster) -> Mapping[str, DesiredConfig]:
    """An existing heartbeats topic keeps its settings, as with MirrorMaker 2: an application may write records without
    keys to a topic of that name, which a compacted topic would refuse."""
    there = cluster.topics.get(topic.ref.name)
    if topic.ref.name == HEARTBEATS and there is not None:
        kept = {key: value for key, value in there.overrides.items() if key in topic.configs}
        return {key: DesiredConfig(value, "as it is") for key, value in kept.items()}
    return {key: DesiredConfig(value, "needed by the mirror job") for key, value in topic.configs.items()}


def internal_factor(cluster: LiveCluster) -> int:
    """If a cluster shows two brokers, a third may only be down: a topic created with two replicas would keep them, and
    the next outage would stop its writers. With one broker it is one replica, so that nothing asks ten thousand topics
    for more brokers."""
    return cluster.place_for(INTERNAL_FACTOR) if len(cluster.brokers) > 1 else 1


def _audit(topology: Topology, live: LiveState) -> Iterator[DesiredTopic]:
    """The topic of audit records, if git declares one and its cluster is known."""
    place = topology.audit_place()
    cluster = live.known(place.cluster) if place else None
    if place and cluster:
        offer = offer_of(topology.clusters[place.cluster])
        factor = offer.factor(replication_factor(layers_of(topology, place.cluster)))
        yield DesiredTopic(
            ref=place,
            role=Role.INTERNAL,
            reason=Reason(Why.AUDIT, "each run of the reconciler is recorded there"),
            new_partitions=1,
            replication_factor=factor,
            new_factor=factor or offer.factor(internal_factor(cluster)),
            configs={key: DesiredConfig(value, "an audit record is kept") for key, value in AUDIT_CONFIGS.items()},
        )
