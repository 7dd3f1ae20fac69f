"""What a plan names and will not do: refused, unmanaged and ignored things."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.model.acls import AclBinding
from reconciler.model.changes.reasons import Why
from reconciler.model.changes.subject import Subject
from reconciler.model.changes.vocabulary import Reason
from reconciler.model.environment.topology import TopicRef


@dataclass(frozen=True, slots=True)
class Refused:
    """A desired state that cannot be granted. Blocks apply (exit 3) and is shown beside the changes.

    ``wished`` and ``found`` where a live value differs from it, and is therefore drift as well.
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
    """A rule of a cluster whose access is declared that is neither declared nor made by us. Never touched."""

    cluster: str
    acl: AclBinding


@dataclass(frozen=True, slots=True)
class AdoptedAcl:
    """A rule that is declared and was there before any run of ours: ``apply`` records it as ours, and changes nothing
    on the cluster. Taken out of the files, it is deleted from then on. ``title``: as of ``Grant``."""

    cluster: str
    acl: AclBinding
    title: str
