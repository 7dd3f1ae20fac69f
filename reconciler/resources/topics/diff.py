"""Compares one wished topic with the cluster: create it, grow it, refuse what Kafka cannot do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.changes import AddPartitions, ConfigChange, CreateTopic, Ignored, Reason, Refused
from reconciler.counts import counted
from reconciler.diffing.configs import compare_configs, throttle, unknown_key_ignored, unknown_key_refused
from reconciler.diffing.findings import Findings, Settled, merged
from reconciler.diffing.wishes import TopicWish, TopicWishes
from reconciler.errors import Unknown
from reconciler.live import ConfigValue, LiveCluster, LiveTopic
from reconciler.topic_configs import THROTTLES, number
from reconciler.topology import TopicRef

NAME_LIMIT = 249


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a topic's cluster allows. ``names`` gives all names live or wished there, by their metric name.

    ``place_for``: see LiveCluster. ``keys`` are the topic configs its brokers know; empty when no topic was there to
    tell. ``fallback`` is what a topic has without an override, as far as known. ``replicated``: topics that get their
    wished factor in this plan. ``in_flight``: topics with a reassignment under way. ``hidden``: names that may be
    there, unseen by us.
    """

    place_for: Callable[[int], int]
    names: Callable[[], Mapping[str, set[str]]]
    keys: Collection[str]
    fallback: Mapping[str, ConfigValue]
    replicated: Collection[str] = ()
    in_flight: Collection[str] = ()
    hidden: Mapping[str, Unknown] = field(default_factory=dict)


def metric_name(topic: str) -> str:
    """Kafka refuses two topics that differ only in ``.`` and ``_``, because their metrics would be one."""
    return topic.replace(".", "_")


def compare_topics(
    wished: TopicWishes, clusters: Mapping[str, LiveCluster], around: Mapping[str, Surroundings]
) -> Iterator[Findings]:
    """As ``compare_topic`` for each; a topic like one that came out settled is not looked at again."""
    for cluster, named in wished.alike.items():
        there, here = clusters[cluster].topics, around[cluster]
        known: set[Hashable] = set()
        as_wished: list[str] = []
        wants: dict[int, int] = {}
        numbers: dict[Hashable, int] = {}  # a small one is hashed quicker than what it stands for
        for name, alike in named.items():
            topic = there.get(name)
            if (wanted := wants.get(id(alike))) is None:
                wanted = wants[id(alike)] = numbers.setdefault(_wants(alike), len(numbers))
            case = _case(name, wanted, topic, here) if topic is not None else None
            if case is not None and case in known:
                as_wished.append(f"{cluster}/{name}")
                continue
            found = merged(compare_topic(wished[TopicRef(cluster, name)], topic, here))
            if case is not None and found == Findings(settled=found.settled):
                known.add(case)
            yield found
        yield Findings(as_wished=tuple(as_wished))


def _wants(wish: TopicWish) -> Hashable:
    """Everything but names that ``compare_topic`` looks at in a wish."""
    counts = wish.partitions, wish.exact, wish.source_partitions, wish.replication_factor, wish.new_factor
    return id(wish.configs), counts, frozenset(wish.reset), id(wish.unreadable)


def _case(name: str, wanted: int, topic: LiveTopic, around: Surroundings) -> Hashable:
    """Everything that ``compare_topic`` looks at, so that equal cases of a cluster come out alike; None: look yourself.

    An identity stands for configs that many topics share; wishes and live topics outlast the comparison.
    """
    factor = topic.replication_factor
    if factor is None:
        return None
    under_way = name in around.replicated, name in around.in_flight
    return wanted, id(topic.configs), len(topic.partitions), factor, under_way


def compare_topic(wish: TopicWish, topic: LiveTopic | None, around: Surroundings) -> tuple[Findings, ...]:
    if topic is None:
        return (_missing(wish, around),)
    return _partitions(wish, topic, around), _factor(wish, topic), _guarded_configs(wish, topic, around)


