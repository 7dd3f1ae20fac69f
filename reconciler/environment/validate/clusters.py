"""Validates clusters: addresses, one cluster under one name, layers that fit together.

Imports little, so that reads of clusters can begin before most of the program is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem, Where
from reconciler.kafka.address import host_port
from reconciler.model.environment.topology import Cluster, Topology
from reconciler.resources.topics.defaults import configs, layers_of, replication_factor
from reconciler.resources.topics.limits import min_insync_above


def check_clusters(topology: Topology, places: Places) -> Iterator[Problem]:
    by_bootstrap: dict[str, Cluster] = {}
    for cluster in sorted(topology.clusters.values(), key=lambda cluster: cluster.name):
        for index, server in enumerate(cluster.bootstrap_servers):
            try:
                host_port(server)
            except ValueError as error:
                where, why = (
                    places.of(cluster, "bootstrap_servers", index),
                    "Credentials would go there, wherever it is",
                )
                yield Problem("bad-value", where, f"cluster {cluster.name}: {error}", why, "Write host:port")
            other = by_bootstrap.setdefault(server.lower(), cluster)
            if other is not cluster:
                where = places.of(cluster, "bootstrap_servers", index)
                yield _same_cluster(where, cluster, other, f"the bootstrap server {server}")
        if cluster.cluster_id is not None:
            other = by_bootstrap.setdefault(f"id {cluster.cluster_id}", cluster)
            if other is not cluster:
                shared = f"the cluster_id {cluster.cluster_id}"
                yield _same_cluster(places.of(cluster, "cluster_id"), cluster, other, shared)
        yield from _durability(topology, places, cluster)


def _same_cluster(where: Where, cluster: Cluster, other: Cluster, shared: str) -> Problem:
    problem = f"the clusters {other.name} and {cluster.name} both have {shared}"
    why = "One cluster under two aliases would be mirrored onto itself without the cycle rule seeing it"
    return Problem("same-cluster-twice", where, problem, why, "Keep one of the two, or correct the address")


def _durability(topology: Topology, places: Places, cluster: Cluster) -> Iterator[Problem]:
    """min.insync.replicas above the replication factor, which no broker can keep."""
    layers = layers_of(topology, cluster.name)
    wanted, factor = configs(layers).get("min.insync.replicas"), replication_factor(layers)
    if wanted is not None and factor is not None and _above(wanted.value, factor):
        at_cluster = wanted.layer.values is cluster.defaults
        where = places.of(cluster, "defaults", "configs", "min.insync.replicas") if at_cluster else wanted.layer.where
        yield _too_few_replicas(f"cluster {cluster.name}: defaults", wanted.value, factor, where)
        return
    classes = topology.rules.classes.values()
    shared = wanted is not None or any("min.insync.replicas" in defaults.configs for defaults in classes)
    for topic in topology.topics.values():
        if cluster.name not in topic.clusters or not (shared or "min.insync.replicas" in topic.configs):
            continue
        layers = layers_of(topology, cluster.name, topic)
        least, factor = configs(layers).get("min.insync.replicas"), replication_factor(layers)
        if least is not None and factor is not None and _above(least.value, factor):
            key = "configs" if "min.insync.replicas" in topic.configs else "replication_factor"
            where = places.of(topic, key)
            yield _too_few_replicas(f"topic {topic.name} on {cluster.name}", least.value, factor, where)


def _above(least: str, factor: int) -> bool:
    return bool(re.fullmatch("[0-9]+", least)) and int(least) > factor


def _too_few_replicas(subject: str, least: str, factor: int, where: Where) -> Problem:
    problem = f"{subject}: min.insync.replicas is {least}, replication_factor is {factor}"
    why = min_insync_above(factor)
    return Problem("too-few-replicas", where, problem, why, "Raise replication_factor or lower min.insync.replicas")
