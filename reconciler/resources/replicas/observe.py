"""A closer look at the replicas of clusters where they may matter, so that a plan without such changes pays nothing.

They matter when a wished factor is not plainly there, and when a topic names throttled replicas: a reassignment sets
those before it begins and clears them last. Border: asks through the ports; compares nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

from reconciler.errors import ReconcilerError, Unknown
from reconciler.layers import layers_of, replication_factor
from reconciler.live import LiveCluster, LiveState, LiveTopic, Source
from reconciler.ports import ClusterReader
from reconciler.prospects import different_configs
from reconciler.replicas import THROTTLED_REPLICAS, ReplicaFacts
from reconciler.topology import Topology
from replication.names import STATUS_TOPIC


def look_closer(topology: Topology, live: LiveState, readers: Mapping[str, ClusterReader]) -> LiveState:
    """``live`` with the replicas of the clusters where they matter; a look that fails is Unknown for that cluster."""
    wanted = {name: found for name in readers if (found := live.known(name)) and matter(topology, found)}
    if not wanted:
        return live
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        facts = dict(
            zip(wanted, pool.map(lambda name: facts_of(readers[name], topology.environment), wanted), strict=True)
        )
    looked = {name: replace(found, replicas=facts[name]) for name, found in wanted.items()}
    return LiveState(MappingProxyType({**live.clusters, **looked}), live.mirrors)


def matter(topology: Topology, cluster: LiveCluster) -> bool:
    """Says yes rather too often: topics of a flow's target are not told apart here."""
    wanted = dict(_wanted(topology, cluster.name))
    flows = {flow.replication_factor for flow in topology.flows.values() if flow.target == cluster.name} - {None}
    told = (found.get(key) for found in different_configs(cluster) for key in THROTTLED_REPLICAS)
    if any(one is not None and one.source is Source.TOPIC and one.value for one in told):
        return True
    if not wanted and not flows:
        return False
    for topic in cluster.topics.values():
        named = wanted.get(topic.name)
        factors = {named} if named else set() if topic.internal or topic.name.startswith("__") else flows
        if any(not _plain(topic, factor) for factor in factors):
            return True
    return False


def _wanted(topology: Topology, cluster: str) -> Iterator[tuple[str, int]]:
    if factor := replication_factor(layers_of(topology, cluster)):
        yield STATUS_TOPIC, factor
    for topic in topology.topics.values():
        if topic.replication_factor and cluster in topic.clusters:
            yield topic.name, topic.replication_factor


def _plain(topic: LiveTopic, factor: int | None) -> bool:
    return all(len(part.replicas) == factor == len(part.isr) for part in topic.partitions)


def facts_of(reader: ClusterReader, environment: str) -> ReplicaFacts | Unknown:
    try:
        return reader.replica_facts(environment)
    except ReconcilerError as error:
        return Unknown(f"replicas of {reader.name}", ". ".join(filter(None, (error.what, error.why))), error.todo)
