"""Both sides of each flow: a topic and its remote topic, held against what config sync asks of the live source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
from reconciler.syncing import synced_configs
from reconciler.topic_configs import human, same
from reconciler.topology import Flow, Topology


@dataclass(frozen=True, slots=True)
class _Sides:
    pair: Pair
    flow: Flow
    route: Route


def both_sides(
    topology: Topology, live: LiveState, routes: Sequence[Route]
) -> Iterator[Compared | Disparity | Unknown]:
    """A Disparity alone where one side is missing; Unknown where it may be hidden; nothing where neither is there."""
    for route in routes:
        ends = Ends(route.flow, route.source, route.remote)
        here, there = topic_at(live, route.source), topic_at(live, route.remote)
        if here and there:
            sides = _Sides(Pair(ends, here, there), topology.flows[route.flow], route)
            found = (*_partitions(sides.pair), *_factor(sides), *_configs(topology, sides))
            yield Compared(found, sides.pair.unread)
        elif (here or there) and (hidden := unseen(live, route.remote if here else route.source)):
            yield hidden
        elif here or there:
            words = [counted(len(one.partitions), "partition") if one else "no topic" for one in (here, there)]
            side = "remote" if here else "source"
            why = f"the {side} topic is not there; apply makes what is declared or matched"
            yield ends.apart("topic", words[0], words[1], Verdict(False, why))


def _partitions(pair: Pair) -> Iterator[Disparity]:
    here, there = len(pair.here.partitions), len(pair.there.partitions)
    if there > here:
        why = "more partitions on the target do no harm, and Kafka cannot remove them"
        yield pair.ends.apart("partitions", str(here), str(there), Verdict(True, why))
    elif there < here:
        why = "records of the others have no place"
        yield pair.ends.apart("partitions", str(here), str(there), Verdict(False, why))


def _factor(sides: _Sides) -> Iterator[Disparity]:
    here, there = sides.pair.here.replication_factor, sides.pair.there.replication_factor
    if here == there and here is not None:
        return
    declared = sides.route.replication_factor
    allowed = there is not None and declared in (None, there)
    why = "each cluster has its own factor" if declared is None else f"the flow or its target declares {declared}"
    if there is None or here is None:
        why = "partitions of one topic differ from each other"
        allowed = False
    yield sides.pair.ends.apart("replication factor", shown(here), shown(there), Verdict(allowed, why))


def _configs(topology: Topology, sides: _Sides) -> Iterator[Disparity]:
    found = tuple(differing(sides.pair))
    if not found:
        return
    remote, here = sides.route.remote, sides.pair.here.configs
    wish = topology.topics.get(remote.name)
    declared = wish if wish is not None and remote.cluster in wish.clusters else None
    own = configs(layers_of(topology, remote.cluster, declared)) if declared else {}
    sync = replace(sides.flow.configs, enabled=sides.flow.configs.enabled and not sides.route.two_way)
    asked = synced_configs(sync, sides.route.source, here, layers_of(topology, remote.cluster))
    assert not isinstance(asked, Unknown)
    defaults = configs(layers_of(topology, remote.cluster))
    for one in found:
        if one.key in own:
            verdict = _given(own[one.key], one, f"declared for {remote} itself")
        elif one.key in asked.set and one.key in defaults and asked.set[one.key].origin == defaults[one.key].layer.name:
            verdict = _given(defaults[one.key], one, "")
        else:
            verdict = _synced(sides, one)
        yield one.told(sides.pair.ends, verdict)


def _given(given: Given, one: Configured, own: str) -> Verdict:
    """``own``: in words, where the topic itself says the value."""
    words = own if given.layer.name == DECLARED else given.layer.words
    if same(one.key, given.value, one.there.value):
        return Verdict(True, words)
    return Verdict(False, f"{words} says {human(one.key, given.value)}")


def _synced(sides: _Sides, one: Configured) -> Verdict:
    """By MirrorMaker 2's rules, as ``synced_configs`` follows them."""
    sync = sides.flow.configs
    if sides.route.two_way:
        return Verdict(True, "the same name flows both ways, so neither side leads")
    if not sync.enabled:
        return Verdict(True, "the flow does not sync configs")
    if hit := next((pattern for pattern in sync.exclude if re.fullmatch(pattern, one.key)), None):
        return Verdict(True, f"not synced: sync_topic_configs.exclude has {hit}")
    if one.here.read_only or one.here.source is Source.STATIC:
        return Verdict(True, "config sync takes over nothing from the file of a source broker")
    if one.here.source is Source.BUILT_IN and sync.use_defaults_from == "target":
        if one.there.source is Source.TOPIC:
            return Verdict(False, "not set on the source, so config sync takes the override off the target")
        return Verdict(True, "not set on the source: each cluster's own default (use_defaults_from: target)")
    return Verdict(False, "config sync keeps it equal, so this is drift")
