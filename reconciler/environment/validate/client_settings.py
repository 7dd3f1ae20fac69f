"""Validates client settings: those that the mirror job cannot honour, with their line.

Only of clusters that a flow joins: others are spoken to by librdkafka alone, which knows all of its settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.parse.values import has_reference
from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.kafka.client.auth.supported_settings import refusals
from reconciler.model.environment.topology import Principal, Topology

_PATH = "spark.mirror.path"


def check_connections(topology: Topology, places: Places) -> Iterator[Problem]:
    mirrored = {name for flow in topology.flows.values() for name in (flow.source, flow.target)}
    for name in sorted(mirrored & topology.clusters.keys()):
        cluster = topology.clusters[name]
        client = cluster.client_for(Principal.MIRROR)
        for refusal in refusals({key: None if has_reference(value) else value for key, value in client.items()}):
            of_mirror = refusal.setting in cluster.principals.get(Principal.MIRROR, {})
            where = places.of(cluster, *(("principals", "mirror") if of_mirror else ("client",)), refusal.setting)
            yield Problem("setting-not-mirrored", where, f"cluster {name}: {refusal.what}", refusal.why, refusal.todo)


def check_one_path(topology: Topology, places: Places) -> Iterator[Problem]:
    """An earlier release let a mirror be held to a second way of copying. Its default word still stands for what is."""
    for mirror in topology.mirrors.values():
        asked = mirror.spark_conf.get(_PATH, "batch")
        if asked != "batch":
            problem = f'mirror {mirror.name}: {_PATH} is "{asked}"'
            why = "There is one way of copying now; it goes record by record by itself where whole batches cannot go"
            todo = "Remove it. Apply then replaces the running job, which goes on from its positions"
            yield Problem("one-path", places.of(mirror, "spark_conf", _PATH), problem, why, todo)
