"""Compares a desired topic with the live one: create it, add partitions, refuse what Kafka cannot do."""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace

from reconciler.model.changes import (
    About,
    AddPartitions,
    ConfigChange,
    CreateTopic,
    Ignored,
    Reason,
    Refused,
    Subject,
    Why,
    of_topic,
)
from reconciler.model.config_values import THROTTLES, number
from reconciler.model.environment.services import offer_of
from reconciler.model.environment.topology import Cluster, TopicRef
from reconciler.model.live import ConfigValue, LiveCluster, LiveTopic
from reconciler.model.plan import Findings, merged
from reconciler.resources.topics import diff_configs
from reconciler.resources.topics.desired import DesiredTopic, DesiredTopics
from reconciler.resources.topics.limits import BUILT_IN, min_insync_above
from reconciler.text import counted, grouped

NAME_LIMIT = 249


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a topic's cluster allows."""

    declared: Cluster
    """The cluster in git, whose service may offer less than Kafka."""
    live: LiveCluster
    """Without topics that tombstones delete."""
    names: Callable[[], Mapping[str, set[str]]]
    """All live and desired names there, by their metric name."""
    keys: Collection[str]
    """Topic configs that its brokers know; empty if no topic showed them."""
    fallback: Mapping[str, ConfigValue]
    """Known values of a topic without overrides."""
    replicated: Collection[str] = ()
    """Topics that get their desired factor in this plan."""
    in_flight: Collection[str] = ()
    """Topics with a running reassignment."""
    taken_off: Collection[tuple[TopicRef, str]] = ()
    """Overrides of any cluster that others have removed since the last apply."""


def metric_name(topic: str) -> str:
    """The name of a topic in Kafka's metrics: Kafka refuses topics that share it because they differ only in ``.`` and
    ``_``."""
    return topic.replace(".", "_")


def compare_topics(
    desired_topics: DesiredTopics, clusters: Mapping[str, LiveCluster], around: Mapping[str, Surroundings]
) -> Iterator[Findings]:
    """``compare_topic`` for each topic; a topic that equals an earlier one without findings is not compared again."""
    for cluster, named in desired_topics.alike.items():
        there, here = clusters[cluster].topics, around[cluster]
        known: set[Hashable] = set()
        as_desired: list[Subject] = []
        wants: dict[int, int] = {}
        numbers: dict[Hashable, int] = {}  # a small number is faster to hash than the value
        for name, alike in named.items():
            topic = there.get(name)
            if (wanted := wants.get(id(alike))) is None:
                # Everything but names that ``compare_topic`` reads of a desired topic.
                counts = alike.partitions, alike.exact, alike.source_partitions
                factors = alike.replication_factor, alike.new_factor
                rest = frozenset(alike.reset), id(alike.unreadable), alike.undeclared
                want = id(alike.configs), counts, factors, rest
                wanted = wants[id(alike)] = numbers.setdefault(want, len(numbers))
            case = _case(name, wanted, topic, here) if topic is not None else None
            if case is not None and case in known:
                as_desired.append(Subject(About.TOPIC, cluster, name))
                continue
            parts = compare_topic(desired_topics[TopicRef(cluster, name)], topic, here)
            findings = parts[0] if len(parts) == 1 else merged(parts)
            if case is not None and findings == Findings(settled=findings.settled):
                known.add(case)
            yield findings
        yield Findings(as_desired=tuple(as_desired))


def _case(name: str, wanted: int, topic: LiveTopic, around: Surroundings) -> Hashable:
    """Everything that ``compare_topic`` reads, so that equal cases of a cluster have equal findings; None: compare it
    anyway.

    Configs that many topics share are compared by identity: desired and live topics outlast the comparison.
    """
    factor = topic.replication_factor
    if factor is None:
        return None
    under_way = name in around.replicated, name in around.in_flight
    return wanted, id(topic.configs), len(topic.partitions), factor, under_way


def compare_topic(desired: DesiredTopic, topic: LiveTopic | None, around: Surroundings) -> tuple[Findings, ...]:
    if topic is None:
        return (_missing(desired, around),)
    return _partitions(desired, topic, around), _factor(desired, topic), _guarded_configs(desired, topic, around)


