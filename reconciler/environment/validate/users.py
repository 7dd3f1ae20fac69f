"""Validates SCRAM users: known clusters, no user declared twice on one."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.environment.yaml.locations import Places, unknown_clusters
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.users import AS_FOUND, ScramUser, user_words
from reconciler.text import grouped


def check_users(topology: Topology, places: Places) -> Iterator[Problem]:
    yield from _shared_passwords(topology, places)
    first: dict[tuple[str, str], ScramUser] = {}
    for user in topology.users:
        yield from unknown_clusters(places, topology.clusters, user, user_words(user.name))
        for index, name in enumerate(user.clusters):
            if (other := first.setdefault((name, user.name), user)) is not user:
                problem = f"{user_words(user.name)} is declared again on {name}, as at {other.where}"
                why, where = "It would be unclear which of the two counts", places.of(user, "clusters", index)
                yield Problem("duplicate-user", where, problem, why, "Remove one")


def _shared_passwords(topology: Topology, places: Places) -> Iterator[Problem]:
    """One user may have one password on several clusters; two users with one would each be able to be the other."""
    by_reference = grouped((user.password, user) for user in topology.users if user.password and not user.absent)
    for reference, users in by_reference.items():
        first, *others = users
        setting = any(user.version != AS_FOUND for user in users)  # else no password is set from here yet
        for user in others:
            if setting and user.name != first.name:
                problem = f"{user_words(user.name)} has the password {reference}, as {user_words(first.name)} at"
                why = "Each of the two could log in as the other"
                todo = "Give each user a variable or file of its own"
                where = places.of(user, "password")
                yield Problem("shared-password", where, f"{problem} {first.where}", why, todo)
