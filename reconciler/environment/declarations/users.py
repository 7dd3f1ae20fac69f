"""``users``: SCRAM users, each once on a cluster. A password is a reference, and no message ever holds it."""

import re
from collections.abc import Iterator

from reconciler.environment.declarations.entry import Reading
from reconciler.environment.declarations.values import Wrong, is_reference
from reconciler.environment.yaml.locations import Places, unknown_clusters
from reconciler.environment.yaml.nodes import Node, Scalar
from reconciler.errors import Problem
from reconciler.model.environment.topology import Topology
from reconciler.model.principals import AS_FOUND, Mechanism, ScramUser, user_words
from reconciler.text import grouped

_ONLY_DESIRED = ("version", "mechanisms", "iterations", "password", "take_over")
_MIXED = re.compile(r"\$\{(env|file):")


def user_secret(key: str, node: Node) -> str | Wrong:
    """Checks the secret in a user's entry, its ``password``."""
    if key != "password" or not isinstance(node, Scalar) or is_reference(node.text):
        return ""
    if _MIXED.search(node.text):
        problem, why = "password mixes a reference with other text", "Part of the secret would be in git"
        return Wrong("secret-in-git", problem, why, "Let one reference be the whole value")
    problem, why = "password holds a literal value", "Anyone who can read the repository could log in as this user"
    todo = "Write ${env:NAME} or ${file:PATH}, and take another password if this one was ever committed"
    return Wrong("secret-in-git", problem, why, todo)


def build_user(reading: Reading) -> ScramUser:
    """``reading.name`` is the entry's number, from 1."""
    name = str(reading.value("name", default=""))
    absent = reading.value("absent", default=False)
    version = reading.value("version", default=AS_FOUND)
    password = str(reading.value("password", default=""))
    if name.startswith("User:"):
        problem, why = f'name is "{name}"', "A user logs in with the name alone, so this one would be another user"
        reading.wrong(("name",), Wrong("user-name", problem, why, f"Write {name.removeprefix('User:')}"))
    if absent:
        for field in _ONLY_DESIRED:
            if reading.node(field) is not None:
                problem, why = f"it is absent and has {field}", "One asks for the user, the other removes it"
                reading.wrong((field,), Wrong("user-field", problem, why, "Remove one of the two"))
    else:
        if reading.node("version") is None:
            problem, why = "it has no version", "Passwords are never compared: only the version announces a new one"
            todo = "Write version: 1 and raise it with each new password, or absent: true"
            reading.wrong((), Wrong("user-field", problem, why, todo))
        if reading.node("password") is None:
            if version > AS_FOUND:
                problem, why = f"it has version {version} and no password", "There is nothing to set for this version"
                reading.wrong((), Wrong("user-field", problem, why, "Write password: ${env:NAME} or ${file:PATH}"))
        else:
            reading.mapping(each=user_secret)
    return ScramUser(
        number=int(reading.name),
        clusters=reading.texts("clusters"),
        name=name,
        version=version,
        mechanisms=tuple(Mechanism(text) for text in reading.texts("mechanisms", default=(Mechanism.SHA_512,))),
        iterations=reading.value("iterations", default=None),
        password=password,
        take_over=reading.value("take_over", default=False),
        absent=absent,
        where=reading.place.where,
    )


def check_users(topology: Topology, places: Places) -> Iterator[Problem]:
    # One user may have one password on several clusters; two users with one could each log in as the other.
    """No two users share a password, and no user is declared twice on a cluster."""
    by_reference = grouped((user.password, user) for user in topology.users if user.password and not user.absent)
    for reference, users in by_reference.items():
        first, *others = users
        setting = any(user.version != AS_FOUND for user in users)  # otherwise no apply sets a password
        for user in others:
            if setting and user.name != first.name:
                problem = f"{user_words(user.name)} has the password {reference}, as {user_words(first.name)} at"
                why = "Each of the two could log in as the other"
                todo = "Give each user a variable or file of its own"
                where = places.of(user, "password")
                yield Problem("shared-password", where, f"{problem} {first.where}", why, todo)

    declared: dict[tuple[str, str], ScramUser] = {}
    for user in topology.users:
        yield from unknown_clusters(places, topology.clusters, user, user_words(user.name))
        for index, name in enumerate(user.clusters):
            if (other := declared.setdefault((name, user.name), user)) is not user:
                problem = f"{user_words(user.name)} is declared again on {name}, as at {other.where}"
                why, where = "It would be unclear which of the two counts", places.of(user, "clusters", index)
                yield Problem("duplicate-user", where, problem, why, "Remove one")