def _missing(desired: DesiredTopic, around: Surroundings) -> Findings:
    """A topic that does not exist: to create, unless Kafka, the service or an unreadable source prevents that."""
    if (hidden := around.live.hidden.get(desired.ref.name)) is not None:
        return Findings(unknown=(hidden,))
    refused = [*_refused_new(desired, around), *_min_insync(desired, desired.new_factor)]
    ignored: list[Ignored] = []
    configs: list[ConfigChange] = []
    for key, wanted in sorted(desired.configs.items()):
        if key in THROTTLES:
            ignored.append(diff_configs.throttle(desired.ref, key))
        elif around.keys and key not in around.keys:
            unasked = diff_configs.unknown_key(desired, key)
            refused += unasked.refused
            ignored += unasked.ignored
        elif lacking := diff_configs.not_offered(desired, key, around.declared):
            refused += lacking.refused
            ignored += lacking.ignored
        else:
            config = ConfigChange(key, None, "", wanted.value, wanted.origin)
            # A new copy has no values yet, so it is compared with those that it would have without the flow. That is
            # done only if git declares its source: others review an undeclared source, and its flow follows it.
            if desired.source_declared:
                below = around.fallback.get(key)
                usual = replace(config, before=below.value if below else BUILT_IN.get(key))
                config = replace(config, undeclared=diff_configs.carried(desired, usual, config.after).undeclared)
            configs.append(config)
    if refused or desired.unreadable is not None:
        unknown = (desired.unreadable,) if desired.unreadable else ()
        return Findings(refused=tuple(refused), unknown=unknown, ignored=tuple(ignored))
    partitions = desired.new_partitions or -1
    create = CreateTopic(
        desired.ref, partitions, desired.new_factor, tuple(configs), desired.role, desired.reason, desired.depth
    )
    limits = tuple(diff_configs.lower_limit(desired, config) for config in configs if config.undeclared)
    return Findings(changes=(create,), refused=limits, ignored=tuple(ignored))


def _refused_new(desired: DesiredTopic, around: Surroundings) -> Iterator[Refused]:
    """Kafka's reasons to refuse a new topic: its name, factor or partitions."""
    # All reasons at once: a plan that names one refusal after the other costs a review for each.
    subject, name = of_topic(desired.ref), desired.ref.name
    if len(name) > NAME_LIMIT:
        description = f"{desired.ref} has {len(name)} characters; Kafka allows {NAME_LIMIT}"
        yield Refused.of(subject, Why.NAME_TOO_LONG, description, "Exclude its source with exclude_topics")
    elif others := sorted(around.names().get(metric_name(name), set()) - {name}):
        description = f"{desired.ref} and {', '.join(others)} differ only in '.' and '_', which Kafka refuses"
        yield Refused.of(subject, Why.NAME_COLLISION, description, "Rename one of them, or use another separator")
    if desired.new_factor is not None and desired.new_factor > (place := around.live.place_for(desired.new_factor)):
        brokers = counted(place, "broker")
        description = (
            f"{desired.ref} declares replication factor {desired.new_factor}, but {desired.ref.cluster} has {brokers}"
        )
        subject, todo = of_topic(desired.ref, "replication factor"), f"Set a replication factor of at most {place}"
        yield Refused.of(subject, Why.REPLICATION_FACTOR_ABOVE_BROKERS, description, f"{todo}, or add brokers")
    if desired.source is not None and desired.new_partitions is None and desired.unreadable is None:
        description = (
            f"{desired.source} does not exist yet and has no declared partitions, so {desired.ref} cannot get the same "
            "count"
        )
        subject, todo = of_topic(desired.ref, "partitions"), f"Declare partitions of {desired.source}"
        yield Refused.of(subject, Why.PARTITIONS_NOT_DECLARED, description, todo)
    yield from _below_source(desired)


def _below_source(desired: DesiredTopic) -> Iterator[Refused]:
    """A record keeps its partition number, so a copy needs as many partitions as its source."""
    if (
        desired.partitions is None
        or desired.source_partitions is None
        or desired.partitions >= desired.source_partitions
    ):
        return
    problem = (
        f"{desired.ref} is declared with {counted(desired.partitions, 'partition')}, but its source "
        f"{_source_count(desired)}; records of the others would have no place"
    )
    todo = f"Declare {counted(desired.source_partitions, 'partition')}, or leave the count out"
    yield Refused.of(of_topic(desired.ref, "partitions"), Why.FEWER_THAN_SOURCE, problem, todo)


