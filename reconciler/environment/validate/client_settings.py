"""Validates client settings, with their line: those that no client is given, and those that the mirror cannot honour.

The first of every cluster and principal, the second of clusters that a flow joins: others may be spoken to by
librdkafka alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.parse.values import has_reference
from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.kafka.client.auth.supported_settings import Refusal, forbidden, refusals
from reconciler.model.environment.topology import Cluster, Principal, Topology

_PATH = "spark.mirror.path"


def check_connections(topology: Topology, places: Places) -> Iterator[Problem]:
    mirrored = {name for flow in topology.flows.values() for name in (flow.source, flow.target)}
    for name in sorted(topology.clusters):
        cluster = topology.clusters[name]
        given = {("client",): cluster.client} | {("principals", who.value): s for who, s in cluster.principals.items()}
        for path, settings in given.items():
            code = "setting-not-allowed"
            for refusal in forbidden(settings):
                yield _problem(code, places, cluster, refusal, path)
        if name not in mirrored:
            continue
        client = cluster.client_for(Principal.MIRROR)
        no_client = forbidden(client)
        for refusal in refusals({key: None if has_reference(value) else value for key, value in client.items()}):
            of_mirror = refusal.setting in cluster.principals.get(Principal.MIRROR, {})
            path = ("principals", "mirror") if of_mirror else ("client",)
            code = "setting-not-mirrored"
            if refusal not in no_client:
                yield _problem(code, places, cluster, refusal, path)


def _problem(code: str, places: Places, cluster: Cluster, refusal: Refusal, path: tuple[str, ...]) -> Problem:
    where = places.of(cluster, *path, refusal.setting)
    return Problem(code, where, f"cluster {cluster.name}: {refusal.what}", refusal.why, refusal.todo)


def check_one_path(topology: Topology, places: Places) -> Iterator[Problem]:
    """An earlier release let a mirror be held to a second way of copying. Its default word still stands for what is."""
    for mirror in topology.mirrors.values():
        asked = mirror.spark_conf.get(_PATH, "batch")
        if asked != "batch":
            problem = f'mirror {mirror.name}: {_PATH} is "{asked}"'
            why = "There is one way of copying now; it goes record by record by itself where whole batches cannot go"
            todo = "Remove it. Apply then replaces the running job, which goes on from its positions"
            yield Problem("one-path", places.of(mirror, "spark_conf", _PATH), problem, why, todo)
