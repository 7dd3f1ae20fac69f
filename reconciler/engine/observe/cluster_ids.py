"""Whether each address led to the cluster that is meant, and no two of them to one.

Border: ids alone; a cluster that nobody has changed before is the matter of ``guarding.contact``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.live import LiveState
from reconciler.topology import Topology


@dataclass(frozen=True, slots=True)
class Stranger:
    """Why nothing is concluded from what answered under an alias."""

    code: str
    what: str
    todo: str


def strangers(topology: Topology, live: LiveState) -> Mapping[str, Stranger]:
    """By alias. Clusters that did not answer are no strangers."""
    answered = {name: found.cluster_id for name in sorted(topology.clusters) if (found := live.known(name))}
    aliases: dict[str, list[str]] = defaultdict(list)
    for name, cluster_id in answered.items():
        aliases[cluster_id].append(name)
    strange: dict[str, Stranger] = {}
    for name, cluster_id in answered.items():
        wish = topology.clusters[name].cluster_id
        others = [other for other in aliases[cluster_id] if other != name]
        if wish not in (None, cluster_id):
            strange[name] = Stranger(
                "wrong-cluster-id",
                f"cluster {name} is declared with cluster_id {wish}, but {cluster_id} answered; this may be another"
                " cluster",
                f"Correct bootstrap_servers or cluster_id of {name}; look for a tunnel or an old address",
            )
        elif wish is None and others:
            strange[name] = Stranger(
                "same-cluster-twice",
                f"cluster {name} and cluster {' and '.join(others)} are one: {cluster_id} answers at the addresses of"
                " each. It would be mirrored onto itself without the cycle rule seeing it",
                f"Correct bootstrap_servers of {name}, or keep one alias; cluster_id in git tells which is which",
            )
    return strange
