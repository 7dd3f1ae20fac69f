"""Replication throttles of a reassignment: their keys, owners, and how to set and clear them. Pure functions.

A throttle is two rates on brokers and two lists on topics (KIP-73). Leaders send from existing replicas, followers
fetch into new ones; Kafka never throttles in-sync replicas. Lists are set before rates and cleared after them, so that
a rate of ours exists only while a topic names it. Settings of other tools are kept: their rates stay, and lists gain
and lose only our entries.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from reconciler.model import replicas
from reconciler.model.live import LiveTopic

EVERYTHING = "*"

Rates = Mapping[int, Mapping[str, str]]


def journal_for(
    begun: replicas.Journal,
    goals: Mapping[replicas.Partition, replicas.Placement],
    rate: int,
    facts: replicas.ReplicaFacts,
    live: Mapping[str, LiveTopic],
) -> replicas.Journal:
    """The journal of ``begun`` (of an earlier run, or empty), with settings that will be ours."""
    begun = _still_there(begun, facts, live)
    growing = {key: placement for key, placement in goals.items() if placement.added}
    ours = {*begun.rates, rate}
    # A rate of another tool stays theirs: the end of the reassignment clears only ours.
    brokers = {
        (broker, key)
        for placement in growing.values()
        for key, side in ((replicas.LEADER_RATE, placement.before), (replicas.FOLLOWER_RATE, placement.added))
        for broker in side
        if facts.rates.get(broker, {}).get(key) in (None, *map(str, ours))
    }
    lists = {(listed.topic, listed.key): listed for listed in begun.lists}
    entries: dict[tuple[str, str], list[str]] = {}
    for (topic, partition), placement in sorted(growing.items()):
        entries.setdefault((topic, replicas.LEADER_REPLICAS), []).extend(
            f"{partition}:{broker}" for broker in placement.before
        )
        entries.setdefault((topic, replicas.FOLLOWER_REPLICAS), []).extend(
            f"{partition}:{broker}" for broker in placement.added
        )
    for (topic, key), wanted in entries.items():
        here = entries_of(live[topic].overrides.get(key, ""))
        # `*` already throttles every partition.
        if EVERYTHING in here:
            continue
        known = lists.get((topic, key))
        our_entries = known.entries if known else ()
        fresh = known.fresh if known else key not in live[topic].overrides
        added = tuple(name for name in wanted if name not in here and name not in our_entries)
        lists[topic, key] = replicas.ListEntries(topic, key, (*our_entries, *added), fresh)
    targets = {**begun.targets, **{key: placement.after for key, placement in goals.items()}}
    return replicas.Journal(
        environment=begun.environment,
        began_ms=begun.began_ms,
        targets=MappingProxyType(targets),
        rates=tuple(sorted(ours)),
        brokers=tuple(sorted({*begun.brokers, *brokers})),
        lists=tuple(lists[key] for key in sorted(lists)),
    )


def _still_there(
    begun: replicas.Journal, facts: replicas.ReplicaFacts, live: Mapping[str, LiveTopic]
) -> replicas.Journal:
    """Without what is gone by now or was set by others: that is not ours to set or clear any more."""
    mine = set(map(str, begun.rates))
    flying = {move.key for move in facts.moves}
    brokers = tuple(broker for broker in begun.brokers if facts.rates.get(broker[0], {}).get(broker[1]) in mine)
    lists = []
    for listed in begun.lists:
        here = _there(listed, live)
        if entries := tuple(entry for entry in listed.entries if entry in here):
            lists.append(replace(listed, entries=entries))
    return replace(
        begun,
        targets=MappingProxyType({key: to for key, to in begun.targets.items() if key in flying}),
        rates=begun.rates if brokers else (),
        brokers=brokers,
        lists=tuple(lists),
    )


def set_lists(journal: replicas.Journal, live: Mapping[str, LiveTopic]) -> Iterator[replicas.ThrottleEdit]:
    """Appends missing list entries."""
    for listed in journal.lists:
        here = _there(listed, live) if listed.topic in live else (EVERYTHING,)
        if missing := [entry for entry in listed.entries if entry not in here and EVERYTHING not in here]:
            yield replicas.ThrottleEdit(listed.key, "append", ",".join(missing), topic=listed.topic)


def set_rates(journal: replicas.Journal, rate: int, rates: Rates) -> Iterator[replicas.ThrottleEdit]:
    for broker, key in journal.brokers:
        if rates.get(broker, {}).get(key) != str(rate):
            yield replicas.ThrottleEdit(key, "set", str(rate), broker=broker)


def release(journal: replicas.Journal, arrived: Collection[replicas.Partition]) -> Iterator[replicas.ThrottleEdit]:
    """Removes list entries of arrived partitions: an in-sync follower that falls behind by a record would be throttled,
    and producers with acks=all would wait for it."""
    for listed in journal.lists:
        done = [entry for entry in listed.entries if (listed.topic, int(entry.partition(":")[0])) in arrived]
        if done:
            yield replicas.ThrottleEdit(listed.key, "subtract", ",".join(done), topic=listed.topic)


def clear_rates(journal: replicas.Journal, rates: Rates) -> Iterator[replicas.ThrottleEdit]:
    """Clears rates that still have our value; another value is from another tool."""
    mine = set(map(str, journal.rates))
    for broker, key in journal.brokers:
        if rates.get(broker, {}).get(key) in mine:
            yield replicas.ThrottleEdit(key, "delete", broker=broker)


def clear_lists(journal: replicas.Journal, live: Mapping[str, LiveTopic]) -> Iterator[replicas.ThrottleEdit]:
    """Removes our entries. A list that we made is deleted as a whole unless another tool has added to it."""
    for listed in journal.lists:
        here = _there(listed, live)
        mine = [entry for entry in listed.entries if entry in here]
        set_by_us = listed.fresh and listed.topic in live and listed.key in live[listed.topic].overrides
        if set_by_us and set(here) <= set(listed.entries):
            yield replicas.ThrottleEdit(listed.key, "delete", topic=listed.topic)
        elif mine:
            yield replicas.ThrottleEdit(listed.key, "subtract", ",".join(mine), topic=listed.topic)


def kept_rates(goals: Iterable[replicas.Placement], journal: replicas.Journal, rates: Rates) -> dict[int, str]:
    """Broker -> rate of another tool, which limits our copying, too."""
    mine = set(map(str, journal.rates))
    by_name: dict[int, str] = {}
    for placement in goals:
        for key, side in ((replicas.LEADER_RATE, placement.before), (replicas.FOLLOWER_RATE, placement.added)):
            for broker in side if placement.added else ():
                value = rates.get(broker, {}).get(key)
                if value is not None and value not in mine:
                    by_name[broker] = value
    return by_name


def _there(listed: replicas.ListEntries, live: Mapping[str, LiveTopic]) -> tuple[str, ...]:
    """The present list of a topic, with entries of all tools; empty for a deleted topic."""
    return entries_of(live[listed.topic].overrides.get(listed.key, "")) if listed.topic in live else ()


def entries_of(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())
