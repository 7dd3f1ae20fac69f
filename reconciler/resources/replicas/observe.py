"""Reads details of replicas, only on clusters where a plan may change them.

They matter if a topic lacks its desired factor, or has throttled replicas, which a reassignment sets first and clears
last.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

from reconciler.errors import Unknown, or_unknown_why
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveCluster, LiveState, Source, different_configs
from reconciler.model.ports import ClusterReader
from reconciler.model.replicas import THROTTLED_REPLICAS, ReplicaFacts
from reconciler.replication.names import is_reserved
from reconciler.resources.topics.defaults import layers_of, replication_factor


def with_replicas(topology: Topology, live: LiveState, readers: Mapping[str, ClusterReader]) -> LiveState:
    """``live`` with replicas of clusters where they matter; a failed read is Unknown for its cluster."""
    wanted = {name: cluster for name in readers if (cluster := live.known(name)) and matter(topology, cluster)}
    if not wanted:
        return live
    with ThreadPoolExecutor(max_workers=len(wanted)) as pool:
        facts = pool.map(lambda name: facts_of(readers[name], topology.environment), wanted)
        looked = {name: replace(wanted[name], replicas=known) for name, known in zip(wanted, facts, strict=True)}
    return LiveState(MappingProxyType({**live.clusters, **looked}), live.mirrors)


def matter(topology: Topology, cluster: LiveCluster) -> bool:
    """Whether replicas of a cluster matter. Errs towards True, because remote topics of flows are not computed here."""
    declared: list[tuple[str, int]] = []
    if factor := replication_factor(layers_of(topology, cluster.name)):
        declared.append((topology.clusters[cluster.name].own_topics.status, factor))
    for entry in topology.topics.values():
        if entry.replication_factor and cluster.name in entry.clusters:
            declared.append((entry.name, entry.replication_factor))
    wanted = dict(declared)
    flows = {flow.replication_factor for flow in topology.flows.values() if flow.target == cluster.name} - {None}
    configs = (configs.get(key) for configs in different_configs(cluster) for key in THROTTLED_REPLICAS)
    if any(config is not None and config.source is Source.TOPIC and config.value for config in configs):
        return True
    if not wanted and not flows:
        return False
    for topic in cluster.topics.values():
        named = wanted.get(topic.name)
        factors = {named} if named else set() if topic.internal or is_reserved(topic.name) else flows
        parts = topic.partitions
        if any(len(part.replicas) != factor or len(part.isr) != factor for factor in factors for part in parts):
            return True
    return False


def facts_of(reader: ClusterReader, environment: str) -> ReplicaFacts | Unknown:
    return or_unknown_why(f"replicas of {reader.name}", lambda: reader.replica_facts(environment))
