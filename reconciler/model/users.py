"""SCRAM users: mechanisms, credentials, and users as an environment declares them (RFC 5802, KIP-554).

No password is ever in one of these values, only the reference to it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.errors import NOWHERE, Where
from reconciler.text import quoted

LEAST_ITERATIONS = 4096
"""As brokers accept them (ScramMechanism.minIterations)."""
AS_FOUND = 0
"""The version of a user whose password is of others, and stays."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@/=+-]*")


class Mechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


Credentials = Mapping[Mechanism, int]
"""A user's credentials as the cluster shows them: mechanism -> iterations. Never a password, nor anything derived from
one."""


@dataclass(frozen=True, slots=True)
class ScramUser:
    """One entry of ``users``."""

    number: int
    """Counts entries from 1, in file order."""
    clusters: tuple[str, ...]
    name: str
    version: int = AS_FOUND
    """Counts its passwords: a higher one sets the password again, since Kafka shows none."""
    mechanisms: tuple[Mechanism, ...] = (Mechanism.SHA_512,)
    """Each gets a credential from the same password."""
    iterations: int | None = None
    """None: an existing credential keeps its number, a new one gets the least."""
    password: str = ""
    """A reference such as ``${env:NAME}``."""
    take_over: bool = False
    """The password of a user that no apply made may be replaced."""
    absent: bool = False
    """The user must not exist."""
    where: Where = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class UserRecord:
    """A user's entry in the ownership record. ``version``: the last one that was certainly set, None without one.
    ``setting``: a version that a run began to set without confirming it, so the password may be the old or the new one.
    ``mechanisms``: those that runs of this environment have set."""

    version: int | None
    mechanisms: tuple[Mechanism, ...] = ()
    setting: int | None = None

    def __str__(self) -> str:
        said = "no version recorded" if self.version is None else f"version {self.version} recorded"
        return said if self.setting is None else f"{said}, version {self.setting} begun and not finished"


def user_words(name: str) -> str:
    """``user orders-app``; a name with other signs in quotes."""
    return f"user {name if _PLAIN.fullmatch(name) else quoted(name)}"


def credentials_text(credentials: Credentials) -> str:
    """``SCRAM-SHA-512 with 4096 iterations``."""
    return ", ".join(f"{mechanism} with {credentials[mechanism]} iterations" for mechanism in sorted(credentials))