def _missing(wish: TopicWish, around: Surroundings) -> Findings:
    if (hidden := around.hidden.get(wish.ref.name)) is not None:
        return Findings(unknown=(hidden,))
    refused = [*_names(wish, around), *_counts(wish, around), *_min_insync(wish, wish.new_factor)]
    ignored: list[Ignored] = []
    configs: list[ConfigChange] = []
    for key, wanted in sorted(wish.configs.items()):
        if key in THROTTLES:
            ignored.append(throttle(str(wish.ref), key))
        elif around.keys and key not in around.keys:
            refused.extend(unknown_key_refused(wish, key))
            ignored.extend(unknown_key_ignored(wish, key))
        else:
            configs.append(ConfigChange(key, None, "", wanted.value, wanted.origin))
    if refused or wish.unreadable is not None:
        unknown = (wish.unreadable,) if wish.unreadable else ()
        return Findings(refused=tuple(refused), unknown=unknown, ignored=tuple(ignored))
    partitions = wish.new_partitions or -1
    create = CreateTopic(wish.ref, partitions, wish.new_factor, tuple(configs), wish.role, wish.reason, wish.depth)
    return Findings(changes=(create,), ignored=tuple(ignored))


def _names(wish: TopicWish, around: Surroundings) -> list[Refused]:
    name = wish.ref.name
    if len(name) > NAME_LIMIT:
        what = f"{wish.ref} has {len(name)} characters; Kafka allows {NAME_LIMIT}"
        return [Refused(str(wish.ref), Reason("name-too-long", what), "Exclude its source with exclude_topics")]
    others = sorted(around.names().get(metric_name(name), set()) - {name})
    if not others:
        return []
    what = f"{wish.ref} and {', '.join(others)} differ only in '.' and '_', which Kafka refuses"
    return [Refused(str(wish.ref), Reason("name-collision", what), "Rename one of them, or use another separator")]


def _counts(wish: TopicWish, around: Surroundings) -> list[Refused]:
    refused: list[Refused] = []
    if wish.new_factor is not None and wish.new_factor > (place := around.place_for(wish.new_factor)):
        brokers = counted(place, "broker")
        what = f"{wish.ref} wants replication factor {wish.new_factor}, but {wish.ref.cluster} has {brokers}"
        refused.append(
            Refused(
                f"{wish.ref} replication factor",
                Reason("replication-factor-above-brokers", what),
                f"Set a replication factor of at most {place}, or add brokers",
            )
        )
    if wish.source is not None and wish.new_partitions is None and wish.unreadable is None:
        what = (
            f"{wish.source} does not exist yet and has no declared partitions, so {wish.ref} cannot get the same count"
        )
        refused.append(
            Refused(
                f"{wish.ref} partitions",
                Reason("partitions-not-declared", what),
                f"Declare partitions of {wish.source}",
            )
        )
    return refused + _below_source(wish)


def _below_source(wish: TopicWish) -> list[Refused]:
    if wish.partitions is None or wish.source_partitions is None or wish.partitions >= wish.source_partitions:
        return []
    what = (
        f"{wish.ref} is declared with {counted(wish.partitions, 'partition')}, but its source {_source_count(wish)};"
        " records of the others would have no place"
    )
    todo = f"Declare {counted(wish.source_partitions, 'partition')}, or leave the count out"
    return [Refused(f"{wish.ref} partitions", Reason("fewer-than-source", what), todo)]


