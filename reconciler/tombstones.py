"""Tombstones against the rest of the topology: what is declared, protected or out of date is not deleted.

Border: nouns in, problems out; comparing with live clusters is ``diffing.removals``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from reconciler.errors import Problem, Where
from reconciler.places import Places, Step, suggestion
from reconciler.topology import Tombstone, Topology

PROTECTED = (
    r"__.*",
    r"_schemas",
    r"_confluent.*",
    r"mm2.*[.-]internal",
    r".*\.checkpoints\.internal",
    r"connect-(configs|offsets|status)",
)
"""Whole names of topics that Kafka, its companions and our own mirror live on. No tombstone reaches them."""

_PROTECTED = re.compile("|".join(f"(?:{pattern})" for pattern in PROTECTED))


def is_protected(topic: str) -> bool:
    return _PROTECTED.fullmatch(topic) is not None


def check_tombstones(topology: Topology, places: Places, today: date) -> Iterator[Problem]:
    for stone in topology.deletions:
        yield from _cluster(topology, places, stone)
        declared = topology.topics.get(stone.topic)
        if declared is not None and stone.cluster in declared.clusters:
            what = f"{stone.ref} has a tombstone and is declared at {declared.where}"
            why = "One asks for the topic, the other for its end"
            todo = f"Remove {stone.cluster} from the topic's clusters, or remove the tombstone"
            yield Problem("tombstone-for-declared", _at(places, stone), what, why, todo)
        if is_protected(stone.topic):
            what = f"{stone.ref} is protected and cannot be deleted"
            why = "Kafka or a program beside it keeps its own state in such topics"
            yield Problem("tombstone-protected", _at(places, stone, "topic"), what, why, "Remove the tombstone")
        if date.fromisoformat(stone.expires) < today:
            what = f"the tombstone of {stone.ref} counted until {stone.expires}"
            why = "What was agreed then may no longer be meant"
            todo = "Remove it when the topic is gone; otherwise agree again and write a new date"
            yield Problem("tombstone-expired", _at(places, stone, "expires"), what, why, todo)


def _cluster(topology: Topology, places: Places, stone: Tombstone) -> Iterator[Problem]:
    if stone.cluster in topology.clusters or places.has("clusters", stone.cluster) or not places.complete:
        return
    known = topology.clusters.keys() | {one for section, one in places.entries if section == "clusters"}
    todo = suggestion(stone.cluster, known, "Declare it under clusters")
    what = f"the tombstone of {stone.topic} names the unknown cluster {stone.cluster}"
    yield Problem(
        "unknown-cluster", _at(places, stone, "cluster"), what, "No file of the environment declares it", todo
    )


def _at(places: Places, stone: Tombstone, *path: Step) -> Where:
    return places.find("deletions", str(stone.ref), *path, or_else=stone.where)
