"""Client settings that the mirror cannot honour, told with their line before anything is opened.

Only of clusters that a flow joins: others are spoken to by librdkafka alone, which knows all of its settings.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.errors import Problem, Where
from reconciler.places import Places
from reconciler.settings import has_reference
from reconciler.topology import Cluster, Principal, Topology
from wire.security import refusals

_PATH = "spark.mirror.path"


def check_connections(topology: Topology, places: Places) -> Iterator[Problem]:
    mirrored = {name for flow in topology.flows.values() for name in (flow.source, flow.target)}
    for name in sorted(mirrored & topology.clusters.keys()):
        cluster = topology.clusters[name]
        client = cluster.client_for(Principal.MIRROR)
        for found in refusals({key: None if has_reference(value) else value for key, value in client.items()}):
            where = _place(cluster, found.setting, places)
            yield Problem("setting-not-mirrored", where, f"cluster {name}: {found.what}", found.why, found.todo)


def check_one_path(topology: Topology, places: Places) -> Iterator[Problem]:
    """An earlier release let a mirror be held to a second way of copying. Its default word still stands for what is."""
    for mirror in topology.mirrors.values():
        asked = mirror.spark_conf.get(_PATH, "batch")
        if asked != "batch":
            yield Problem(
                "one-path",
                places.find("mirrors", mirror.name, "spark_conf", _PATH, or_else=mirror.where),
                f'mirror {mirror.name}: {_PATH} is "{asked}"',
                "There is one way of copying now; it goes record by record by itself where whole batches cannot go",
                "Remove it. Apply then replaces the running job, which goes on from its positions",
            )


def _place(cluster: Cluster, setting: str, places: Places) -> Where:
    of_mirror = setting in cluster.principals.get(Principal.MIRROR, {})
    path = ("principals", Principal.MIRROR.value, setting) if of_mirror else ("client", setting)
    return places.find("clusters", cluster.name, *path, or_else=cluster.where)
