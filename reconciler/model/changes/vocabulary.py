"""What every change says of itself: its kind, its sign, its risk, when it comes, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from reconciler.model.changes.reasons import Why
from reconciler.model.changes.subject import Subject, of_topic
from reconciler.model.environment.topology import TopicRef


class KindName(StrEnum):
    """Of a kind of resource. What the engine does with it is in its record (``engine.kinds``)."""

    TOPICS = "topics"
    REPLICAS = "replicas"
    ACLS = "acls"
    QUOTAS = "quotas"
    USERS = "users"
    MIRRORS = "mirrors"


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
    """Why a topic is desired: declared in git, the remote topic of a flow, or needed by the mirror job."""

    DECLARED = "declared"
    REMOTE = "remote"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Reason:
    """``code`` is stable and for machines; ``text`` is for people."""

    code: Why
    text: str


class BaseChange:
    """What changes of every kind say of themselves. Each class of ``Change`` has ``cluster`` (empty for what belongs to
    no one cluster), ``subject`` and ``stage`` besides.

    ``word``: of the schemas. ``verb``: what its id begins with.
    """

    __slots__ = ()
    kind: ClassVar[KindName]
    word: ClassVar[str]
    verb: ClassVar[str]

    @property
    def id(self) -> str:
        """Stable over plans: what is done to what."""
        raise NotImplementedError

    @property
    def batch(self) -> str:
        """Equal for changes of one stage and cluster that may travel in one request."""
        return type(self).__name__

    @property
    def values(self) -> tuple[str, ...]:
        """Each field with the value desired for it: ``configs:west/east.orders retention.ms = 60000``."""
        return (self.id,)


class ChangeOfTopic(BaseChange):
    """A change of one topic, or of its replicas."""

    __slots__ = ()
    ref: TopicRef

    @property
    def id(self) -> str:
        return f"{self.verb}:{self.ref}"

    @property
    def cluster(self) -> str:
        return self.ref.cluster

    @property
    def subject(self) -> Subject:
        return of_topic(self.ref)
