"""Which topics are wished where, and why: declared in git, remote topics of flows, and what mirror jobs need."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.changes import Reason, Role
from reconciler.errors import Unknown
from reconciler.internal_topics import INTERNAL_FACTOR, internal_topics
from reconciler.layers import Layers, layers_of, partitions, replication_factor
from reconciler.live import LiveCluster, LiveState
from reconciler.prospects import Configs, Wanted, wanted_configs
from reconciler.routing import Route, Routing
from reconciler.topology import Topic, TopicRef, Topology

AUDIT_CONFIGS: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class TopicWish:
    """``source`` is set for remote topics. ``partitions`` None: the broker decides.

    ``exact``: a larger live count contradicts the wish. ``new_partitions``, ``new_factor`` hold only for a topic that
    does not exist yet. ``unreadable`` stands in for configs that depend on a failed read, and for all
    that depends on a source topic that may be there unseen. ``source_live``: how many partitions the source has now.
    """

    ref: TopicRef
    role: Role
    reason: Reason
    partitions: int | None = None
    exact: bool = False
    new_partitions: int | None = None
    replication_factor: int | None = None
    new_factor: int | None = None
    configs: Mapping[str, Wanted] = field(default_factory=dict)
    reset: frozenset[str] = frozenset()
    unreadable: Unknown | None = None
    depth: int = 0
    source: TopicRef | None = None
    source_partitions: int | None = None
    source_live: int | None = None


class TopicWishes(Mapping[TopicRef, TopicWish]):
    """One wish for each topic, in order of their names. Of ten thousand topics most wish what a hundred others do, so
    wishes that differ in nothing but their topic are kept once, and a topic's own is made when somebody asks."""

    def __init__(self, alike: Mapping[str, Mapping[str, TopicWish]]) -> None:
        """``alike``: by cluster and name, each equal to the wish of its topic in all but ``ref``."""
        self.alike = alike

    def __getitem__(self, ref: TopicRef) -> TopicWish:
        if ref not in self:
            raise KeyError(ref)
        found = self.alike[ref.cluster][ref.name]
        return found if found.ref == ref else replace(found, ref=ref)

    def __iter__(self) -> Iterator[TopicRef]:
        return (TopicRef(cluster, name) for cluster, named in self.alike.items() for name in named)

    def __len__(self) -> int:
        return sum(map(len, self.alike.values()))

    def __contains__(self, ref: object) -> bool:
        return isinstance(ref, TopicRef) and ref.name in self.alike.get(ref.cluster, ())


def wishes(topology: Topology, live: LiveState, routing: Routing) -> TopicWishes:
    """For each topic of a known cluster. A declared remote topic is one wish in which the declared wins."""
    found = _declared(topology, live)
    for route in routing.routes:
        ref, remote = route.remote, _remote(topology, route, _live_partitions(live, route.source))
        declared = found[ref.cluster].get(ref.name)
        found[ref.cluster][ref.name] = _declared_over(replace(declared, ref=ref), remote) if declared else remote
    for wish in _internal(topology, live):
        found[wish.ref.cluster].setdefault(wish.ref.name, wish)
    return TopicWishes({cluster: {name: named[name] for name in sorted(named)} for cluster, named in found.items()})


@dataclass(frozen=True, slots=True)
class _Values:
    """What the layers give a topic; the same for all topics that say the same and have the same."""

    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, Wanted]


def _declared(topology: Topology, live: LiveState) -> dict[str, dict[str, TopicWish]]:
    """As ``TopicWishes.alike``, for each known cluster: the layers are laid once for all topics that say the same and
    have the same."""
    known = {name: one for name in sorted(topology.clusters) if (one := live.known(name))}
    said, words = _sayings(topology)
    return {name: _declared_on(topology, cluster, said, words) for name, cluster in known.items()}


def _declared_on(
    topology: Topology, cluster: LiveCluster, said: Mapping[str, int], words: Sequence[int]
) -> dict[str, TopicWish]:
    found: dict[str, TopicWish] = {}
    kept: dict[tuple[int, int], TopicWish] = {}
    laid: dict[tuple[int, int], _Values] = {}
    here, there = cluster.name, cluster.topics
    for name, topic in topology.topics.items():
        if here not in topic.clusters:
            continue
        live = there.get(topic.name)
        configs = live.configs if live is not None else None
        key = said[name], id(configs)  # of an object that ``cluster`` keeps
        if (wish := kept.get(key)) is None:
            like = words[said[name]], id(configs)
            values = laid.get(like) or laid.setdefault(like, _lay(layers_of(topology, here, topic), configs))
            wish = kept[key] = _wish(TopicRef(here, topic.name), topic, values)
        found[topic.name] = wish
    return found


