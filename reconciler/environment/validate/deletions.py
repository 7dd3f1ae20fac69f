"""Validates declared deletions: the topic is not also declared, protected, or long deleted."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places, unknown_name
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.replication.expressions.unfit import unfit
from reconciler.resources.protected_names import protection_of


def check_tombstones(topology: Topology, places: Places) -> Iterator[Problem]:
    # Matching one that ``check_rules`` refuses could raise, or take for ever.
    protections = [rule for rule in topology.rules.protected if not unfit(rule.pattern)] if topology.deletions else []
    for stone in topology.deletions:
        subject = f"the tombstone of {stone.topic}"
        yield from unknown_name(places, topology.clusters, stone.cluster, subject, places.of(stone, "cluster"))
        declared = topology.topics.get(stone.topic)
        if declared is not None and stone.cluster in declared.clusters:
            problem = f"{stone.ref} has a tombstone and is declared at {declared.where}"
            why = "One asks for the topic, the other for its end"
            todo = f"Remove {stone.cluster} from the topic's clusters, or remove the tombstone"
            yield Problem("tombstone-for-declared", places.of(stone), problem, why, todo)
        if rule := protection_of(stone.topic, protections):
            problem = f"{stone.ref} has a tombstone, but {rule} keeps it from being deleted"
            why = "Kafka or a program beside it keeps its own state in such topics"
            todo = "Remove the tombstone"
            if rule.place:
                why = "One asks for its end, the other forbids it"
                todo = "Remove one of the two, in an edit that its owner reviews"
            yield Problem("tombstone-protected", places.of(stone, "topic"), problem, why, todo)


def check_expiry(topology: Topology, places: Places) -> Iterator[Problem]:
    """Of a text that is judged by itself. Beside live clusters ``topics.diff_deletions`` knows whether it is gone."""
    for stone in topology.deletions:
        if stone.expired:
            problem = f"the tombstone of {stone.ref} counted until {stone.expires}"
            why = "What was agreed then may no longer be meant"
            todo = "Remove it when the topic is gone; otherwise confirm it again and write a new date"
            yield Problem("tombstone-expired", places.of(stone, "expires"), problem, why, todo)
