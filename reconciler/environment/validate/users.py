"""Validates SCRAM users: known clusters, no user declared twice on one."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places, unknown_clusters
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.users import ScramUser, user_words


def check_users(topology: Topology, places: Places) -> Iterator[Problem]:
    first: dict[tuple[str, str], ScramUser] = {}
    for user in topology.users:
        yield from unknown_clusters(places, topology.clusters, user, user_words(user.name))
        for index, name in enumerate(user.clusters):
            if (other := first.setdefault((name, user.name), user)) is not user:
                problem = f"{user_words(user.name)} is declared again on {name}, as at {other.where}"
                why, where = "It would be unclear which of the two counts", places.of(user, "clusters", index)
                yield Problem("duplicate-user", where, problem, why, "Remove one")