def _wish(ref: TopicRef, topic: Topic, values: _Values) -> TopicWish:
    return TopicWish(
        ref=ref,
        role=Role.DECLARED,
        reason=Reason("declared", f"declared in {topic.where.file}"),
        partitions=topic.partitions,
        exact=topic.partitions is not None,
        new_partitions=values.partitions,
        replication_factor=topic.replication_factor,
        new_factor=values.replication_factor,
        configs=values.configs,
    )


def _sayings(topology: Topology) -> tuple[dict[str, int], Sequence[int]]:
    """Topic -> a number that it shares with those of its file that say the same, and by that number one that all
    share that say the same."""
    numbers: dict[tuple[int, str], int] = {}
    words: dict[Hashable, int] = {}
    said = {
        name: numbers.setdefault((words.setdefault(_said(topic), len(words)), topic.where.file), len(numbers))
        for name, topic in topology.topics.items()
    }
    return said, [word for word, _ in numbers]


def _said(topic: Topic) -> Hashable:
    """All that ``layers_of`` looks at in a topic."""
    configs, steps = tuple(topic.configs.items()), tuple(topic.lower_retention_by.items())
    return topic.partitions, topic.replication_factor, topic.class_name, configs, steps


def _lay(layers: Layers, there: Configs | None) -> _Values:
    return _Values(partitions(layers), replication_factor(layers), wanted_configs(layers, there))


def _live_partitions(live: LiveState, ref: TopicRef) -> int | None:
    cluster = live.known(ref.cluster)
    found = cluster.topics.get(ref.name) if cluster else None
    return len(found.partitions) if found else None


def _remote(topology: Topology, route: Route, source_live: int | None) -> TopicWish:
    known = not isinstance(route.configs, Unknown)
    return TopicWish(
        ref=route.remote,
        role=Role.REMOTE,
        reason=Reason("flow-matches", f"flow {route.flow} mirrors {route.source}"),
        partitions=route.partitions,
        new_partitions=route.partitions,
        replication_factor=topology.flows[route.flow].replication_factor,
        new_factor=route.replication_factor,
        configs={} if isinstance(route.configs, Unknown) else route.configs.set,
        reset=route.configs.reset if not isinstance(route.configs, Unknown) else frozenset(),
        unreadable=None if known else _unread(route),
        depth=route.depth,
        source=route.source,
        source_partitions=route.partitions,
        source_live=source_live,
    )


def _unread(route: Route) -> Unknown:
    assert isinstance(route.configs, Unknown)
    if route.unseen is not None:
        return replace(route.unseen, detail=(*route.unseen.detail, str(route.remote)))
    return Unknown(
        f"{route.source} configs",
        route.configs.error,
        route.configs.todo or f"Let the plan principal describe the configs of {route.source}.",
        (f"{route.remote} configs",),
    )


def _declared_over(declared: TopicWish, remote: TopicWish) -> TopicWish:
    return replace(
        declared,
        reason=Reason("declared-remote", f"{declared.reason.text}; also the remote topic of {remote.source}"),
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
    )


def _internal(topology: Topology, live: LiveState) -> list[TopicWish]:
    return [
        *_audit(topology, live),
        *(
            TopicWish(
                ref=topic.ref,
                role=Role.INTERNAL,
                reason=Reason("mirror-needs", topic.reason),
                partitions=topic.partitions,
                new_partitions=topic.partitions,
                replication_factor=replication_factor(layers_of(topology, topic.ref.cluster)),
                new_factor=replication_factor(layers_of(topology, topic.ref.cluster)) or internal_factor(cluster),
                configs={key: Wanted(value, "needed by the mirror job") for key, value in topic.configs.items()},
            )
            for topic in internal_topics(topology)
            if (cluster := live.known(topic.ref.cluster))
        ),
    ]


def internal_factor(cluster: LiveCluster) -> int:
    """Of two brokers a third may only be away: with two replicas for good, the next outage would stop their writers.
    Of one nobody asks ten thousand topics whether there were more."""
    return cluster.place_for(INTERNAL_FACTOR) if len(cluster.brokers) > 1 else 1


def _audit(topology: Topology, live: LiveState) -> Iterator[TopicWish]:
    place = topology.audit_place()
    cluster = live.known(place.cluster) if place else None
    if place and cluster:
        factor = replication_factor(layers_of(topology, place.cluster))
        yield TopicWish(
            ref=place,
            role=Role.INTERNAL,
            reason=Reason("audit", "each run of the reconciler is recorded there"),
            new_partitions=1,
            replication_factor=factor,
            new_factor=factor or internal_factor(cluster),
            configs={key: Wanted(value, "an audit record is kept") for key, value in AUDIT_CONFIGS.items()},
        )
