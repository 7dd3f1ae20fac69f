"""The same logical topic on both sides of each flow: what differs, and whether a rule allows it.

Border: compares what was read; nothing is asked and nothing is planned. A part that was not read is told as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.layers import configs, layers_of
from reconciler.live import ConfigValue, LiveState, LiveTopic, Source
from reconciler.routing import Route
from reconciler.topic_configs import THROTTLES, human, same
from reconciler.topology import Flow, TopicRef, Topology


@dataclass(frozen=True, slots=True)
class Disparity:
    """``field``: partitions, replication factor, or a config. ``allowed``: by the rule that ``why`` names."""

    flow: str
    source: str
    remote: str
    field: str
    here: str
    there: str
    allowed: bool
    why: str


@dataclass(frozen=True, slots=True)
class Parity:
    """``compared``: pairs of topics of which both were read."""

    environment: str
    compared: int
    disparities: tuple[Disparity, ...]
    unknown: tuple[Unknown, ...]

    @property
    def exit_code(self) -> int:
        """1 when something could not be read, 2 when something differs that no rule allows, else 0."""
        if self.unknown:
            return 1
        return 2 if any(not one.allowed for one in self.disparities) else 0


@dataclass(frozen=True, slots=True)
class _Pair:
    flow: Flow
    route: Route
    here: LiveTopic
    there: LiveTopic

    def apart(self, field: str, here: str, there: str, allowed: bool, why: str) -> Disparity:
        route = self.route
        return Disparity(self.flow.name, str(route.source), str(route.remote), field, here, there, allowed, why)


def parity(topology: Topology, live: LiveState, routes: Sequence[Route]) -> Parity:
    found: list[Disparity] = []
    unknown = [
        Unknown(f"cluster {name}", one.error, one.todo)
        for name in sorted(topology.clusters)
        if isinstance(one := live.clusters.get(name, Unknown(name, "nobody read it")), Unknown)
    ]
    compared = 0
    for route in routes:
        pair = _pair(topology, live, route)
        if isinstance(pair, Disparity):
            found.append(pair)
            continue
        if pair is None:
            continue
        compared += 1
        found += [*_partitions(pair), *_factor(pair)]
        configs = [one.configs for one in (pair.here, pair.there)]
        unread = [one for one in configs if isinstance(one, Unknown)]
        unknown += unread
        if not unread:
            found += _configs(topology, pair)
    return Parity(topology.environment, compared, tuple(found), tuple(dict.fromkeys(unknown)))


def _pair(topology: Topology, live: LiveState, route: Route) -> _Pair | Disparity | None:
    """None when neither side is there yet."""
    flow = topology.flows[route.flow]
    here, there = _topic(live, route.source), _topic(live, route.remote)
    if here and there:
        return _Pair(flow, route, here, there)
    if here is None and there is None:
        return None
    words = [counted(len(one.partitions), "partition") if one else "no topic" for one in (here, there)]
    side = "remote" if here else "source"
    why = f"the {side} topic is not there; apply makes what is declared or matched"
    return Disparity(route.flow, str(route.source), str(route.remote), "topic", words[0], words[1], False, why)


def _topic(live: LiveState, ref: TopicRef) -> LiveTopic | None:
    cluster = live.known(ref.cluster)
    return cluster.topics.get(ref.name) if cluster else None


def _partitions(pair: _Pair) -> Iterator[Disparity]:
    here, there = len(pair.here.partitions), len(pair.there.partitions)
    if there > here:
        why = "more partitions on the target do no harm, and Kafka cannot remove them"
        yield pair.apart("partitions", str(here), str(there), True, why)
    elif there < here:
        why = "records of the others have no place"
        yield pair.apart("partitions", str(here), str(there), False, why)


def _factor(pair: _Pair) -> Iterator[Disparity]:
    here, there = pair.here.replication_factor, pair.there.replication_factor
    if here == there and here is not None:
        return
    declared = pair.route.replication_factor
    allowed = there is not None and declared in (None, there)
    why = "each cluster has its own factor" if declared is None else f"the flow or its target declares {declared}"
    if there is None or here is None:
        why = "partitions of one topic differ from each other"
        allowed = False
    yield pair.apart("replication factor", str(here or "mixed"), str(there or "mixed"), allowed, why)


def _configs(topology: Topology, pair: _Pair) -> Iterator[Disparity]:
    assert not isinstance(pair.here.configs, Unknown)
    assert not isinstance(pair.there.configs, Unknown)
    for key in sorted(pair.here.configs.keys() & pair.there.configs.keys() - THROTTLES):
        here, there = pair.here.configs[key], pair.there.configs[key]
        if here.sensitive or there.sensitive or same(key, here.value, there.value):
            continue
        rule = _rule(topology, pair, key, here)
        why = rule or "config sync keeps it equal, so this is drift"
        yield pair.apart(key, human(key, here.value), human(key, there.value), bool(rule), why)


def _rule(topology: Topology, pair: _Pair, key: str, here: ConfigValue) -> str:
    """The rule that lets the two sides differ; empty when none does."""
    flow, remote = pair.flow, pair.route.remote
    wish = topology.topics.get(remote.name)
    if wish is not None and remote.cluster in wish.clusters and key in wish.configs:
        return f"declared for {remote} itself"
    if given := configs(layers_of(topology, remote.cluster)).get(key):
        return f"a {given.layer.name}"
    if pair.route.two_way:
        return "the same name flows both ways, so neither side leads"
    if not flow.configs.enabled:
        return "the flow does not sync configs"
    if hit := next((one for one in flow.configs.exclude if re.fullmatch(one, key)), None):
        return f"not synced: sync_topic_configs.exclude has {hit}"
    if here.source is not Source.TOPIC and flow.configs.use_defaults_from == "target":
        return "not set on the source: each cluster's own default (use_defaults_from: target)"
    return ""
