"""Validates client settings, with their line: those that no client is given, those that nobody can log in with, and
those that our own connections cannot honour, which read and write the lock on every cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.parse.values import has_reference
from reconciler.environment.yaml.locations import Places
from reconciler.errors import Problem
from reconciler.kafka.client.auth.supported_settings import Refusal, forbidden, refusals, useless
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
        said: set[Refusal] = set()
        for who in _logins(cluster, mirrored=name in mirrored):
            client = {key: None if has_reference(value) else value for key, value in cluster.client_for(who).items()}
            no_login, unhonoured = useless(client), refusals(client)
            for refusal in dict.fromkeys((*no_login, *unhonoured)):
                if refusal in said or refusal in forbidden(client):
                    continue
                said.add(refusal)
                own = refusal.setting in cluster.principals.get(who, {})
                path = ("principals", who.value) if own else ("client",)
                ours = refusal in unhonoured and (who is Principal.MIRROR or refusal not in no_login)
                code = "setting-not-mirrored" if ours else "login-impossible"
                yield _problem(code, places, cluster, refusal, path)


def _logins(cluster: Cluster, mirrored: bool) -> Iterator[Principal]:
    """Whose login is judged: of principals that have settings of their own, else of the one that all have together; of
    the mirror on each side of a flow. Of two that refuse the same, the mirror says it."""
    if mirrored:
        yield Principal.MIRROR
    others = [who for who in cluster.principals if who is not Principal.MIRROR]
    yield from others or ([] if mirrored else [Principal.PLAN])


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
