"""The same logical topic on several clusters: what differs, and whether a rule allows it.

Border: compares what was read; nothing is asked and nothing is planned. A part that was not read is told as such.
"""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.errors import Unknown
from reconciler.live import LiveState
from reconciler.parity.declared import declared_twice
from reconciler.parity.disparities import Disparity, Parity
from reconciler.parity.travelling import both_sides
from reconciler.routing import Route
from reconciler.topology import Topology

__all__ = ["Disparity", "Parity", "parity"]


def parity(topology: Topology, live: LiveState, routes: Sequence[Route]) -> Parity:
    """Both sides of each flow, and each topic that git declares on several clusters."""
    found: list[Disparity] = []
    unknown = [
        Unknown(f"cluster {name}", one.error, one.todo)
        for name in sorted(topology.clusters)
        if isinstance(one := live.clusters.get(name, Unknown(name, "nobody read it")), Unknown)
    ]
    compared = 0
    for pair in (*both_sides(topology, live, routes), *declared_twice(topology, live, routes)):
        if isinstance(pair, Unknown):
            unknown.append(pair)
            continue
        if isinstance(pair, Disparity):
            found.append(pair)
            continue
        compared += 1
        found += pair.disparities
        unknown += pair.unread
    return Parity(topology.environment, compared, tuple(found), tuple(dict.fromkeys(unknown)))
