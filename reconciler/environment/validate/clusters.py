"""Rules over clusters: addresses that can be, one cluster under one name, and values of layers that fit together.

Border: as ``checking``, and imports little, so that reads of clusters can begin before most of the program is imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reconciler.errors import Problem, Where
from reconciler.layers import configs, layers_of, replication_factor
from reconciler.places import Places, Step
from reconciler.topology import Cluster, Topology


def check_clusters(topology: Topology, places: Places) -> Iterator[Problem]:
    seen: dict[str, Cluster] = {}
    for cluster in sorted(topology.clusters.values(), key=lambda cluster: cluster.name):
        for index, server in enumerate(cluster.bootstrap_servers):
            host, _, port = server.rpartition(":")
            if not 0 < int(port) < 65_536:
                where = _at(places, cluster, "bootstrap_servers", index)
                what = f"cluster {cluster.name}: the port {port} of {host} is out of range"
                yield Problem("out-of-range", where, what, "Ports go from 1 to 65535", "Mend the port")
            other = seen.setdefault(server.lower(), cluster)
            if other is not cluster:
                yield _same_cluster(
                    places, cluster, other, f"the bootstrap server {server}", "bootstrap_servers", index
                )
        if cluster.cluster_id is not None:
            other = seen.setdefault(f"id {cluster.cluster_id}", cluster)
            if other is not cluster:
                yield _same_cluster(places, cluster, other, f"the cluster_id {cluster.cluster_id}", "cluster_id")
        yield from _durability(topology, places, cluster)


def _same_cluster(places: Places, cluster: Cluster, other: Cluster, shared: str, *path: Step) -> Problem:
    return Problem(
        "same-cluster-twice",
        _at(places, cluster, *path),
        f"the clusters {other.name} and {cluster.name} both have {shared}",
        "One cluster under two aliases would be mirrored onto itself without the cycle rule seeing it",
        "Keep one of the two, or mend the address",
    )


def _durability(topology: Topology, places: Places, cluster: Cluster) -> Iterator[Problem]:
    """min.insync.replicas above the replication factor: producers with acks=all could never write."""
    layers = layers_of(topology, cluster.name)
    wanted, factor = configs(layers).get("min.insync.replicas"), replication_factor(layers)
    if wanted is not None and _above(wanted.value, factor):
        at_cluster = wanted.layer.values is cluster.defaults
        where = _at(places, cluster, "defaults", "configs", "min.insync.replicas") if at_cluster else wanted.layer.where
        yield _too_few_replicas(f"cluster {cluster.name}: defaults", wanted.value, factor, where)
        return
    shared = wanted is not None or any("min.insync.replicas" in one.configs for one in topology.rules.classes.values())
    for topic in topology.topics.values():
        if cluster.name not in topic.clusters or not (shared or "min.insync.replicas" in topic.configs):
            continue
        layers = layers_of(topology, cluster.name, topic)
        least, factor = configs(layers).get("min.insync.replicas"), replication_factor(layers)
        if least is not None and _above(least.value, factor):
            key = "configs" if "min.insync.replicas" in topic.configs else "replication_factor"
            where = places.find("topics", topic.name, key, or_else=topic.where)
            yield _too_few_replicas(f"topic {topic.name} on {cluster.name}", least.value, factor, where)


def _above(least: str, factor: int | None) -> bool:
    return factor is not None and bool(re.fullmatch("[0-9]+", least)) and int(least) > factor


def _too_few_replicas(subject: str, least: str, factor: int | None, where: Where) -> Problem:
    return Problem(
        "too-few-replicas",
        where,
        f"{subject}: min.insync.replicas is {least}, replication_factor is {factor}",
        "Producers with acks=all could never write",
        "Raise replication_factor or lower min.insync.replicas",
    )


def _at(places: Places, cluster: Cluster, *path: Step) -> Where:
    return places.find("clusters", cluster.name, *path, or_else=cluster.where)
