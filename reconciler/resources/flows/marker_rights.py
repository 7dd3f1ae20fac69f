"""Whether a flow that keeps offsets writes transaction markers itself, and what follows where not (decision 163).

Belongs here: the words that ``doctor`` and ``plan`` share.
"""

from __future__ import annotations

from reconciler.errors import Unknown
from reconciler.model.environment.topology import Topology
from reconciler.model.reports.impact import MarkerRight

PAGE = "docs/mirror/same-offsets.md"
HELD = "may write transaction markers (ClusterAction or Alter)"
NOT_HELD = "may not write transaction markers: it has neither ClusterAction nor Alter on the cluster"
LIMIT = (
    "where sources write in transactions or are compacted, a leader that dies or moves, as in each rolling restart, "
    "can get a marker twice from Kafka's coordinator; the partition then stops for good with offsets_diverged "
    f"({PAGE}#limits)"
)


def keeping(topology: Topology, cluster: str) -> tuple[str, ...]:
    """Flows into ``cluster`` that keep offsets."""
    return tuple(flow.name for flow in topology.flows.values() if flow.keeps_offsets and flow.target == cluster)


def flows_into(topology: Topology, cluster: str) -> str:
    """``flow a``, ``flows a and b``."""
    names = keeping(topology, cluster)
    return f"flow{'s' if len(names) > 1 else ''} {' and '.join(names)}"


def todo(topology: Topology, cluster: str, principal: str, command: str) -> str:
    """``command``: of kafka-acls, which gives the right. Where git declares access it is a rule there."""
    give = f"Give it where that matters more than what the right opens (every topic can be read with it): {command}"
    if not topology.access_declared or principal.startswith("User:<"):
        return give
    rule = f'{{principal: "{principal}", clusters: [{cluster}], resource: cluster, operations: [cluster_action]}}'
    return f"{give}; or, under access: - {rule}"


def note(topology: Topology, cluster: str, right: MarkerRight) -> str:
    """What a plan says of one target."""
    flows = flows_into(topology, cluster)
    verb = "keep" if len(keeping(topology, cluster)) > 1 else "keeps"
    way = todo(topology, cluster, right.principal, right.command)
    if isinstance(right.held, Unknown):
        text = f"{right.held.error}. If it may not, {LIMIT}. {right.held.todo}. {way}"
    elif right.held:
        text = f"{right.principal} {HELD}, so a restart of brokers of {cluster} cannot make a copy diverge"
    else:
        text = f"{right.principal} {NOT_HELD}: {LIMIT}. {way}"
    return f"{flows} {verb} offsets on {cluster}: {text}"