def _partitions(desired: DesiredTopic, topic: LiveTopic, around: Surroundings) -> Findings:
    """The number of partitions: more can be added, fewer never. A copy may have more than its source, since records
    keep their partition."""
    subject, live = of_topic(desired.ref, "partitions"), len(topic.partitions)
    if refused := tuple(_below_source(desired)):
        return Findings(refused=refused)
    if desired.partitions is None and desired.unreadable is not None:
        return Findings()  # its configs report it
    if desired.partitions is None or desired.partitions == live:
        return Findings(settled=(subject.whole,))
    if desired.partitions > live and desired.ref.name in around.in_flight:
        text = f"{desired.partitions} are desired; they are added when the running reassignment has ended"
        return Findings(ignored=(Ignored(subject, "waits-for-reassignment", text),))
    if desired.partitions > live and offer_of(around.declared).more_partitions is False:
        text = f"{desired.ref} has {counted(live, 'partition')}, and {desired.partitions} are desired"
        return Findings(
            refused=(diff_configs.refused_by_service(subject, around.declared, text, "adds none by Kafka's requests"),)
        )
    if desired.partitions > live:
        reason = Reason(Why.MORE_PARTITIONS_WISHED, desired.reason.text)
        if desired.source is not None and desired.partitions == desired.source_partitions:
            unchanged = desired.source_live == desired.source_partitions
            why = Why.SOURCE_HAS_MORE_PARTITIONS if unchanged else Why.SOURCE_GETS_MORE_PARTITIONS
            reason = Reason(why, f"{_source_count(desired)}; {desired.reason.text}")
        grow = AddPartitions(desired.ref, topic.topic_id, live, desired.partitions, desired.role, reason, desired.depth)
        return Findings(changes=(grow,))
    if not desired.exact:
        text = f"has {live}, needs {desired.partitions}; Kafka cannot remove partitions, and more do no harm"
        return Findings(ignored=(Ignored(subject, "more-partitions", text),))
    problem = f"partitions of {desired.ref} cannot shrink from {live} to {desired.partitions}; Kafka can only add"
    desired_words, description = (counted(count, "partition") for count in (desired.partitions, live))
    todo = f"Set {live}, or make a new topic with {desired_words} and move its users"
    reason = Reason(Why.PARTITIONS_SHRINK, problem)
    return Findings(refused=(Refused(subject, reason, todo, desired_words, description),))


def _source_count(desired: DesiredTopic) -> str:
    """Present and planned partitions of the source, which grows after its remote topic and may not exist yet."""
    if desired.source_live == desired.source_partitions:
        return f"{desired.source} has {desired.source_partitions}"
    now = "does not exist yet" if desired.source_live is None else f"has {desired.source_live} now"
    return f"{desired.source} is to have {desired.source_partitions} ({now})"


def _factor(desired: DesiredTopic, topic: LiveTopic) -> Findings:
    """Findings for a topic whose factor git leaves to the cluster."""
    subject, live = of_topic(desired.ref, "replication factor"), topic.replication_factor
    wanted = desired.replication_factor
    if wanted is not None:
        return Findings()  # compared in resources.replicas.diff
    if live is None:
        return Findings(ignored=(Ignored(subject, "mixed-replication-factor", f"partitions differ: {mixed(topic)}"),))
    if desired.new_factor is not None and live != desired.new_factor:
        text = f"has {live}; {desired.new_factor} is the default for new topics only"
        return Findings(ignored=(Ignored(subject, "default-for-new-topics", text),))
    return Findings(settled=(of_topic(desired.ref),))


def mixed(topic: LiveTopic) -> str:
    by_factor = grouped((len(partition.replicas), str(partition.index)) for partition in topic.partitions)
    return "; ".join(f"{factor} on partition {', '.join(by_factor[factor])}" for factor in sorted(by_factor))


def _guarded_configs(desired: DesiredTopic, topic: LiveTopic, around: Surroundings) -> Findings:
    factors = {len(partition.replicas) for partition in topic.partitions}
    factor = desired.replication_factor if desired.ref.name in around.replicated else min(factors, default=None)
    settable = "min.insync.replicas" not in offer_of(around.declared).fixed_configs  # else ``not_offered`` refuses it
    if settable and (refused := tuple(_min_insync(desired, factor))):
        return Findings(refused=refused)
    return diff_configs.compare_configs(desired, topic, around.fallback, around.declared, around.taken_off)


def _min_insync(desired: DesiredTopic, factor: int | None) -> Iterator[Refused]:
    """Refuses more required replicas than the topic has: producers could not write."""
    wanted = desired.configs.get("min.insync.replicas")
    least = number(wanted.value) if wanted else None
    if wanted is None or least is None or factor is None or least <= factor:
        return
    description = (
        f"{desired.ref} declares min.insync.replicas {wanted.value} ({wanted.origin}) with replication factor {factor}."
        f" {min_insync_above(factor)}"
    )
    todo = f"Set min.insync.replicas to at most {factor}, or raise the replication factor"
    yield Refused.of(of_topic(desired.ref, "min.insync.replicas"), Why.MIN_INSYNC_ABOVE_FACTOR, description, todo)
