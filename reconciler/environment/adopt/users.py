"""Adopts the SCRAM users of a live cluster as ``users`` entries, with the passwords they have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.environment.yaml.nodes import CONTROL
from reconciler.errors import Unknown
from reconciler.model.live import LiveUsers
from reconciler.model.users import AS_FOUND, LEAST_ITERATIONS, Credentials, ScramUser, UserRecord, user_words


@dataclass(frozen=True, slots=True)
class AdoptedUsers:
    users: tuple[ScramUser, ...] = ()
    left_out: tuple[str, ...] = ()


NO_USERS = AdoptedUsers()
TODO = "TODO_PASSWORD_OF_"


def adopt_users(cluster: str, live: LiveUsers | None) -> AdoptedUsers:
    """In the order of their names; none where the users or their record could not be read."""
    if live is None or not isinstance(live.credentials, Mapping) or isinstance(live.recorded, Unknown):
        return NO_USERS
    users: list[ScramUser] = []
    left_out: list[str] = []
    references = _references(live.credentials)
    for name, credentials in sorted(live.credentials.items()):
        if not credentials:
            left_out.append(f"{user_words(name)}: a mechanism that no entry can name")
        elif not name or CONTROL.search(name) or name.startswith("User:"):
            left_out.append(f"{user_words(name)}: a name that no entry can hold")
        elif (record := live.recorded.get(name)) is not None and record.setting is not None:
            left_out.append(f"{user_words(name)}: {record}")
        else:
            number = len(users) + 1
            users.append(_user(number, cluster, name, credentials, record, references[name]))
    return AdoptedUsers(tuple(users), tuple(left_out))


def _references(names: Iterable[str]) -> Mapping[str, str]:
    """A variable of its own for each user: svc.a and svc-a would have one name, so the second one gets a number."""
    variables: dict[str, str] = {}
    for name in sorted(names):
        stem = variable = TODO + re.sub("[^A-Z0-9]", "_", name.upper())
        number = 2
        while variable in variables:
            variable, number = f"{stem}_{number}", number + 1
        variables[variable] = name
    return {name: f"${{env:{variable}}}" for variable, name in variables.items()}


def _user(
    number: int, cluster: str, name: str, credentials: Credentials, record: UserRecord | None, reference: str
) -> ScramUser:
    version = record.version if record is not None and record.version is not None else AS_FOUND
    counts = set(credentials.values())
    iterations = counts.pop() if len(counts) == 1 else None
    return ScramUser(
        number,
        (cluster,),
        name,
        version,
        tuple(sorted(credentials)),
        None if iterations == LEAST_ITERATIONS else iterations,
        reference,
        take_over=version == AS_FOUND,
    )
