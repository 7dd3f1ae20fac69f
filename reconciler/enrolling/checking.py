"""SCRAM users against the rest of the topology: clusters they name, and one user declared twice on a cluster.

Border: as ``checking``: nouns in, problems out.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.errors import Problem
from reconciler.places import Places, unknown_cluster
from reconciler.topology import Topology
from reconciler.users import ScramUser, user_words


def check_users(topology: Topology, places: Places) -> Iterator[Problem]:
    first: dict[tuple[str, str], ScramUser] = {}
    for user in topology.users:
        for index, name in enumerate(user.clusters):
            where = places.find("users", str(user.number), "clusters", index, or_else=user.where)
            if problem := unknown_cluster(places, topology.clusters, name, user_words(user.name), where):
                yield problem
            other = first.setdefault((name, user.name), user)
            if other is not user:
                what = f"{user_words(user.name)} is declared again on {name}, as at {other.where}"
                yield Problem("duplicate-user", where, what, "Nobody could tell which of the two holds", "Remove one")
