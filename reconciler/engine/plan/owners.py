"""Whose topics are: by the label ``owner``, which a flow's copies have from their source."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.model.environment.topology import TopicRef, Topology
from reconciler.model.live import LiveState
from reconciler.resources.flows.routes import hops_between

LABEL = "owner"


def owners(topology: Topology, live: LiveState) -> Mapping[TopicRef, str]:
    """Of topics whose owner is declared, on each cluster that has them, over however many flows."""
    known = {
        TopicRef(cluster, topic.name): topic.labels[LABEL]
        for topic in topology.topics.values()
        for cluster in topic.clusters
        if topic.labels.get(LABEL)
    }
    makers = {hop.remote: hop.source for hop in hops_between(topology, live)}
    for remote in makers:
        source: TopicRef | None = remote
        for _ in topology.clusters:  # no way is longer than there are clusters
            source = makers.get(source) if source is not None else None
            if source in known:
                known.setdefault(remote, known[source])
                break
    return known
