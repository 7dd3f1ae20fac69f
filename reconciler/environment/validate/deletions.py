"""Tombstones against the rest of the topology: what is declared, protected or out of date is not deleted.

Border: nouns in, problems out; comparing with live clusters is ``diffing.removals``.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.errors import Problem, Where
from reconciler.guarding.protecting import protection_of
from reconciler.places import Places, Step, unknown_cluster
from reconciler.topology import Tombstone, Topology


def check_tombstones(topology: Topology, places: Places) -> Iterator[Problem]:
    for stone in topology.deletions:
        yield from _cluster(topology, places, stone)
        declared = topology.topics.get(stone.topic)
        if declared is not None and stone.cluster in declared.clusters:
            what = f"{stone.ref} has a tombstone and is declared at {declared.where}"
            why = "One asks for the topic, the other for its end"
            todo = f"Remove {stone.cluster} from the topic's clusters, or remove the tombstone"
            yield Problem("tombstone-for-declared", _at(places, stone), what, why, todo)
        if rule := protection_of(stone.topic, topology.rules.protected):
            what = f"{stone.ref} has a tombstone, but {rule} keeps it from being deleted"
            why = "Kafka or a program beside it keeps its own state in such topics"
            todo = "Remove the tombstone"
            if rule.place:
                why = "One asks for its end, the other forbids it"
                todo = "Remove one of the two, in an edit that its owner reviews"
            yield Problem("tombstone-protected", _at(places, stone, "topic"), what, why, todo)


def check_expiry(topology: Topology, places: Places) -> Iterator[Problem]:
    """Of a text that is judged by itself. Beside live clusters ``diffing.removals`` knows whether the topic is gone."""
    for stone in topology.deletions:
        if stone.expired:
            what = f"the tombstone of {stone.ref} counted until {stone.expires}"
            why = "What was agreed then may no longer be meant"
            todo = "Remove it when the topic is gone; otherwise agree again and write a new date"
            yield Problem("tombstone-expired", _at(places, stone, "expires"), what, why, todo)


def _cluster(topology: Topology, places: Places, stone: Tombstone) -> Iterator[Problem]:
    subject, where = f"the tombstone of {stone.topic}", _at(places, stone, "cluster")
    if problem := unknown_cluster(places, topology.clusters, stone.cluster, subject, where):
        yield problem


def _at(places: Places, stone: Tombstone, *path: Step) -> Where:
    return places.find("deletions", str(stone.ref), *path, or_else=stone.where)
