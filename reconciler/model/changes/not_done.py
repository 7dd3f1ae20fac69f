"""Findings of a plan without a change: refused, unmanaged and ignored subjects, and changes from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from reconciler.model.changes.subject import Subject
from reconciler.model.changes.vocabulary import Reason, Why
from reconciler.model.environment.topology import TopicRef
from reconciler.model.principals import AclBinding
from reconciler.replication.json_codec import SPARSE


@dataclass(frozen=True, slots=True)
class Refused:
    """An impossible desired state. Blocks apply (exit 3) and is shown beside the changes.

    ``wished``, ``found``: if a live value differs from the desired one, which is then drift, too.
    """

    subject: Subject
    reason: Reason
    todo: str
    wished: str = ""
    found: str = ""

    @classmethod
    def of(cls, subject: Subject, why: Why, text: str, todo: str) -> Refused:
        return cls(subject, Reason(why, text), todo)


@dataclass(frozen=True, slots=True)
class Ignored:
    """A declared or live field that this run leaves alone, by a named rule."""

    subject: Subject
    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Exists on a cluster, is neither declared nor made by a flow. Never touched."""

    ref: TopicRef
    partitions: int


@dataclass(frozen=True, slots=True)
class UnmanagedAcl:
    """A rule that is neither declared nor ours, on a cluster with declared access. Never touched."""

    cluster: str
    acl: AclBinding


@dataclass(frozen=True, slots=True)
class AdoptedAcl:
    """A declared rule that existed before any run of ours: ``apply`` records it as ours without changing the cluster.
    From then on, removing it from the files deletes it. ``title``, ``maker``: as of ``Grant``."""

    cluster: str
    acl: AclBinding
    title: str
    maker: str = field(default="declared", metadata=SPARSE)


class Outside(StrEnum):
    """The value is the code in plans: stable. DELETED to DEFAULT: against what the last apply left. UNDECLARED: an
    override where ``undeclared`` is ``drift``. MIN_INSYNC: min.insync.replicas above the replication factor."""

    DELETED = "deleted"
    RECREATED = "made-anew"
    PARTITIONS = "partitions"
    OVERRIDE = "override"
    DEFAULT = "broker-default"
    UNDECLARED = "undeclared-override"
    MIN_INSYNC = "min-insync-above-factor"


COUNTED = (Outside.RECREATED, Outside.UNDECLARED)
"""Kinds that are drift without a planned change."""


@dataclass(frozen=True, slots=True)
class CopiedAgain:
    """The source of a deleted copy, from which its flow would fill it again."""

    source: Subject
    records: int | None = None
    """Upper bound, from its offsets."""
    bytes: int | None = None
    """On disks of all replicas. None: unknown, with the reason."""
    unknown: str = "it was not read"


@dataclass(frozen=True, slots=True)
class OutsideChange:
    """A change that no apply made, against the state that the last one left. ``before``, ``after``: in words."""

    kind: Outside
    subject: Subject
    """A topic or a cluster."""
    key: str
    """Of a config, else empty."""
    before: str
    after: str
    since: str = ""
    """The apply that left ``before``, or empty."""
    why: str = ""
    """The effect, if it is not obvious."""
    copied_again: CopiedAgain | None = field(default=None, metadata=SPARSE)
    """The effect of a deleted copy."""

    @property
    def name(self) -> str:
        return f"{self.subject} {self.key}" if self.key else str(self.subject)
