"""What every kind of change is told by: its sign, its risk, when it comes, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """The value is the sign shown in plans."""

    CREATE = "+"
    UPDATE = "~"
    RESTART = "!"
    STOP = "-"
    DELETE = "-"


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Stage(StrEnum):
    """The order over all clusters. Target topics exist before anything flows; removals come last.

    What is denied is denied before a topic is made that it is about; what is allowed, once the topic is there.
    """

    DENIALS = "denials"
    TARGET_TOPICS = "target topics"
    USERS = "users"
    ACCESS = "access"
    QUOTAS = "quotas"
    SOURCE_TOPICS = "source topics"
    MIRROR = "mirror"
    REPLICAS = "replicas"
    REMOVALS = "removals"


class Role(StrEnum):
    """Why a topic is wished: declared in git, the remote topic of a flow, or needed by the mirror job."""

    DECLARED = "declared"
    REMOTE = "remote"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is stable and for machines; ``text`` is for people."""

    code: str
    text: str
