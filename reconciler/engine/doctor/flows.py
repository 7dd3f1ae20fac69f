"""Each flow: whether what its source accepts fits into its target, and whether its topics can be written at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from reconciler.checkups import ClusterFacts, Finding, Verdict
from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.live import LiveState, LiveTopic
from reconciler.prospects import Prospect
from reconciler.routing import Route
from reconciler.topic_configs import human
from reconciler.topology import Flow, TopicRef, Topology

LIMIT = "max.message.bytes"
SHOWN = 3
LOG_OVERHEAD = 12
"""Offset and size: by so many bytes Kafka's default of max.message.bytes is above that of replica.fetch.max.bytes."""


NO_PROSPECTS: Mapping[TopicRef, Prospect] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Limits:
    """What is known of max.message.bytes. ``prospects``: topics that are still to be made, as they will be."""

    live: LiveState
    prospects: Mapping[TopicRef, Prospect]
    facts: Mapping[str, ClusterFacts]

    def of(self, ref: TopicRef) -> int | None:
        cluster = self.live.known(ref.cluster)
        if cluster is None or ref.name in cluster.topics:
            return _limit(self.live, ref)
        prospect = self.prospects.get(ref)
        configs = None if prospect is None or isinstance(prospect.configs, Unknown) else prospect.configs
        wished = configs.get(LIMIT) if configs else None
        if wished is not None and wished.value:
            return int(wished.value)
        return _broker_number(self.facts.get(ref.cluster), "message.max.bytes")


def flow_findings(
    topology: Topology,
    live: LiveState,
    routes: Sequence[Route],
    facts: Mapping[str, ClusterFacts],
    prospects: Mapping[TopicRef, Prospect] = NO_PROSPECTS,
) -> Iterator[Finding]:
    limits = _Limits(live, prospects, facts)
    for flow in topology.flows.values():
        subject = f"flow {flow.name}"
        if not (live.known(flow.source) and live.known(flow.target)):
            text = "one of its clusters could not be read"
            yield Finding(subject, "message size", Verdict.UNKNOWN, text, "", ("Mend what is said of its clusters",))
            continue
        mine = [route for route in routes if route.flow == flow.name]
        yield _sizes(subject, flow, mine, limits)
        yield _writable(subject, live, mine)


def _sizes(subject: str, flow: Flow, routes: Sequence[Route], limits: _Limits) -> Finding:
    unread: list[str] = []
    smaller: list[str] = []
    for route in routes:
        here, there = limits.of(route.source), limits.of(route.remote)
        if here is None or there is None:
            unread.append(str(route.source))
        elif there < here:
            sizes = f"{human(LIMIT, str(here))} there, {human(LIMIT, str(there))} on {route.remote}"
            smaller.append(f"{route.source} takes {sizes}")
    if smaller:
        text = "; ".join(smaller[:SHOWN]) + (f"; and {len(smaller) - SHOWN} more" if len(smaller) > SHOWN else "")
        why = "a batch that the target refuses stops its partition"
        todo = ("Raise max.message.bytes on the remote topics, or let sync_topic_configs copy it and apply",)
        return Finding(subject, "message size", Verdict.PROBLEM, text, why, todo)
    if unread:
        some = counted(len(unread), "topic")
        text = f"the limit of {some} is not known: {', '.join(unread[:SHOWN])}"
        return Finding(
            subject,
            "message size",
            Verdict.UNKNOWN,
            text,
            "",
            ("Let the plan principal describe their configs, and those of the brokers",),
        )
    if narrow := _replica_fetch(routes, limits, limits.facts.get(flow.target)):
        return Finding(subject, "message size", Verdict.WARNING, *narrow)
    text = f"what its {len(routes)} source topics accept fits into the target"
    return Finding(subject, "message size", Verdict.OK, text)


def _replica_fetch(
    routes: Sequence[Route], known: _Limits, target: ClusterFacts | None
) -> tuple[str, str, tuple[str, ...]] | None:
    limits = [limit for route in routes if (limit := known.of(route.remote)) is not None]
    fetch = _broker_number(target, "replica.fetch.max.bytes")
    if fetch is None or not limits or max(limits) - LOG_OVERHEAD <= fetch:
        return None
    text = f"replica.fetch.max.bytes of the target is {human('a.bytes', str(fetch))}, topics take {max(limits)} bytes"
    return (
        text,
        "followers fetch such batches one at a time, so replication is slow",
        ("Raise replica.fetch.max.bytes",),
    )


def _limit(live: LiveState, ref: TopicRef) -> int | None:
    cluster = live.known(ref.cluster)
    topic = cluster.topics.get(ref.name) if cluster else None
    if topic is None or isinstance(topic.configs, Unknown):
        return None
    found = topic.configs.get(LIMIT)
    return int(found.value) if found and found.value else None


def _broker_number(facts: ClusterFacts | None, key: str) -> int | None:
    if facts is None or isinstance(facts.brokers, Unknown):
        return None
    found = [int(value) for configs in facts.brokers.values() if (value := configs.get(key)) and value.isdigit()]
    return min(found) if found else None


def _writable(subject: str, live: LiveState, routes: Sequence[Route]) -> Finding:
    stuck = [words for route in routes if (words := _stuck(live, route.remote))]
    if stuck:
        text = "; ".join(stuck[:SHOWN])
        todo = ("Lower min.insync.replicas of these topics, or raise their replication factor",)
        return Finding(
            subject, "replicas", Verdict.PROBLEM, text, "the mirror writes with acks=all, and never could", todo
        )
    return Finding(subject, "replicas", Verdict.OK, "min.insync.replicas of its remote topics can be met")


def _stuck(live: LiveState, ref: TopicRef) -> str:
    cluster = live.known(ref.cluster)
    topic = cluster.topics.get(ref.name) if cluster else None
    if topic is None or isinstance(topic.configs, Unknown):
        return ""
    least = topic.configs.get("min.insync.replicas")
    factor = _least_replicas(topic)
    if least is None or not least.value or factor is None or int(least.value) <= factor:
        return ""
    return f"{ref}: min.insync.replicas {least.value}, replication factor {factor}"


def _least_replicas(topic: LiveTopic) -> int | None:
    return min((len(part.replicas) for part in topic.partitions), default=None)
