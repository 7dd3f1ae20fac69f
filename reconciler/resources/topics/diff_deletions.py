"""Compares tombstones with the clusters: name, cluster and id together delete a topic; omission never does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from reconciler.changes import DeleteTopic, Reason, Refused, Role
from reconciler.diffing.findings import Findings, Settled
from reconciler.diffing.wishes import TopicWish
from reconciler.errors import Unknown
from reconciler.guarding.protecting import is_protected
from reconciler.live import LiveCluster, LiveState, LiveTopic
from reconciler.routing import sources_among
from reconciler.topology import Tombstone, TopicRef, Topology


def without_doomed(topology: Topology, live: LiveState) -> LiveState:
    """``live`` as it is once the tombstones are carried out, so that no flow plans with a topic that goes."""
    doomed = {stone.ref for stone in topology.deletions if _meant(stone, live)}
    if not doomed:
        return live
    clusters: dict[str, LiveCluster | Unknown] = {}
    for name, cluster in live.clusters.items():
        if isinstance(cluster, LiveCluster):
            left = {topic: found for topic, found in cluster.topics.items() if TopicRef(name, topic) not in doomed}
            cluster = replace(cluster, topics=left)
        clusters[name] = cluster
    return LiveState(clusters, live.mirrors)


def compare_tombstones(topology: Topology, live: LiveState, wished: Mapping[TopicRef, TopicWish]) -> Iterator[Findings]:
    depths = _depths(topology, [stone.ref for stone in topology.deletions if _meant(stone, live)])
    for stone in sorted(topology.deletions, key=lambda stone: stone.ref):
        cluster = live.known(stone.cluster)
        if cluster is not None:
            yield _compare(stone, cluster, wished.get(stone.ref), depths.get(stone.ref, 0))


def _depths(topology: Topology, doomed: Collection[TopicRef]) -> Mapping[TopicRef, int]:
    """Hops from a topic that no flow makes, where more than one of a chain goes."""
    sources = sources_among(topology, doomed)
    depths = dict.fromkeys(doomed, 0)
    for _ in topology.clusters:  # no chain is longer; a ring would never end
        depths |= {remote: 1 + max(depths[one] for one in found) for remote, found in sources.items()}
    return depths


def _meant(stone: Tombstone, live: LiveState) -> bool:
    cluster = live.known(stone.cluster)
    topic = cluster.topics.get(stone.topic) if cluster else None
    return topic is not None and topic.topic_id == stone.topic_id and not stone.expired


def _compare(stone: Tombstone, cluster: LiveCluster, wish: TopicWish | None, depth: int) -> Findings:
    subject, topic = str(stone.ref), cluster.topics.get(stone.topic)
    if topic is None and not cluster.sees_all:
        todo = f"Let the plan principal describe {stone.ref}."
        error = "it has a tombstone and is not seen, but this principal does not see every topic"
        return Findings(unknown=(Unknown(subject, error, todo),))
    if topic is None:
        note = f"{subject} has a tombstone and is gone: the tombstone ({stone.where}) can be removed"
        return Findings(settled=(Settled(subject, "deleted"),), notes=(note,))
    if refused := _refusal(stone, topic, wish):
        return Findings(refused=(refused,))
    reason = Reason("tombstone", f"tombstone in {stone.where}: {stone.reason}")
    partitions = len(topic.partitions)
    return Findings(changes=(DeleteTopic(stone.ref, topic.topic_id, partitions, stone.expires, reason, depth),))


def _refusal(stone: Tombstone, topic: LiveTopic, wish: TopicWish | None) -> Refused | None:
    if topic.topic_id != stone.topic_id:
        what = (
            f"the tombstone of {stone.ref} is for topic id {stone.topic_id}, but {topic.topic_id} is there: it was"
            " made anew, or another topic was meant"
        )
        todo = "Remove the tombstone, or look at the topic and write its id"
        return Refused(str(stone.ref), Reason("tombstone-other-id", what), todo)
    if topic.internal or is_protected(stone.topic):
        what = f"{stone.ref} is an internal topic and cannot be deleted"
        return Refused(str(stone.ref), Reason("tombstone-protected", what), "Remove the tombstone")
    if stone.expired:
        what = f"the tombstone of {stone.ref} counted until {stone.expires}, and the topic is still there"
        todo = "Agree again and write a new date, or remove the tombstone"
        return Refused(str(stone.ref), Reason("tombstone-expired", what), todo)
    if wish is None:
        return None
    what = f"{stone.ref} has a tombstone, but would be made again: {wish.reason.text}"
    todo = "Exclude its source from the flow, or delete the source first"
    if wish.role is Role.INTERNAL:
        todo = "Remove the tombstone"
    return Refused(str(stone.ref), Reason("tombstone-still-wished", what), todo)
