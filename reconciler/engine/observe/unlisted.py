"""Which names have to be asked for: a broker leaves out of its list what a principal may not describe.

What is wanted and not listed would be planned as a create; only the answer to its name tells whether that is true.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.resources.acls.diff import literal_topics
from reconciler.resources.flows.names.carried import plain_names
from reconciler.resources.flows.routes import remote_names
from reconciler.resources.topics.internal import internal_topics


def unlisted(topology: Topology, live: LiveState, asked: Iterable[TopicRef] = ()) -> Mapping[str, list[str]]:
    """By cluster that answered, names that git, a flow or ``asked`` names and its list lacks."""
    names: dict[str, set[str]] = defaultdict(set)
    for topic in topology.topics.values():
        for place in topic.clusters:
            names[place].add(topic.name)
    for flow in topology.flows.values():
        names[flow.source] |= plain_names(flow)
    for rule in topology.access:
        for place in rule.clusters:
            names[place].update(literal_topics(rule))
    audit = topology.audit_place()
    others = (*remote_names(topology, live), *(topic.ref for topic in internal_topics(topology)), *asked)
    for ref in (*others, *(stone.ref for stone in topology.deletions), *((audit,) if audit else ())):
        names[ref.cluster].add(ref.name)
    known = {name: cluster for name in sorted(names) if (cluster := live.known(name))}
    return {name: left for name, cluster in known.items() if (left := sorted(names[name] - cluster.topics.keys()))}
