"""Topics that git declares on several clusters: each copy is held against the first one that is there.

Border: copies that a flow compares already are left to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.layers import DECLARED, Given, configs, layers_of
from reconciler.live import LiveState, Source
from reconciler.parity.disparities import (
    Compared,
    Configured,
    Disparity,
    Ends,
    Pair,
    Verdict,
    differing,
    shown,
    topic_at,
    unseen,
)
from reconciler.routing import Route
from reconciler.topic_configs import human, same
from reconciler.topology import Topic, TopicRef, Topology

_ONCE = "declared once for both"


def declared_twice(
    topology: Topology, live: LiveState, routes: Sequence[Route]
) -> Iterator[Compared | Disparity | Unknown]:
    """A Disparity alone where one side is missing; Unknown where it may be hidden; nothing where neither is
    there, or one cluster was not read."""
    flowing = {frozenset((route.source, route.remote)) for route in routes}
    for topic in topology.topics.values():
        read = [TopicRef(cluster, topic.name) for cluster in topic.clusters if live.known(cluster)]
        first = next((ref for ref in read if topic_at(live, ref)), None)
        for ref in read:
            if first is None or ref == first or {first, ref} in flowing:
                continue
            one, other = (topic_at(live, each) for each in (first, ref))
            assert one is not None
            ends = Ends("", first, ref)
            if other is None and (hidden := unseen(live, ref)):
                yield hidden
                continue
            if other is None:
                words = counted(len(one.partitions), "partition")
                yield ends.apart("topic", words, "no topic", Verdict(False, f"{_ONCE}; apply makes it"))
                continue
            pair = Pair(ends, one, other)
            found = (*_partitions(topic, pair), *_factor(topic, pair), *_configs(topology, topic, pair))
            yield Compared(found, pair.unread)


def _partitions(topic: Topic, pair: Pair) -> Iterator[Disparity]:
    here, there = len(pair.here.partitions), len(pair.there.partitions)
    if here != there:
        verdict = Verdict(topic.partitions is None, _made("partitions", topic.partitions))
        yield pair.ends.apart("partitions", str(here), str(there), verdict)


def _factor(topic: Topic, pair: Pair) -> Iterator[Disparity]:
    here, there = pair.here.replication_factor, pair.there.replication_factor
    if here is None or there is None:
        verdict = Verdict(False, "partitions of one topic differ from each other")
        yield pair.ends.apart("replication factor", shown(here), shown(there), verdict)
    elif here != there:
        verdict = Verdict(topic.replication_factor is None, _made("factor", topic.replication_factor))
        yield pair.ends.apart("replication factor", shown(here), shown(there), verdict)


def _made(what: str, declared: int | None) -> str:
    if declared is not None:
        return f"{_ONCE}: {declared}"
    return f"the topic declares no {what}, so each cluster had its own when the topic was made"


def _configs(topology: Topology, topic: Topic, pair: Pair) -> Iterator[Disparity]:
    found = tuple(differing(pair))
    if not found:
        return
    here, there = (configs(layers_of(topology, ref.cluster, topic)) for ref in (pair.ends.source, pair.ends.remote))
    for one in found:
        yield one.told(pair.ends, _verdict(one, here.get(one.key), there.get(one.key)))


def _verdict(one: Configured, here: Given | None, there: Given | None) -> Verdict:
    """``here``, ``there``: what git gives the config on each cluster."""
    if here is None and there is None:
        if Source.TOPIC not in (one.here.source, one.there.source):
            return Verdict(True, "not set on the topic: each cluster's own default")
        return Verdict(False, "set outside git on the topic itself, and not alike: declare it, or take it off")
    sides = ((here, one.here), (there, one.there))
    if wrong := next((given for given, found in sides if given and not same(one.key, given.value, found.value)), None):
        words = f"{_ONCE}:" if wrong.layer.name == DECLARED else f"{wrong.layer.words} says"
        return Verdict(False, f"{words} {human(one.key, wrong.value)}")
    told = [given.layer.words for given in (here, there) if given]
    return Verdict(True, " and ".join(dict.fromkeys(told)))
