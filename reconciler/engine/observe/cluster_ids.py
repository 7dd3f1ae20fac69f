"""Checks cluster ids: each address leads to the declared cluster, and no two to the same one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.model.changes import Why
from reconciler.model.environment.topology import Topology
from reconciler.model.live import LiveState
from reconciler.text import grouped


@dataclass(frozen=True, slots=True)
class WrongCluster:
    """Why nothing is concluded from what answered under an alias."""

    code: Why
    what: str
    todo: str


def strangers(topology: Topology, live: LiveState) -> Mapping[str, WrongCluster]:
    """By alias. Clusters that did not answer are no strangers."""
    answered = {name: cluster.cluster_id for name in sorted(topology.clusters) if (cluster := live.known(name))}
    aliases = grouped((cluster_id, name) for name, cluster_id in answered.items())
    strange: dict[str, WrongCluster] = {}
    for name, cluster_id in answered.items():
        declared = topology.clusters[name].cluster_id
        others = [other for other in aliases[cluster_id] if other != name]
        if declared not in (None, cluster_id):
            strange[name] = WrongCluster(
                Why.WRONG_CLUSTER_ID,
                f"cluster {name} is declared with cluster_id {declared}, but {cluster_id} answered; this may be another"
                " cluster",
                f"Correct bootstrap_servers or cluster_id of {name}; look for a tunnel or an old address",
            )
        elif declared is None and others:
            strange[name] = WrongCluster(
                Why.SAME_CLUSTER_TWICE,
                f"cluster {name} and cluster {' and '.join(others)} are one: {cluster_id} answers at the addresses of"
                " each. It would be mirrored onto itself without the cycle rule seeing it",
                f"Correct bootstrap_servers of {name}, or keep one alias; cluster_id in git says which is which",
            )
    return strange
