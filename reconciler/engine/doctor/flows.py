"""Doctor checks of each flow: message sizes, writable remote topics, topics of other writers, and topic limits from
broker defaults (copies that retain less, brokers that differ).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from reconciler.engine.guards.remote_topics import copied_beside, foreign_positions, with_heartbeats, with_remote_topics
from reconciler.engine.guards.second_copy import judge
from reconciler.errors import Unknown
from reconciler.model.config_values import human
from reconciler.model.environment.topology import Flow, TopicRef, Topology
from reconciler.model.live import ConfigValue, LiveState, LiveTopic, Source, broker_defaults
from reconciler.model.plan import Basis, FlowCopies, Plan, RemoteFacts
from reconciler.model.reports.doctor import Check, ClusterFacts, Finding
from reconciler.resources.flows.routes import Route
from reconciler.resources.topics.expected import Prospect
from reconciler.resources.topics.limits import KeptLess, kept_less, kept_less_words
from reconciler.text import BRIEF, counted, first_of

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
        stuck: list[str] = []
        unread: list[str] = []
        for topic, ref in ((live.topic(route.remote), route.remote) for route in own_routes):
            if topic is not None and isinstance(topic.configs, Unknown):
                unread.append(str(ref))
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
        elif unread:
            text = (
                f"min.insync.replicas of {counted(len(unread), 'remote topic')} is not known: {first_of(unread, BRIEF)}"
            )
            yield replicas.unknown(text, "", "Let the plan principal describe their configs")
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
    # The plan's own guards judge, on a plan without changes, so that doctor and plan never disagree.
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
    # "Nothing would be copied a second time" is said only if nothing speaks against it and nothing is unknown.
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


def brokers_agree(check: Check, brokers: Mapping[int, Mapping[str, str | None]]) -> Finding:
    """Checks that brokers have equal defaults: Kafka reports a topic's configs from one broker, but each partition uses
    its leader's."""
    defaults = {number: broker_defaults(configs) for number, configs in sorted(brokers.items())}
    apart = []
    for key in sorted({key for values in defaults.values() for key in values}):
        values = {number: values.get(key) for number, values in defaults.items()}
        if len(set(values.values())) > 1:
            shown = ", ".join(f"{human(key, value)} on broker {number}" for number, value in values.items())
            apart.append(f"{key}: {shown}")
    if apart:
        why = "a topic without a value of its own keeps and takes what the broker of each partition says"
        return check.warning("; ".join(apart), why, "Give all brokers the same settings, or topics values of their own")
    alone = "its one broker decides the limits of topics"
    return check.ok(f"{len(defaults)} brokers give topics the same limits" if len(defaults) > 1 else alone)


def keeps_as_much(
    check: Check,
    flow: Flow,
    routes: Sequence[Route],
    prospects: Mapping[TopicRef, Prospect],
    facts: Mapping[str, ClusterFacts],
) -> Finding:
    """Compares retention and size limits of copies with their sources."""
    narrower: list[KeptLess] = []
    unread: list[str] = []

    # Defaults for topics without overrides, from one broker; ``brokers_agree`` reports differences between brokers.
    usual: dict[str, dict[str, ConfigValue]] = {flow.source: {}, flow.target: {}}
    for cluster, values in usual.items():
        brokers = facts[cluster].brokers if cluster in facts else {}
        if brokers and not isinstance(brokers, Unknown):
            defaults = broker_defaults(brokers[min(brokers)])
            values.update({key: ConfigValue(value, Source.BUILT_IN) for key, value in defaults.items()})
    for route in routes:
        sides = []
        for ref in (route.source, route.remote):
            configs = prospects[ref].configs if ref in prospects else {}
            if not isinstance(configs, Unknown):
                sides.append({**usual[ref.cluster], **configs})
        if len(sides) < 2 or any("retention.ms" not in side for side in sides):
            unread.append(str(route.remote))
            continue
        less = kept_less(route.source, route.remote, *sides)
        narrower += (each for each in less if each.key != "max.message.bytes")  # the check of message sizes has it
    if narrower:
        why = "config sync carries what a source topic itself has; what it has from its brokers stays behind"
        texts, todos = zip(*kept_less_words(narrower), strict=True)
        judged = check.problem if any(each.loses for each in narrower) else check.warning
        return judged("; ".join(texts), why, "\n".join(dict.fromkeys(todos)))
    if unread:
        some = counted(len(unread), "copy", "copies")
        todo = "Let the plan principal describe the configs of topics and brokers"
        return check.unknown(f"what {some} would keep is not known: {', '.join(unread[:3])}", "", todo)
    return check.ok(f"copies keep and take what their sources do: {counted(len(routes), 'copy', 'copies')}")
