"""Replicas in words, and what is under way as JSON: what moves where, how much and how long; and the load of each
broker before, during and after."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

from reconciler.changes import FinishReassignment, ReassignReplicas
from reconciler.counts import counted
from reconciler.errors import Unknown
from reconciler.replicas import BrokerLoad, Load, Move, Placement, ReplicaFacts, largest
from reconciler.sizes import size_words, time_words

SHOWN = 3
LOADS_WHY = "before -> after, and the most each holds meanwhile where that is more"


def reassigned(changes: Sequence[ReassignReplicas]) -> Iterator[str]:
    """Lines for one topic, or for several that change alike."""
    moved = [one for change in changes for one in change.placements]
    if len(changes) == 1:
        yield from map(_placement, moved[:SHOWN])
        if len(moved) > SHOWN:
            yield f"and {counted(len(moved) - SHOWN, 'partition')} more"
        later = changes[0].partitions - len(moved)
        if changes[0].before is not None and later > 0:
            yield f"partitions that come in this plan follow: {changes[0].partitions} in all"
    else:
        yield counted(len(moved), "partition")
    if begun := sum(change.in_flight for change in changes):
        yield f"goes on with {counted(begun, 'partition')} that an earlier run began"
    if size := sum(change.bytes_to_copy for change in changes):
        pace = changes[0].pace
        together = sum(change.seconds for change in changes)
        yield (
            f"{size_words(size)} to copy, throttled to {size_words(pace.throttle)}/s a broker, about"
            f" {time_words(together)}; at most {size_words(pace.bytes_in_flight)} or"
            f" {counted(pace.partitions_in_flight, 'partition')} at a time"
        )


def finished(change: FinishReassignment) -> Iterator[str]:
    if change.in_flight:
        yield f"waits for {counted(change.in_flight, 'partition')} on the way"
    if change.brokers:
        yield f"clears our throttle rates on broker {', '.join(map(str, change.brokers))}"
    if change.topics:
        yield f"clears our throttled replicas of {', '.join(change.topics[:SHOWN])}" + (
            f" and {counted(len(change.topics) - SHOWN, 'topic')} more" if len(change.topics) > SHOWN else ""
        )


def load_lines(loads: Sequence[BrokerLoad]) -> Iterator[str]:
    """One a broker: ``east broker 1 (rack a): 4 -> 12 replicas, 4 leaders, 20.0 MiB -> 60.0 MiB``."""
    for one in loads:
        rack = f" (rack {one.rack})" if one.rack else ""
        replicas = _span(str, one, lambda load: load.replicas)
        leaders = _span(str, one, lambda load: load.leaders)
        size = _span(size_words, one, lambda load: load.bytes)
        yield f"{one.cluster} broker {one.broker}{rack}: {replicas} replicas, {leaders} preferred leaders, {size}"


def under_way(cluster: str, facts: ReplicaFacts | Unknown) -> Iterator[str]:
    """Each reassignment of one cluster, whose it is, and what is left to copy; then what is throttled."""
    if isinstance(facts, Unknown):
        yield f"{cluster}: unknown: {facts.error}"
        yield f"  {facts.todo}"
        return
    if not facts.moves and facts.journal is None:
        yield f"{cluster}: no reassignment is under way"
        return
    for move in facts.moves:
        bytes_left = _left(move, facts)
        left = "how much is left is not known" if bytes_left is None else f"{size_words(bytes_left)} left"
        whose = "ours" if facts.ours(move) else "someone else's"
        to = ", ".join(map(str, move.target))
        yield f"{cluster}: {move.topic}-{move.partition} -> {to}, {left}, {whose}"
    if facts.journal is not None:
        throttled = _throttled(facts)
        on = f"throttles of ours on broker {', '.join(map(str, throttled))}" if throttled else "no throttle of ours"
        yield f"{cluster}: begun by an apply of {facts.journal.environment}; {on}"


def reassignments_json(environment: str, found: Mapping[str, ReplicaFacts | Unknown]) -> str:
    """As schemas/reassignments.schema.json. ``found``: by cluster."""
    unknown = [asdict(one) for one in found.values() if isinstance(one, Unknown)]
    clusters = {
        name: {
            "begun_by_apply": facts.journal is not None,
            "throttled_brokers": _throttled(facts),
            "reassignments": [
                {
                    "topic": move.topic,
                    "partition": move.partition,
                    "before": list(move.before),
                    "after": list(move.target),
                    "bytes_left": _left(move, facts),
                    "ours": facts.ours(move),
                }
                for move in facts.moves
            ],
        }
        for name, facts in found.items()
        if not isinstance(facts, Unknown)
    }
    document = {
        "format_version": 1,
        "kind": "reassignments",
        "environment": environment,
        "exit_code": 1 if unknown else 0,
        "clusters": clusters,
        "unknown": unknown,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _left(move: Move, facts: ReplicaFacts) -> int | None:
    """Bytes that its new replicas still lack; None where no broker told the size of the partition."""
    whole = largest(facts.sizes).get(move.key)
    if whole is None:
        return None
    return sum(max(0, whole - facts.sizes.get((*move.key, broker), 0)) for broker in move.adding)


def _throttled(facts: ReplicaFacts) -> list[int]:
    return sorted({broker for broker, _ in facts.journal.brokers}) if facts.journal is not None else []


def _placement(one: Placement) -> str:
    return f"partition {one.partition}: {', '.join(map(str, one.before))} -> {', '.join(map(str, one.after))}"


def _span(words: Callable[[int], str], one: BrokerLoad, part: Callable[[Load], int]) -> str:
    before, during, after = part(one.before), part(one.during), part(one.after)
    peak = f" (meanwhile {words(during)})" if during > max(before, after) else ""
    return words(before) if before == after and not peak else f"{words(before)} -> {words(after)}{peak}"
