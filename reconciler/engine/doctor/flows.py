"""Doctor checks of each flow: message sizes, writable remote topics, and topics of other writers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from reconciler.engine.doctor.broker_limits import keeps_as_much
from reconciler.engine.doctor.check import Check
from reconciler.engine.guards.remote_topics import (
    copied_beside,
    foreign_positions,
    with_heartbeats,
    with_remote_topics,
)
from reconciler.engine.guards.second_copy import judge
from reconciler.errors import Unknown
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import LiveState, LiveTopic
from reconciler.model.plan import Basis, Plan
from reconciler.model.reports.doctor import ClusterFacts, Finding
from reconciler.model.reports.impact import FlowCopies, RemoteFacts
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.expected import Prospect
from reconciler.text import BRIEF, counted

LIMIT = "max.message.bytes"
LOG_OVERHEAD = 12
"""Bytes of offset and size before a batch, by which Kafka's default of max.message.bytes exceeds that of
replica.fetch.max.bytes."""

NO_PROSPECTS: Mapping[TopicRef, Prospect] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Limits:
    """Known values of max.message.bytes. ``prospects``: planned topics."""

    live: LiveState
    prospects: Mapping[TopicRef, Prospect]
    facts: Mapping[str, ClusterFacts]

    def of(self, ref: TopicRef) -> int | None:
        """The largest batch in bytes that a topic accepts: by its config, by a plan that creates it, or by the smallest
        default of its brokers. None: unknown."""
        cluster = self.live.known(ref.cluster)
        if cluster is None or ref.name in cluster.topics:
            return _number(self.live.topic(ref), LIMIT)
        prospect = self.prospects.get(ref)
        configs = None if prospect is None or isinstance(prospect.configs, Unknown) else prospect.configs
        expected = configs.get(LIMIT) if configs else None
        if expected is not None and expected.value:
            return int(expected.value)
        return _least_of_brokers(self.facts.get(ref.cluster), "message.max.bytes")


def flow_findings(
    topology: Topology,
    live: LiveState,
    routes: Sequence[Route],
    facts: Mapping[str, ClusterFacts],
    prospects: Mapping[TopicRef, Prospect] = NO_PROSPECTS,
) -> Iterator[Finding]:
    """For each flow: whether offsets are ready for an unplanned failover, whether the target takes what the source
    accepts, and whether its copies can be written with acks=all."""
    limits = _Limits(live, prospects, facts)
    for flow in topology.flows.values():
        subject = f"flow {flow.name}"
        offsets, sizes = Check(subject, "consumer offsets"), Check(subject, "message size")
        if flow.groups.sync_offsets:
            yield offsets.ok(f"kept on {flow.target} every {human('a.ms', str(flow.groups.interval_ms))}")
        else:
            text, lost = f"not kept on {flow.target}", f"when {flow.source} is lost, no group has an offset"
            why = f"{lost} on {flow.target}: nothing is ready for that failover"
            todo = f"Write groups: {{sync_offsets: true}} under flow {flow.name}; a planned failover works without it"
            yield offsets.warning(text, why, todo)
        if not (live.known(flow.source) and live.known(flow.target)):
            todo = "Fix the problems of its clusters first"
            yield sizes.unknown("one of its clusters could not be read", "", todo)
            continue
        own_routes = [route for route in routes if route.flow == flow.name]
        yield _sizes(sizes, flow, own_routes, limits)
        yield keeps_as_much(Check(subject, "limits"), flow, own_routes, prospects, facts)

        # Topics whose copies cannot be written with acks=all.
        stuck = []
        for topic, ref in ((live.topic(route.remote), route.remote) for route in own_routes):
            factor = min((len(part.replicas) for part in topic.partitions), default=None) if topic else None
            least = _number(topic, "min.insync.replicas")
            if least is not None and factor is not None and least > factor:
                stuck.append(f"{ref}: min.insync.replicas {least}, replication factor {factor}")
        replicas = Check(subject, "replicas")
        if stuck:
            todo = "Lower min.insync.replicas of these topics, or raise their replication factor"
            why = (
                "the mirror writes with acks=all, which brokers before Kafka 3.7 refuse there; later ones count as many"
                " as there are replicas, so it protects less than it says"
            )
            yield replicas.problem("; ".join(stuck[:BRIEF]), why, todo)
        else:
            yield replicas.ok("min.insync.replicas of its remote topics can be met")


def remote_findings(
    topology: Topology,
    live: LiveState,
    copies: Mapping[str, Sequence[FlowCopies]],
    facts: Mapping[str, RemoteFacts],
    heartbeats: Mapping[str, str | Unknown] = MappingProxyType({}),
) -> Iterator[Finding]:
    """Findings that would block a plan: remote topics with records of other writers, heartbeats topics of applications,
    and flows of other environments."""
    judged = judge(topology, copies, facts)
    plan = with_remote_topics(Plan(Basis(topology.environment, "")), topology, live, judged, copies, facts, None)
    plan = with_heartbeats(plan, topology, live, heartbeats, None)
    for refusal in plan.refused:
        why = f"plan and apply are blocked ({refusal.reason.code})"
        yield Check(str(refusal.subject), "remote topics").problem(refusal.reason.text, why, refusal.todo)
    for unread in plan.unknown:
        yield Check(unread.subject, "remote topics").unread(unread)
    for text in (text for flow in judged for text in foreign_positions(flow)):
        yield Check("flows", "positions").warning(text, "these partitions are not copied until that is decided", "")
    beside = [text for flow in judged for text in copied_beside(flow)]
    for text in beside:
        yield Check("flows", "remote topics").warning(
            text, "nothing tells a producer's record from a copy of before", ""
        )
    for target in sorted({flow.flow.target for flow in judged if flow.strange}):
        for read in facts[target].connect.values():
            if isinstance(read, Unknown):
                why = "mirror import-positions reads them as principal plan, and could not tell where MirrorMaker 2 is"
                yield Check(f"cluster {target}", "permissions of plan").problem(
                    f"{read.subject}: {read.error}", why, read.todo
                )
    if judged and not (plan.refused or plan.unknown or beside):
        names = ", ".join(sorted(flow.flow.name for flow in judged))
        yield Check("flows", "remote topics").ok(f"{names}: nothing there would be copied a second time")


def _sizes(check: Check, flow: Flow, routes: Sequence[Route], limits: _Limits) -> Finding:
    """Whether the target takes the largest batch that the source accepts: a batch that it refuses stops its
    partition."""
    unread: list[str] = []
    smaller: list[str] = []
    taken: list[int] = []
    for route in routes:
        here, there = limits.of(route.source), limits.of(route.remote)
        if there is not None:
            taken.append(there)
        if here is None or there is None:
            unread.append(str(route.source))
        elif there < here:
            sizes = f"{human(LIMIT, str(here))} there, {human(LIMIT, str(there))} on {route.remote}"
            smaller.append(f"{route.source} takes {sizes}")
    if smaller:
        text = "; ".join(smaller[:BRIEF]) + (f"; and {len(smaller) - BRIEF} more" if len(smaller) > BRIEF else "")
        why = "a batch that the target refuses stops its partition"
        todo = "Raise max.message.bytes on the remote topics, or let sync_topic_configs copy it and apply"
        return check.problem(text, why, todo)
    if unread:
        some = counted(len(unread), "topic")
        text = f"the limit of {some} is not known: {', '.join(unread[:BRIEF])}"
        return check.unknown(text, "", "Let the plan principal describe their configs, and those of the brokers")

    # A batch may fit the topic and still exceed what followers on the target fetch at once.
    fetch = _least_of_brokers(limits.facts.get(flow.target), "replica.fetch.max.bytes")
    if fetch is not None and taken and max(taken) - LOG_OVERHEAD > fetch:
        shown = human("a.bytes", str(fetch))
        text = f"replica.fetch.max.bytes of the target is {shown}, topics take {max(taken)} bytes"
        why = "followers fetch such batches one at a time, so replication is slow"
        return check.warning(text, why, "Raise replica.fetch.max.bytes")
    return check.ok(f"the target takes what source topics accept: {counted(len(routes), 'topic')}")


def _number(topic: LiveTopic | None, key: str) -> int | None:
    value = topic.config(key) if topic else None
    return int(value) if value else None


def _least_of_brokers(facts: ClusterFacts | None, key: str) -> int | None:
    if facts is None or isinstance(facts.brokers, Unknown):
        return None
    numbers = [int(value) for configs in facts.brokers.values() if (value := configs.get(key)) and value.isdecimal()]
    return min(numbers) if numbers else None
