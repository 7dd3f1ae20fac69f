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
from reconciler.resources.topics.config_sync import SyncedConfigs
from reconciler.resources.topics.defaults import layers_of, partitions, replication_factor, undeclared
from reconciler.resources.topics.expected import DesiredConfig, wanted_configs
from reconciler.resources.topics.internal import INTERNAL_FACTOR, InternalTopic, internal_topics

AUDIT_CONFIGS: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class DesiredTopic:
    """``source`` is set for remote topics. ``partitions`` None: the broker decides.

    ``exact``: a larger live count contradicts it. ``new_partitions``, ``new_factor`` hold only for a topic that
    does not exist yet. ``unreadable`` takes the place of configs that depend on a failed read, and of all
    that depends on a source topic that may be there unseen. ``source_live``: how many partitions the source has now.
    ``undeclared``: what becomes of other overrides. ``in_no_file``: as in ``SyncedConfigs``; ``source_declared``: git
    declares the topic that it is a copy of.
    """

    ref: TopicRef
    role: Role
    reason: Reason
    partitions: int | None = None
    exact: bool = False
    new_partitions: int | None = None
    replication_factor: int | None = None
    new_factor: int | None = None
    configs: Mapping[str, DesiredConfig] = field(default_factory=dict)
    reset: frozenset[str] = frozenset()
    unreadable: Unknown | None = None
    depth: int = 0
    source: TopicRef | None = None
    source_partitions: int | None = None
    source_live: int | None = None
    undeclared: Undeclared = Undeclared.IGNORE
    in_no_file: frozenset[str] = frozenset()
    source_declared: bool = False


class DesiredTopics(Mapping[TopicRef, DesiredTopic]):
    """One desired state for each topic, by name. Of ten thousand topics most have the same desired state as a hundred
    others, so states that differ only in their topic are kept once, and the state of one topic is made on access."""

    def __init__(self, alike: Mapping[str, Mapping[str, DesiredTopic]]) -> None:
        """``alike``: by cluster and name, each equal to the desired state of its topic in all but ``ref``."""
        self.alike = alike

    def __getitem__(self, ref: TopicRef) -> DesiredTopic:
        if ref not in self:
            raise KeyError(ref)
        desired = self.alike[ref.cluster][ref.name]
        return desired if desired.ref == ref else replace(desired, ref=ref)

    def __iter__(self) -> Iterator[TopicRef]:
        return (TopicRef(cluster, name) for cluster, named in self.alike.items() for name in named)

    def __len__(self) -> int:
        return sum(map(len, self.alike.values()))

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, TopicRef) and ref.name in self.alike.get(ref.cluster, ())


def desired_topics(topology: Topology, live: LiveState, routing: Routing) -> DesiredTopics:
    """For each topic of a known cluster. A declared remote topic is one desired state in which the declared wins."""
    topics = _declared(topology, live)
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
    # Last, and only where nothing else says how the topic is to be: git may declare our own topics.
    for desired in _internal(topology, live):
        topics[desired.ref.cluster].setdefault(desired.ref.name, desired)
    return DesiredTopics({cluster: {name: named[name] for name in sorted(named)} for cluster, named in topics.items()})


@dataclass(frozen=True, slots=True)
class _Values:
    """What the layers give a topic; the same for all topics that say the same and have the same."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, DesiredConfig]
    undeclared: Undeclared


def _declared(topology: Topology, live: LiveState) -> dict[str, dict[str, DesiredTopic]]:
    """As ``DesiredTopics.alike``, for each known cluster: the layers are laid once for all topics that say the same and
    have the same."""
    known = {name: cluster for name in sorted(topology.clusters) if (cluster := live.known(name))}
    # Topic -> a number that it shares with those of its file that say the same, and by that number one that all share
    # that say the same.
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
        key = said[name], id(configs)  # of an object that ``cluster`` keeps
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
    """All that ``layers_of`` looks at in a topic."""
    configs, steps = tuple(topic.configs.items()), tuple(topic.lower_retention_by.items())
    return topic.partitions, topic.replication_factor, topic.class_name, topic.undeclared, configs, steps


def _unread(route: Route, configs: Unknown) -> Unknown:
    if route.unseen is not None:
        return replace(route.unseen, detail=(*route.unseen.detail, str(route.remote)))
    todo = configs.todo or f"Let the plan principal describe the configs of {route.source}."
    return Unknown(f"{route.source} configs", configs.error, todo, (f"{route.remote} configs",))


def _declared_over(declared: DesiredTopic, remote: DesiredTopic) -> DesiredTopic:
    """A declared topic that is also a remote one: what the file says wins, and what it leaves out follows the
    source."""
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
    """Topics that mirrors and the audit need. Their factor is as declared, or as the cluster's own internal topics have
    it."""
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
    """An existing heartbeats topic keeps its settings, as with MirrorMaker 2: a compacted one would refuse records
    without a key, which an application may send to a topic of that name."""
    there = cluster.topics.get(topic.ref.name)
    if topic.ref.name == HEARTBEATS and there is not None:
        kept = {key: value for key, value in there.overrides.items() if key in topic.configs}
        return {key: DesiredConfig(value, "as it is") for key, value in kept.items()}
    return {key: DesiredConfig(value, "needed by the mirror job") for key, value in topic.configs.items()}


def internal_factor(cluster: LiveCluster) -> int:
    """Of two brokers a third may only be away: with two replicas for good, the next outage would stop their writers.
    A cluster that shows one broker gets one replica, without asking ten thousand topics whether there were more."""
    return cluster.place_for(INTERNAL_FACTOR) if len(cluster.brokers) > 1 else 1


def _audit(topology: Topology, live: LiveState) -> Iterator[DesiredTopic]:
    """The topic of audit records, where one is declared and its cluster is known."""
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