def _partitions(wish: TopicWish, topic: LiveTopic, around: Surroundings) -> Findings:
    subject, live = f"{wish.ref} partitions", len(topic.partitions)
    if refused := _below_source(wish):
        return Findings(refused=tuple(refused))
    if wish.partitions is None and wish.unreadable is not None:
        return Findings()  # told with its configs
    if wish.partitions is None or wish.partitions == live:
        return Findings(settled=(Settled(str(wish.ref), "partitions"),))
    if wish.partitions > live and wish.ref.name in around.in_flight:
        text = f"{wish.partitions} are wished; they are added when the reassignment that is under way has ended"
        return Findings(ignored=(Ignored(subject, "waits-for-reassignment", text),))
    if wish.partitions > live:
        reason = _why_more(wish)
        grow = AddPartitions(wish.ref, topic.topic_id, live, wish.partitions, wish.role, reason, wish.depth)
        return Findings(changes=(grow,))
    if not wish.exact:
        text = f"has {live}, needs {wish.partitions}; Kafka cannot remove partitions, and more do no harm"
        return Findings(ignored=(Ignored(subject, "more-partitions", text),))
    what = f"partitions of {wish.ref} cannot shrink from {live} to {wish.partitions}; Kafka can only add"
    wished, found = (counted(count, "partition") for count in (wish.partitions, live))
    todo = f"Set {live}, or make a new topic with {wished} and move its users"
    return Findings(refused=(Refused(subject, Reason("partitions-shrink", what), todo, wished, found),))


def _why_more(wish: TopicWish) -> Reason:
    if wish.source is None or wish.partitions != wish.source_partitions:
        return Reason("more-partitions-wished", wish.reason.text)
    verb = "has" if wish.source_live == wish.source_partitions else "gets"
    return Reason(f"source-{verb}-more-partitions", f"{_source_count(wish)}; {wish.reason.text}")


def _source_count(wish: TopicWish) -> str:
    """The source grows after its remote topic, and may be yet to be made, so it need not have them now."""
    if wish.source_live == wish.source_partitions:
        return f"{wish.source} has {wish.source_partitions}"
    now = "is not there yet" if wish.source_live is None else f"has {wish.source_live} now"
    return f"{wish.source} is to have {wish.source_partitions} ({now})"


def _factor(wish: TopicWish, topic: LiveTopic) -> Findings:
    """Of a topic whose factor git leaves to the cluster."""
    subject, live = f"{wish.ref} replication factor", topic.replication_factor
    wanted = wish.replication_factor
    if wanted is not None:
        return Findings()  # see diffing.replicas
    if live is None:
        return Findings(ignored=(Ignored(subject, "mixed-replication-factor", f"partitions differ: {mixed(topic)}"),))
    if wish.new_factor is not None and live != wish.new_factor:
        text = f"has {live}; {wish.new_factor} is the default for new topics only"
        return Findings(ignored=(Ignored(subject, "default-for-new-topics", text),))
    return Findings(settled=(Settled(str(wish.ref), "replication factor"),))


def mixed(topic: LiveTopic) -> str:
    by_factor: dict[int, list[str]] = {}
    for partition in topic.partitions:
        by_factor.setdefault(len(partition.replicas), []).append(str(partition.index))
    return "; ".join(f"{factor} on partition {', '.join(by_factor[factor])}" for factor in sorted(by_factor))


def _guarded_configs(wish: TopicWish, topic: LiveTopic, around: Surroundings) -> Findings:
    factors = {len(partition.replicas) for partition in topic.partitions}
    factor = wish.replication_factor if wish.ref.name in around.replicated else min(factors, default=None)
    if refused := _min_insync(wish, factor):
        return Findings(refused=tuple(refused))
    return compare_configs(wish, topic, around.fallback)


def _min_insync(wish: TopicWish, factor: int | None) -> list[Refused]:
    wanted = wish.configs.get("min.insync.replicas")
    least = number(wanted.value) if wanted else None
    if wanted is None or least is None or factor is None or least <= factor:
        return []
    what = f"{wish.ref} wants min.insync.replicas {wanted.value} ({wanted.origin}) with replication factor {factor}"
    return [
        Refused(
            f"{wish.ref} min.insync.replicas",
            Reason("min-insync-above-factor", f"{what}; no producer with acks=all could ever write"),
            f"Set min.insync.replicas to at most {factor}, or raise the replication factor",
        )
    ]
