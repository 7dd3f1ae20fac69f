"""Strategies for whole worlds: small topologies, with clusters that already hold something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from reconciler.model.environment.flow_settings import ConfigSync
from reconciler.model.environment.topology import TopicDefaults, Topology, Undeclared
from reconciler.model.live import Source
from reconciler.replication.handover import Naming
from tests.support.builders import World, cluster, flow, topic, topology
from tests.support.fakes.cluster import FakeCluster

CLUSTERS = ("a", "b", "c")
NAMES = ("orders", "pay", "log")
VALUES = {
    "retention.ms": ("60000", "604800000", "-1"),
    "cleanup.policy": ("delete", "compact", "compact,delete", "delete,compact"),
    "max.message.bytes": ("1048588", "2000000"),
    "preallocate": ("true", "FALSE"),
    "min.insync.replicas": ("1",),
}
PATTERNS = (".*", "orders", "pay|log", r"a\..*", ".*orders")

configs = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in VALUES.items()})
counts = st.integers(1, 4)
factors = st.none() | st.integers(1, 2)
policies = st.none() | st.sampled_from(Undeclared)


@dataclass(frozen=True)
class LiveParts:
    """What stands on the clusters before a run: (cluster, topic) -> partitions, factor, overrides."""

    topics: dict[tuple[str, str], tuple[int, int, dict[str, str]]]
    broker: dict[str, tuple[str, Source]]

    def build(self) -> World:
        made = World({name: FakeCluster(name, 2, broker_configs=self.broker) for name in CLUSTERS})
        for name in CLUSTERS:  # a topic without overrides lets every broker value be seen
            made.clusters[name].put("__consumer_offsets", 1)
        for (where, name), (partitions, factor, overrides) in self.topics.items():
            made.clusters[where].put(name, partitions, factor).overrides.update(overrides)
        return made


_live_name = st.sampled_from(("orders", "orders", "pay", "a.orders", "b.orders", "b.a.orders", "stray"))
live_parts = st.builds(
    LiveParts,
    topics=st.dictionaries(
        st.tuples(st.sampled_from(CLUSTERS), _live_name), st.tuples(counts, st.just(1), configs), min_size=2, max_size=9
    ),
    broker=st.dictionaries(
        st.sampled_from(("retention.ms", "max.message.bytes")),
        st.tuples(st.sampled_from(("60000", "777777")), st.sampled_from((Source.CLUSTER, Source.STATIC))),
        max_size=1,
    ),
)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    parts: list[Any] = [
        cluster(
            name,
            defaults=TopicDefaults(
                draw(st.none() | counts), draw(st.none() | st.just(1)), draw(configs), undeclared=draw(policies)
            ),
        )
        for name in CLUSTERS
    ]
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        where = draw(st.lists(st.sampled_from(CLUSTERS), min_size=1, unique=True))
        parts.append(
            topic(
                name,
                *where,
                partitions=draw(st.none() | counts),
                replication_factor=draw(factors),
                configs=draw(configs),
                undeclared=draw(policies),
            )
        )
    ways = st.tuples(st.sampled_from(CLUSTERS), st.sampled_from(CLUSTERS)).filter(lambda way: way[0] != way[1])
    for source, target in draw(st.lists(ways, unique=True, min_size=1, max_size=4)):
        parts.append(
            flow(
                source,
                target,
                *draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2)),
                naming=Naming(draw(st.sampled_from(("default", "default", "identity")))),
                replication_factor=draw(st.none() | st.just(1)),
                configs=ConfigSync(
                    draw(st.booleans()),
                    use_defaults_from=draw(st.sampled_from(("source", "target"))),
                    carry_undeclared_limits=draw(st.booleans()),
                ),
            )
        )
    return topology(*parts)
